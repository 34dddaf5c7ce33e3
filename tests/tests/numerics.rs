//! The element-wise functions over a stratified sample of all floats, and the table of
//! `picoformer_core::numerics`: every row has a test. All floats: `every-float`.

use picoformer_core::Cpu;
use picoformer_core::kernels::activation::Activation;
use picoformer_tests::functions::{BOUNDS, Worst, exact, found, kinds};
use std::path::Path;

const TABLE: &str = include_str!("../../core/src/numerics.md");

#[test]
fn functions_are_within_their_bounds() {
    // Sixteen neighbours in every 2^15, and all around what matters: 0, the borders of normal
    // floats, infinity, and where functions change their way or saturate.
    let run = |first: u32, length: u32| -> Vec<f32> { (first..first + length).map(f32::from_bits).collect() };
    let mut runs: Vec<Vec<f32>> = (0..1 << 17).map(|i: u32| run((i << 15) + i % 251 * 127, 16)).collect();
    for at in
        [1e-38, 0.625, 1.0, 5.5, 9.01, 11.0, 13.2, 16.0, 30.0, 88.0, 88.722, 104.0, 110.0, 150.0, 1000.0]
    {
        for sign in [1.0f32, -1.0] {
            runs.push(run((at * sign).to_bits() - 500, 1000));
        }
    }
    for first in [0, 1 << 31, 0x7f7f_fff0, 0xff7f_fff0] {
        runs.push(run(first, 17));
    }
    // Neighbours lie beside each other, other runs do not: a fall between them is none.
    for bound in BOUNDS {
        let kinds = kinds();
        let mut worst = vec![Worst::default(); kinds.len()];
        for runs in runs.chunks(1 << 10) {
            let x = runs.concat();
            let exact: Vec<f64> = x.iter().map(|x| exact(bound.function, f64::from(*x))).collect();
            for (worst, y) in worst.iter_mut().zip(found(&kinds, bound.function, &x)) {
                let mut at = 0;
                for run in runs {
                    let range = at..at + run.len();
                    worst.add(bound.function, run, &y[range.clone()], &exact[range]);
                    at += run.len();
                }
            }
        }
        for (kind, worst) in kinds.iter().zip(&worst) {
            println!("{:?} on {}: {:.3} ULP at {:e}", bound.function, kind[0].name(), worst.ulps, worst.at);
            worst.check(&bound).unwrap_or_else(|why| panic!("{why}, on {}", kind[0].name()));
        }
    }
}

#[test]
fn functions_are_exact_at_zero_saturate_and_pass_nan_on() {
    let (infinity, denormal) = (f32::INFINITY, f32::from_bits(12345));
    for cpu in Cpu::all() {
        let of = |function, x: f32| {
            let mut y = [x; 17];
            cpu.activate(function, &mut y);
            assert!(y.iter().all(|v| v.to_bits() == y[0].to_bits()), "the tail is as the rest");
            y[0]
        };
        for bound in BOUNDS {
            assert!(of(bound.function, f32::NAN).is_nan(), "{:?} of NaN on {}", bound.function, cpu.name());
            for x in [infinity, -infinity, f32::MAX, f32::MIN, denormal, -denormal] {
                assert!(!of(bound.function, x).is_nan(), "{:?} of {x}", bound.function);
            }
        }
        use Activation::{Exp, GeluErf, GeluTanh, Relu, Sigmoid, Silu, Tanh};
        for function in [Relu, Tanh, GeluErf, GeluTanh, Silu] {
            assert_eq!(of(function, 0.0), 0.0, "{function:?}");
        }
        for small in [0.0, -0.0, denormal, -denormal] {
            assert_eq!((of(Exp, small), of(Sigmoid, small), of(Tanh, small)), (1.0, 0.5, small));
        }
        assert_eq!((of(Exp, infinity), of(Exp, -infinity), of(Exp, 200.0)), (infinity, 0.0, infinity));
        for x in [50.0, f32::MAX, infinity] {
            assert_eq!((of(Tanh, x), of(Tanh, -x)), (1.0, -1.0));
        }
        for x in [200.0, f32::MAX, infinity] {
            assert_eq!((of(Sigmoid, x), of(Sigmoid, -x)), (1.0, 0.0));
            for function in [GeluErf, GeluTanh, Silu] {
                assert_eq!((of(function, x), of(function, -x).abs()), (x, 0.0), "{function:?} of ±{x}");
            }
        }
        for x in (0..1000).map(|i| (i as f32 * 0.01).powi(3)) {
            assert_eq!(of(Tanh, -x), -of(Tanh, x));
        }
    }
}

#[test]
fn every_row_of_the_table_has_its_test_and_its_bound() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let tests: String = ["numerics.rs", "numerics_kernels.rs", "kernels.rs"]
        .map(|file| std::fs::read_to_string(folder.join(file)).unwrap())
        .concat();
    let rows: Vec<Vec<&str>> = TABLE
        .replace("\\|", "¦")
        .leak()
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    assert!(rows.len() > 20);
    for row in &rows {
        let [.., test] = row[..] else { panic!("{row:?}") };
        let name = test.trim_matches('`');
        let known = match name.strip_prefix("tests/") {
            Some(file) => folder.join(file).exists(),
            None => {
                tests.contains(&format!("#[test]\nfn {name}()")) || test == "the same four, but for the third"
            }
        };
        assert!(known && row.len() == 5, "{row:?}");
    }
    for bound in BOUNDS.iter().filter(|bound| bound.ulps > 0.0) {
        let stated = format!("≤ {:.1} ULP", bound.ulps);
        let camel = |name: &str| name.trim_matches('`').replace('_', "").to_lowercase();
        let row = rows.iter().find(|row| camel(row[0]) == format!("{:?}", bound.function).to_lowercase());
        assert!(row.is_some_and(|row| row[2].starts_with(&stated)), "{:?}: {stated}", bound.function);
    }
}
