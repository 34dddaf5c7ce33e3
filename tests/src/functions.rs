//! The element-wise functions in f64, what each backend's may be off by, and how far it is.

use picoformer_core::Cpu;
use picoformer_core::kernels::activation::Activation;

/// What is allowed of one function.
pub struct Bound {
    /// The function.
    pub function: Activation,
    /// How far from the exact result, in units of its last place, on any backend.
    pub ulps: f64,
    /// How many floats it may fall from one number to the next where the function never falls;
    /// none where the function does.
    pub fall: Option<u32>,
}

const fn bound(function: Activation, ulps: f64, fall: Option<u32>) -> Bound {
    Bound { function, ulps, fall }
}

/// The table of `picoformer_core::numerics`.
pub const BOUNDS: [Bound; 7] = [
    bound(Activation::Relu, 0.0, Some(0)),
    bound(Activation::Exp, 1.0, Some(1)),
    bound(Activation::Tanh, 1.5, Some(1)),
    bound(Activation::Sigmoid, 2.0, Some(1)),
    bound(Activation::Silu, 3.0, None),
    bound(Activation::GeluErf, 4.0, None),
    bound(Activation::GeluTanh, 3.0, None),
];

/// `1 / (1 + exp(-x))`.
fn sigmoid(x: f64) -> f64 {
    let e = libm::exp(-x.abs());
    if x < 0.0 { e / (1.0 + e) } else { 1.0 / (1.0 + e) }
}

/// The function's value, as near as f64 has it.
pub fn exact(function: Activation, x: f64) -> f64 {
    match function {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluErf => 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2),
        Activation::GeluTanh => x * sigmoid((8.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)),
        Activation::Silu => x * sigmoid(x),
        Activation::Tanh => libm::tanh(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Exp => libm::exp(x),
    }
}

/// How many last places of the exact result lie between it and `found`. What is beyond the
/// largest float must be that or infinite.
pub fn ulps(found: f32, exact: f64) -> f64 {
    if exact.abs() > f64::from(f32::MAX) {
        let infinite = found.is_infinite() && found.is_sign_positive() == exact.is_sign_positive();
        let (found, exact) = (f64::from(found), f64::from(f32::MAX).copysign(exact));
        return if infinite { 0.0 } else { (found - exact).abs() / 2f64.powi(104) };
    }
    // A last place is 2^-23 of the power of two below, and 2^-149 of denormals.
    let exponent = (exact.abs().max(f64::from(f32::MIN_POSITIVE)).to_bits() >> 52) - 23;
    (f64::from(found) - exact).abs() / f64::from_bits(exponent << 52)
}

/// How many floats lie between `above` and a smaller `below`; 0 where it is not smaller.
fn fall(above: f32, below: f32) -> u32 {
    // As whole numbers in the order of floats, both zeros being one.
    let place = |x: f32| {
        let bits = (x.to_bits() & 0x7fff_ffff) as i64;
        if x.is_sign_negative() { -bits } else { bits }
    };
    (place(above) - place(below)).max(0) as u32
}

/// The worst of some numbers.
#[derive(Clone, Copy, Default)]
pub struct Worst {
    /// The largest error, in ULP.
    pub ulps: f64,
    /// Where it is.
    pub at: f32,
    /// The farthest fall between neighbours, in floats.
    pub fall: u32,
    /// How often it falls.
    pub falls: u64,
}

impl Worst {
    /// Takes what a backend made of floats, one after another (in magnitude), of one sign.
    /// NaN from a number that is none is infinitely wrong.
    pub fn add(&mut self, function: Activation, x: &[f32], found: &[f32], exact: &[f64]) {
        for ((x, y), exact) in x.iter().zip(found).zip(exact) {
            let off = if y.is_nan() && !x.is_nan() { f64::INFINITY } else { ulps(*y, *exact) };
            // The error of NaN is NaN, and greater than nothing.
            if off > self.ulps {
                (self.ulps, self.at) = (off, *x);
            }
            assert!(y.is_nan() || !x.is_nan(), "{function:?} of NaN is {y}");
        }
        let negative = x.first().is_some_and(|x| x.is_sign_negative());
        for pair in found.windows(2) {
            let fall = if negative { fall(pair[1], pair[0]) } else { fall(pair[0], pair[1]) };
            self.fall = self.fall.max(fall);
            self.falls += u64::from(fall > 0);
        }
    }

    /// The worse of both.
    pub fn join(&mut self, other: &Worst) {
        if other.ulps > self.ulps {
            (self.ulps, self.at) = (other.ulps, other.at);
        }
        self.fall = self.fall.max(other.fall);
        self.falls += other.falls;
    }

    /// Why it is too much, if it is.
    pub fn check(&self, bound: &Bound) -> Result<(), String> {
        let Bound { function, ulps, fall } = bound;
        if self.ulps > *ulps {
            return Err(format!("{function:?}: {:.3} ULP at {:e}, {ulps} is allowed", self.ulps, self.at));
        }
        match fall {
            Some(fall) if self.fall > *fall => Err(format!("{function:?} falls by {} floats", self.fall)),
            _ => Ok(()),
        }
    }
}

/// The backends that may differ: the baseline, and the first of those with fused products;
/// the others must have its bits.
pub fn kinds() -> Vec<Vec<Cpu>> {
    let mut all: Vec<Cpu> = Cpu::all().collect();
    let fused = all.split_off(1);
    [all, fused].into_iter().filter(|kind| !kind.is_empty()).collect()
}

/// What each of [`kinds`] makes of `x`.
pub fn found(kinds: &[Vec<Cpu>], function: Activation, x: &[f32]) -> Vec<Vec<f32>> {
    let of = |cpu: &Cpu| {
        let mut y = x.to_vec();
        cpu.activate(function, &mut y);
        y
    };
    let same = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan());
    kinds
        .iter()
        .map(|kind| {
            let first = of(&kind[0]);
            for other in &kind[1..] {
                assert!(same(&first, &of(other)), "{function:?} of {:e}… on {}", x[0], other.name());
            }
            first
        })
        .collect()
}
