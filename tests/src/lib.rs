//! The test harness: functions in f64, golden tensors, tolerances, downloaded models, small models.

#![deny(unsafe_code)]

pub mod everywhere;
pub mod functions;
pub mod golden;
pub mod small;

use std::path::PathBuf;

/// A file under `tests/fixtures`.
pub fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A downloaded model's file, or `None`, said loudly: `tests/fetch-models.sh` fetches them.
pub fn downloaded(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models").join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: {} is absent; tests/fetch-models.sh fetches it", path.display());
    None
}

/// Fails unless `found` is within `bound` of `expected`, relative to its largest value.
#[track_caller]
pub fn assert_close(what: &str, found: &[f32], expected: &[f32], bound: f32) {
    assert_eq!(found.len(), expected.len(), "{what}: lengths");
    let largest = expected.iter().fold(0.0f32, |m, x| m.max(x.abs())).max(f32::MIN_POSITIVE);
    for (i, (x, y)) in found.iter().zip(expected).enumerate() {
        let off = (x - y).abs() / largest;
        assert!(
            off <= bound,
            "{what}[{i}]: {x} should be {y}; off by {off:e} of the largest, {bound:e} is allowed"
        );
    }
}

/// A fixed, plain pseudo-random sequence in -1..1, the same everywhere.
pub fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}
