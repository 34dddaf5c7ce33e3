//! The softmax that goes on from one part of the keys to the next (Milakov, Gimelshein 2018;
//! Rabe, Staats 2021).

use super::ROWS;
use crate::kernels::activation::exp_below_89;
use crate::kernels::softmax::{exponentials, largest};
use crate::line::LANES;
use crate::simd::Simd;

/// How far the softmax of a few queries has come.
pub(super) struct Online {
    rows: usize,
    /// A factor of all scores.
    scale: f32,
    /// The largest score of each row so far, scaled.
    shift: [f32; ROWS],
    /// The sum of `exp(score - shift)` so far.
    sum: [f32; ROWS],
    /// What the rows' sums until now must be multiplied by, for the largest has grown.
    before: [f32; ROWS],
    /// What the rows' sums with these weights must be multiplied by.
    after: [f32; ROWS],
}

/// The lanes of a line.
const LANE: [f32; LANES] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

impl Online {
    pub(super) fn new(rows: usize, scale: f32) -> Self {
        let (shift, sum) = ([f32::NEG_INFINITY; ROWS], [0.0; ROWS]);
        Online { rows, scale, shift, sum, before: [1.0; ROWS], after: [1.0; ROWS] }
    }

    pub(super) fn before(&self, row: usize) -> f32 {
        self.before.get(row).copied().unwrap_or(1.0)
    }

    pub(super) fn after(&self, row: usize) -> f32 {
        self.after.get(row).copied().unwrap_or(1.0)
    }

    /// Makes rows of scores, `lines` lines each, of which `seen` are seen, weights; the keys of
    /// the `last` part complete them.
    #[inline(always)]
    pub(super) fn weigh<S: Simd>(
        &mut self,
        s: S,
        scores: &mut [[f32; LANES]],
        lines: usize,
        seen: &[usize; ROWS],
        last: bool,
    ) {
        // for each row:
        //     top = max(shift, largest(score) * scale)
        //     score = exp(score * scale - top), 0 where it is not seen
        //     before = exp(shift - top)
        //     (shift, sum) = (top, sum * before + Σ score)
        //     after = last ? 1 / sum : 1
        //
        // Each step for all rows before the next step: within a row each must wait for the
        // one before. Lanes are masked in registers, for a load after a store of some lanes
        // would have to wait as well.
        let (rows, lines) = (self.rows.min(ROWS), lines.max(1));
        let mut top = [f32::NEG_INFINITY; ROWS];
        let each = scores.chunks_exact(lines).zip(seen).zip(&self.shift).zip(&mut top);
        for (((row, seen), shift), top) in each.take(rows) {
            let (full, rest) = row.split_at((seen / LANES).min(row.len()));
            let mut lanes = [0.0; LANES];
            for part in 0..S::PARTS {
                let s = s.part(part);
                let last = match rest.first() {
                    Some(x) => visible(s, x, *seen),
                    None => s.splat(f32::NEG_INFINITY),
                };
                s.store(s.max(largest(s, full), last), &mut lanes);
            }
            let largest = s.largest(&lanes) * self.scale;
            *top = if largest > *shift { largest } else { *shift };
        }
        let mut sums = [0.0; ROWS];
        let each = scores.chunks_exact_mut(lines).zip(seen).zip(&top).zip(&mut sums);
        for (((row, seen), top), sum) in each.take(rows) {
            // Where nothing is seen yet, subtract nothing: -inf minus -inf would be NaN.
            let shift = if *top > f32::NEG_INFINITY { *top } else { 0.0 };
            let (full, rest) = row.split_at_mut((seen / LANES).min(row.len()));
            let (mut last, beyond) = match rest.split_first_mut() {
                Some((last, beyond)) => (Some(last), beyond),
                None => (None, &mut [][..]),
            };
            let mut lanes = [0.0; LANES];
            for part in 0..S::PARTS {
                let s = s.part(part);
                let mut sums = exponentials(s, full, self.scale, shift);
                if let Some(x) = last.as_deref_mut() {
                    let score = s.mul_add(visible(s, x, *seen), s.splat(self.scale), s.splat(-shift));
                    let e = exp_below_89(s, score);
                    s.store(e, x);
                    sums = s.add(sums, e);
                }
                s.store(sums, &mut lanes);
            }
            beyond.as_flattened_mut().fill(0.0);
            *sum = s.sum(&lanes);
        }
        let state = self.shift.iter_mut().zip(&mut self.sum).zip(self.before.iter_mut().zip(&mut self.after));
        for ((((shift, total), (before, after)), top), sum) in state.zip(top).zip(sums).take(rows) {
            // Exactly 1 where the largest stays.
            *before = if *shift == top { 1.0 } else { exp_of_one(s, *shift - top) };
            (*shift, *total) = (top, *total * *before + sum);
            *after = match last {
                true if *total == 0.0 => 0.0,
                true => 1.0 / *total,
                false => 1.0,
            };
        }
    }

    /// Adds to row `r`'s weights of `all` keys those of the keys `from` on; what comes after is
    /// 0.
    pub(super) fn show(&self, r: usize, all: &mut [f32], from: usize, weights: &[f32]) {
        let (before, after) = (self.before(r), self.after(r));
        let (old, new) = all.split_at_mut(from.min(all.len()));
        old.iter_mut().for_each(|w| *w *= before * after);
        let weights = weights.iter().map(|w| w * after).chain(core::iter::repeat(0.0));
        new.iter_mut().zip(weights).for_each(|(all, w)| *all = w);
    }
}

/// The scores of a row's last line, of which the lanes up to `seen` are seen.
#[inline(always)]
fn visible<S: Simd>(s: S, x: &[f32; LANES], seen: usize) -> S::V {
    let left = s.splat((seen % LANES) as f32);
    s.select_lt(s.load(&LANE), left, s.load(x), s.splat(f32::NEG_INFINITY))
}

/// `exp(x)` of one number that is not above 89.
#[inline(always)]
fn exp_of_one<S: Simd>(s: S, x: f32) -> f32 {
    // The first part of the keys, mostly: nothing was before.
    if x == f32::NEG_INFINITY {
        return 0.0;
    }
    let mut all = [0.0; LANES];
    let first = s.part(0);
    first.store(exp_below_89(first, first.splat(x)), &mut all);
    let [first, ..] = all;
    first
}
