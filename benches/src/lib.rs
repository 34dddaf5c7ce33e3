//! What the benches share beside [`picoformer::measure`]: shapes, plain answers and checks.
//!
//! | bench | what it prints |
//! |---|---|
//! | `kernels` | every kernel on every backend, beside the crates that have it too |
//! | `models` | whole models on every backend, from tokens to answer |
//! | `table` | every row: time, rate and share of the peak on every backend, beside peers |
//! | `peers.py` | whole models beside other engines, with the same weights |
//!
//! | program | what it holds, whatever else the machine does |
//! |---|---|
//! | `instructions` | kernels and a layer take as many instructions as `instructions.txt` says |
//! | `spills` | the inner loops of the matmul tile keep their sums in registers |
//!
//! Every answer is checked, against plain loops in `f64` or known results, before it is
//! timed. Nothing is asserted about time, and nothing is pinned: use `taskset -c 1`.

#![deny(unsafe_code)]

pub mod plain;
#[allow(unsafe_code)]
pub mod read;
pub mod row;

pub use picoformer::measure::{Buffer, median, peak};

/// Panics unless `found` is `expected` within `bound`, relative to the larger of it and 1.
#[track_caller]
pub fn assert_near(what: &str, found: f32, expected: f64, bound: f64) {
    let error = (f64::from(found) - expected).abs() / expected.abs().max(1.0);
    assert!(error <= bound, "{what}: {found} should be {expected} within {bound:e}");
}

/// A few indices of `0..length`: the first, the last, and some between.
pub fn some(length: usize) -> impl Iterator<Item = usize> {
    [0, length / 3, length / 2, length * 6 / 7, length.saturating_sub(1)].into_iter().take(length)
}
