//! Softmax of a row, in place.

use super::activation::exp;
use crate::line::LANES;
use crate::simd::{Simd, padded, store_part};

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
    let last = s.load(&padded(tail, f32::NEG_INFINITY));
    let mut max = last;
    for x in lines.iter() {
        max = s.max(max, s.load(x));
    }
    // Where nothing is finite, subtract nothing: -inf minus -inf would be NaN.
    let max = s.largest(max);
    let max = s.splat(if max > f32::NEG_INFINITY { max } else { 0.0 });

    let mut sum = s.splat(0.0);
    for x in lines.iter_mut() {
        let e = exp(s, s.sub(s.load(x), max));
        s.store(e, x);
        sum = s.add(sum, e);
    }
    let last = exp(s, s.sub(last, max));
    let sum = s.sum(s.add(sum, last));

    let scale = s.splat(if sum == 0.0 { 0.0 } else { 1.0 / sum });
    for x in lines.iter_mut() {
        let y = s.mul(s.load(x), scale);
        s.store(y, x);
    }
    store_part(s, s.mul(last, scale), tail);
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
