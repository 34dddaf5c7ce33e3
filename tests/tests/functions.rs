//! The element-wise functions over a stratified sample of all floats: no NaN from finite
//! input, and the worst error of each in units of the last place, as a table with reasons.

use picoformer_core::Cpu;
use picoformer_core::kernels::activation::Activation;

/// What is allowed, in ULP, with fused products and without.
const BOUNDS: [(Activation, f64, f64, &str); 7] = [
    (Activation::Relu, 0.0, 0.0, "exact"),
    (Activation::Exp, 1.0, 1.25, "one rounding of the polynomial, one of the product"),
    (Activation::Tanh, 2.0, 2.0, "a quotient of exp beyond 0.625"),
    (Activation::Sigmoid, 2.5, 2.5, "the error of exp and of a division"),
    (Activation::Silu, 3.25, 3.5, "sigmoid's and one product's"),
    (Activation::GeluErf, 6.5, 7.0, "the tail's exp of a square, and the rational part"),
    (Activation::GeluTanh, 220.0, 220.0, "the cubic's rounding, magnified by exp far below zero"),
];

fn sigmoid(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn exact(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluErf => 0.5 * x * libm::erfc(-x / 2f64.sqrt()),
        Activation::GeluTanh => x * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)),
        Activation::Silu => x * sigmoid(x),
        Activation::Tanh => x.tanh(),
        Activation::Sigmoid => sigmoid(x),
        Activation::Exp => x.exp(),
    }
}

/// How many last places of the exact result lie between it and `found`.
fn ulps(found: f32, exact: f64) -> f64 {
    if f64::from(f32::MAX) * (1.0 + 2f64.powi(-25)) < exact.abs() {
        return if found.is_infinite() || found.abs() == f32::MAX { 0.0 } else { f64::INFINITY };
    }
    let magnitude = exact.abs().max(f64::from(f32::MIN_POSITIVE));
    (f64::from(found) - exact).abs() / 2f64.powi(magnitude.log2().floor() as i32 - 23)
}

#[test]
fn functions_are_within_their_bounds_over_a_sample_of_all_floats() {
    let xs: Vec<f32> =
        (0..=u32::MAX / 8191).map(|i| f32::from_bits(i * 8191)).filter(|x| x.is_finite()).collect();
    for (function, fused, unfused, _) in BOUNDS {
        for cpu in Cpu::all() {
            let mut ys = xs.clone();
            cpu.activate(function, &mut ys);
            let mut worst = (0.0, 0.0, 0.0);
            for (x, y) in xs.iter().zip(&ys) {
                assert!(!y.is_nan(), "{function:?}({x:e}) on {}", cpu.name());
                let off = ulps(*y, exact(function, f64::from(*x)));
                if off > worst.0 {
                    worst = (off, *x, *y);
                }
            }
            let bound = if cpu.name() == "baseline" { unfused } else { fused };
            println!("{function:?} on {}: {:.2} ULP at {:e}", cpu.name(), worst.0, worst.1);
            assert!(worst.0 <= bound, "{function:?} on {}: {worst:?}, {bound} is allowed", cpu.name());
        }
    }
}

#[test]
fn functions_are_exact_at_zero_saturate_and_pass_nan_on() {
    for cpu in Cpu::all() {
        let of = |function, x: f32| {
            let mut y = [x; 17];
            cpu.activate(function, &mut y);
            assert!(y.iter().all(|v| v.to_bits() == y[0].to_bits()), "the tail is as the rest");
            y[0]
        };
        for (function, _, _, _) in BOUNDS {
            assert!(of(function, f32::NAN).is_nan(), "{function:?} of NaN on {}", cpu.name());
        }
        for function in
            [Activation::Relu, Activation::Tanh, Activation::GeluErf, Activation::GeluTanh, Activation::Silu]
        {
            assert_eq!(of(function, 0.0), 0.0, "{function:?}");
        }
        assert_eq!((of(Activation::Exp, 0.0), of(Activation::Sigmoid, 0.0)), (1.0, 0.5));
        assert_eq!(
            (of(Activation::Exp, f32::INFINITY), of(Activation::Exp, f32::NEG_INFINITY)),
            (f32::INFINITY, 0.0)
        );
        assert_eq!((of(Activation::Tanh, 50.0), of(Activation::Tanh, -50.0)), (1.0, -1.0));
        assert_eq!((of(Activation::Sigmoid, 200.0), of(Activation::Sigmoid, -200.0)), (1.0, 0.0));
        for function in [Activation::GeluErf, Activation::GeluTanh, Activation::Silu] {
            assert_eq!(of(function, 3e38), 3e38, "{function:?}");
            assert_eq!(of(function, -3e38).abs(), 0.0, "{function:?}");
        }
    }
}
