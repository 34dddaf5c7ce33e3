//! Softmax of a row, in place, and its two passes, which attention shares.

use super::activation::exp_below_89;
use crate::line::LANES;
use crate::simd::Simd;

/// `x = exp(x - max) / Σ exp(x - max)` of one row.
///
/// -inf gives 0, and a row of nothing else gives zeros. Finite input gives finite
/// output. Lane `i % 16` sums entry `i`, and the lanes are summed in the order of
/// [`Simd::sum`]: appending -inf to a row changes no bit of the others.
#[inline(always)]
pub fn softmax<S: Simd>(s: S, row: &mut [f32]) {
    // max = largest(row)
    // for x in row: x = exp(x - max); sum += x
    // for x in row: x /= sum
    let (lines, tail) = row.as_chunks_mut::<LANES>();
    let (mut lanes, mut last) = ([0.0; LANES], [0.0; LANES]);
    for part in 0..S::PARTS {
        let s = s.part(part);
        let x = s.load_part(tail, f32::NEG_INFINITY);
        s.store(x, &mut last);
        s.store(s.max(x, largest(s, lines)), &mut lanes);
    }
    // Where nothing is finite, subtract nothing: -inf minus -inf would be NaN.
    let max = s.largest(&lanes);
    let max = if max > f32::NEG_INFINITY { max } else { 0.0 };

    for part in 0..S::PARTS {
        let s = s.part(part);
        let mut sum = exponentials(s, lines, 1.0, max);
        if !tail.is_empty() {
            let e = exp_below_89(s, s.sub(s.load(&last), s.splat(max)));
            s.store(e, &mut last);
            sum = s.add(sum, e);
        }
        s.store(sum, &mut lanes);
    }
    let sum = s.sum(&lanes);

    let scale = if sum == 0.0 { 0.0 } else { 1.0 / sum };
    for part in 0..S::PARTS {
        let s = s.part(part);
        let scale = s.splat(scale);
        for x in &mut *lines {
            s.store(s.mul(s.load(x), scale), x);
        }
        if !tail.is_empty() {
            s.store_part(s.mul(s.load(&last), scale), tail);
        }
    }
}

/// The largest of each lane; -inf of no lines.
#[inline(always)]
pub(crate) fn largest<S: Simd>(s: S, lines: &[[f32; LANES]]) -> S::V {
    // Four in turn, for each comparison waits for the one before.
    const AT_ONCE: usize = 4;
    let mut max = [s.splat(f32::NEG_INFINITY); AT_ONCE];
    let (fours, rest) = lines.as_chunks::<AT_ONCE>();
    for four in fours {
        unroll!(I < AT_ONCE { max[I] = s.max(max[I], s.load(&four[I])); });
    }
    for x in rest {
        max[0] = s.max(max[0], s.load(x));
    }
    s.max(s.max(max[0], max[1]), s.max(max[2], max[3]))
}

/// `x = exp(x * scale - shift)`, where that is at most a little above 0; gives the sum of
/// each lane.
#[inline(always)]
pub(crate) fn exponentials<S: Simd>(s: S, lines: &mut [[f32; LANES]], scale: f32, shift: f32) -> S::V {
    let (scale, shift) = (s.splat(scale), s.splat(-shift));
    let mut sum = s.splat(0.0);
    for x in lines {
        let e = exp_below_89(s, s.mul_add(s.load(x), scale, shift));
        s.store(e, x);
        sum = s.add(sum, e);
    }
    sum
}

/// [`softmax`] of each row of `x[rows × cols]`.
#[inline(always)]
pub fn softmax_rows<S: Simd>(s: S, x: &mut [f32], cols: usize) {
    if cols == 0 {
        return;
    }
    for row in x.chunks_mut(cols) {
        softmax(s, row);
    }
}
