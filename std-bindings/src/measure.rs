//! What measuring needs, for `picoformer bench` and the benches: numbers, kernels ready to
//! run, the rate of something, and the peak to compare it with.

pub mod cases;
#[allow(unsafe_code)]
pub mod peak;

use picoformer_core::{LANES, Line};
use std::ops::{Deref, DerefMut};
use std::time::Instant;

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

/// The middle one.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Work a nanosecond (GFLOP/s for flops): the best of `stretches` of about half a millisecond, so
/// that other programs on this core do not count. `run` does `work` once.
pub fn rate(work: u64, stretches: usize, mut run: impl FnMut()) -> f64 {
    // The first run warms the caches, the second says how many fill a stretch.
    run();
    let once = seconds(1, &mut run);
    let times = ((500e-6 / once.max(1e-9)) as u64).max(1);
    let stretch = |_| work as f64 * 1e-9 / seconds(times, &mut run);
    (0..stretches).map(stretch).fold(0.0, f64::max)
}

/// Seconds of one of `times` runs.
pub fn seconds(times: u64, mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    (0..times).for_each(|_| run());
    start.elapsed().as_secs_f64().max(1e-9) / times.max(1) as f64
}
