//! A kernel on every backend of the machine, between guards, beside numbers in f64.

use picoformer_core::kernels::pack::{pack_linear, panel_lines};
use picoformer_core::{Cpu, Line};

const GUARD: f32 = 4321.5;

/// Floats in lines, zeros after them.
pub fn lines(floats: &[f32]) -> Vec<Line> {
    let mut lines = vec![Line::ZERO; Line::count(floats.len())];
    Line::floats_mut(&mut lines)[..floats.len()].copy_from_slice(floats);
    lines
}

/// The panels of `weights[cols × depth]`.
pub fn packed(weights: &[f32], cols: usize, depth: usize) -> Vec<Line> {
    let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
    pack_linear(weights, cols, depth, &mut panels);
    panels
}

/// Runs a kernel in place over `x` at an address that is `shift` floats past a line, on
/// every backend: guards must stay, fused backends must agree. Gives the baseline's result
/// and then the fused one.
pub fn everywhere(x: &[f32], shift: usize, f: impl Fn(Cpu, &mut [f32])) -> Vec<f32> {
    let mut results: Vec<Vec<f32>> = Vec::new();
    for cpu in Cpu::all() {
        let mut room = vec![Line([GUARD; 16]); Line::count(x.len()) + 3];
        let floats = Line::floats_mut(&mut room);
        let start = 16 + shift;
        floats[start..start + x.len()].copy_from_slice(x);
        f(cpu, &mut floats[start..start + x.len()]);
        let outside = floats[..start].iter().chain(&floats[start + x.len()..]);
        assert!(outside.copied().all(|g| g == GUARD), "{} wrote outside", cpu.name());
        results.push(floats[start..start + x.len()].to_vec());
    }
    if let [_, fused @ ..] = &results[..] {
        for pair in fused.windows(2) {
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&pair[0]), bits(&pair[1]), "fused backends");
        }
    }
    // All are checked against the reference by whoever asks: the worst of each element
    // would hide which backend it is, so the baseline and the last are joined.
    results.swap_remove(0).into_iter().chain(results.pop().unwrap_or_default()).collect()
}

/// Fails unless each of `found`, once or several times `expected`, is within its bound.
#[track_caller]
pub fn assert_all(what: &str, found: &[f32], expected: &[f64], bound: impl Fn(usize) -> f64) {
    for (i, (x, y)) in found.iter().zip(expected.iter().cycle()).enumerate() {
        let allowed = bound(i % expected.len());
        assert!((f64::from(*x) - y).abs() <= allowed, "{what}[{i}]: {x} should be {y} within {allowed:e}");
    }
}
