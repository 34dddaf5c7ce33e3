//! The kernels against PyTorch's results, on every backend: within 2e-6 of the tensor's
//! largest value.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use picoformer_core::{Cpu, Line};
use picoformer_tests::assert_close;
use picoformer_tests::golden::Golden;

const KERNELS: f32 = 2e-6;

fn lines(floats: &[f32]) -> Vec<Line> {
    let mut lines = vec![Line::ZERO; Line::count(floats.len())];
    Line::floats_mut(&mut lines)[..floats.len()].copy_from_slice(floats);
    lines
}

#[test]
fn softmax_is_pytorchs() {
    for size in ["7x5", "3x1", "16x64", "9x257", "4x1000"] {
        let golden = Golden::open(&format!("softmax_{size}"));
        let ((x, shape), (expected, _)) = (golden.floats("in.x"), golden.floats("out.y"));
        for cpu in Cpu::all() {
            let mut y = x.clone();
            cpu.softmax(&mut y, shape[1]).unwrap();
            assert_close(&format!("softmax {size} on {}", cpu.name()), &y, &expected, KERNELS);
        }
    }
}

#[test]
fn layer_norm_is_pytorchs_with_and_without_a_residual() {
    for size in ["7x5", "3x1", "16x64", "9x257", "4x1000"] {
        let golden = Golden::open(&format!("layer_norm_{size}"));
        let ((x, shape), (expected, _)) = (golden.floats("in.x"), golden.floats("out.y"));
        let (gamma, beta) = (lines(&golden.floats("w.gamma").0), lines(&golden.floats("w.beta").0));
        for cpu in Cpu::all() {
            let mut y = x.clone();
            cpu.layer_norm(&mut y, shape[1], None, &gamma, &beta, 1e-5).unwrap();
            assert_close(&format!("layer norm {size} on {}", cpu.name()), &y, &expected, KERNELS);
            // Halves add up exactly.
            let half: Vec<f32> = x.iter().map(|x| x / 2.0).collect();
            let mut y = half.clone();
            cpu.layer_norm(&mut y, shape[1], Some(&half), &gamma, &beta, 1e-5).unwrap();
            assert_close(&format!("with residual, {size} on {}", cpu.name()), &y, &expected, KERNELS);
        }
    }
}

#[test]
fn activations_are_pytorchs() {
    let golden = Golden::open("activations");
    let (x, _) = golden.floats("in.x");
    for (name, activation) in [
        ("relu", Activation::Relu),
        ("gelu_erf", Activation::GeluErf),
        ("gelu_tanh", Activation::GeluTanh),
        ("silu", Activation::Silu),
        ("exp", Activation::Exp),
        ("tanh", Activation::Tanh),
        ("sigmoid", Activation::Sigmoid),
    ] {
        let (expected, _) = golden.floats(&format!("out.{name}"));
        for cpu in Cpu::all() {
            let mut y = x.clone();
            cpu.activate(activation, &mut y);
            assert_close(&format!("{name} on {}", cpu.name()), &y, &expected, KERNELS);
        }
    }
}

/// PyTorch's table has its angles in f32, so at position p it is itself off by up to
/// p · 2^-23 of an angle; ours is the formula in f64. Both are held to the formula.
#[test]
fn sinusoidal_positions_are_the_papers_formula_and_pytorchs_within_its_own_rounding() {
    let golden = Golden::open("positional_encoding");
    for (name, d_model) in [("pe_64", 64), ("pe_7", 7), ("pe_512", 512)] {
        let (expected, shape) = golden.floats(&format!("out.{name}"));
        let mut found = vec![0.0; expected.len()];
        add_sinusoidal(Sinusoid::Interleaved, 0, &mut found, d_model);
        for (i, (x, y)) in found.iter().zip(&expected).enumerate() {
            let position = i / shape[1];
            let bound = KERNELS + position as f32 * 2f32.powi(-23);
            assert!((x - y).abs() <= bound, "{name}[{position}]: {x}, {y}");
        }
    }
}

#[test]
fn sinusoidal_positions_hold_at_position_5000_in_both_layouts() {
    for d_model in [1, 2, 7, 64, 512] {
        let mut interleaved = vec![0.0; 3 * d_model];
        let mut halves = interleaved.clone();
        add_sinusoidal(Sinusoid::Interleaved, 4999, &mut interleaved, d_model);
        add_sinusoidal(Sinusoid::Halves, 4999, &mut halves, d_model);
        for (row, position) in (4999..5002).enumerate() {
            for feature in 0..d_model {
                let angle = f64::from(position) / 10000f64.powf((feature / 2 * 2) as f64 / d_model as f64);
                let expected = if feature % 2 == 0 { angle.sin() } else { angle.cos() };
                let half = feature / 2 + if feature % 2 == 0 { 0 } else { d_model.div_ceil(2) };
                for found in [interleaved[row * d_model + feature], halves[row * d_model + half]] {
                    assert!((f64::from(found) - expected).abs() < 1e-7, "{d_model}, {position}, {feature}");
                }
            }
        }
    }
}
