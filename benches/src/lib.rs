//! What the benches share: deterministic numbers, checks, and the peak to compare with.
//!
//! | bench | what it prints |
//! |---|---|
//! | `kernels` | every kernel on every backend, beside the crates that have it too |
//! | `models` | whole models on every backend, from tokens to answer |
//! | `table` | every row: time, rate and share of the peak on every backend, beside peers |
//! | `peak` | one table: backend × matmul shape, GFLOP/s and share of the peak |
//!
//! | program | what it holds, whatever else the machine does |
//! |---|---|
//! | `instructions` | kernels and a layer take as many instructions as `instructions.txt` says |
//! | `spills` | the inner loops of the matmul tile keep their sums in registers |
//!
//! Every answer is checked, against plain loops in `f64` or known results, before it is
//! timed. Nothing is asserted about time, and nothing is pinned: use `taskset -c 1`.

#![deny(unsafe_code)]

pub mod matmul;
#[allow(unsafe_code)]
pub mod peak;
pub mod plain;
#[allow(unsafe_code)]
pub mod read;
pub mod row;

use picoformer_core::{LANES, Line};
use std::ops::{Deref, DerefMut};

/// Floats that start on a cache line, as they do in an arena.
#[derive(Clone, Debug)]
pub struct Buffer {
    lines: Vec<Line>,
    length: usize,
}

impl Buffer {
    /// Zeros.
    pub fn zeros(length: usize) -> Self {
        Buffer { lines: vec![Line::ZERO; Line::count(length)], length }
    }

    /// Numbers between -1 and 1: the same for the same `seed`, everywhere.
    pub fn random(seed: u64, length: usize) -> Self {
        let mut buffer = Self::zeros(length);
        // SplitMix64; its upper 24 bits become the float, exactly.
        let mut state = seed.wrapping_mul(0xA076_1D64_78BD_642F);
        for x in buffer.iter_mut() {
            state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            *x = ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0;
        }
        buffer
    }

    /// The same as lines; what the last has beyond the floats is zero.
    pub fn lines(&self) -> &[Line] {
        debug_assert!(self.lines.len() == self.length.div_ceil(LANES));
        &self.lines
    }
}

impl Deref for Buffer {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        &Line::floats(&self.lines)[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut Line::floats_mut(&mut self.lines)[..self.length]
    }
}

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

/// The middle one.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
