//! LayerNorm and RMSNorm of each row, in place, with the residual addition before them.

use crate::line::{LANES, Line};
use crate::simd::Simd;

/// Sums that take lines in turn, for each addition waits for the one before.
const AT_ONCE: usize = 4;

/// `x += y`, as far as both go.
#[inline(always)]
pub fn add<S: Simd>(s: S, x: &mut [f32], y: &[f32]) {
    let ((x, x_tail), (y, y_tail)) = (x.as_chunks_mut::<LANES>(), y.as_chunks::<LANES>());
    for part in 0..S::PARTS {
        let s = s.part(part);
        for (x, y) in x.iter_mut().zip(y) {
            let sum = s.add(s.load(x), s.load(y));
            s.store(sum, x);
        }
    }
    // The rest of `y` may be longer than that of `x`, or start in its next chunk.
    let rest = y.get(x.len()).map_or(y_tail, |y| y.as_slice());
    for (x, y) in x_tail.iter_mut().zip(rest) {
        *x += y;
    }
}

/// `x = (x + residual - mean) / sqrt(variance + eps) * gamma + beta` for each row of
/// `x[rows × cols]` (Ba, Kiros, Hinton 2016, with the biased variance).
///
/// `gamma` is `ceil(cols / 16)` lines; so is `beta`, or it is empty. A row of one number
/// repeated gives exactly `beta`, and finite sums with the residual, however large, what is
/// right; infinity or NaN make a row NaN.
#[inline(always)]
pub fn layer_norm<S: Simd>(
    s: S,
    x: &mut [f32],
    cols: usize,
    residual: Option<&[f32]>,
    gamma: &[Line],
    beta: &[Line],
    eps: f32,
) {
    // for each row:
    //     x += residual
    //     mean = Σ x / cols
    //     variance = Σ (x - mean)² / cols
    //     x = (x - mean) / sqrt(variance + eps) * gamma + beta
    //
    // The mean is rounded to the spacing of floats at its own size, which is much when
    // it is 10⁴ deviations away. So sums are of differences from the row's first number,
    // and the second pass also sums what the rounded mean left.
    if cols == 0 {
        return;
    }
    let share = 1.0 / cols as f32;
    let mut residual = residual.map(|y| y.chunks_exact(cols));
    for row in x.chunks_exact_mut(cols) {
        let mut residual = residual.as_mut().and_then(|y| y.next());
        let (mut eps, mut large) = (eps, false);
        loop {
            let (first, shift) = match residual.take() {
                Some(y) => added(s, row, y),
                None => {
                    let first = row.first().copied().unwrap_or(0.0);
                    (first, differences(s, row, first).0)
                }
            };
            let mean = first + shift * share;
            let (left, squares) = differences(s, row, mean);
            let correction = left * share;
            let variance = squares * share - correction * correction;
            if variance < f32::INFINITY || large {
                normalize(s, row, mean, correction, inverse_root(s, variance, eps), gamma, beta);
                break;
            }
            (eps, large) = (0.0, true);
            make_small(row);
        }
    }
}

/// Squares too large for `f32` are those of a row for which `eps` is nothing, and whose size
/// makes no difference: it may be smaller.
#[cold]
fn make_small(row: &mut [f32]) {
    const SMALL: f32 = 1.0 / (1u128 << 76) as f32;
    for x in row {
        *x *= SMALL;
    }
}

/// `x = (x + residual) / sqrt(Σ (x + residual)² / cols + eps) * gamma` for each row of
/// `x[rows × cols]` (Zhang, Sennrich 2019). `gamma` is `ceil(cols / 16)` lines.
#[inline(always)]
pub fn rms_norm<S: Simd>(
    s: S,
    x: &mut [f32],
    cols: usize,
    residual: Option<&[f32]>,
    gamma: &[Line],
    eps: f32,
) {
    if cols == 0 {
        return;
    }
    if let Some(y) = residual {
        add(s, x, y);
    }
    let share = 1.0 / cols as f32;
    for row in x.chunks_exact_mut(cols) {
        let (_, mut squares) = differences(s, row, 0.0);
        let mut eps = eps;
        if squares == f32::INFINITY {
            eps = 0.0;
            make_small(row);
            squares = differences(s, row, 0.0).1;
        }
        normalize(s, row, 0.0, 0.0, inverse_root(s, squares * share, eps), gamma, &[]);
    }
}

/// `1 / sqrt(variance + eps)`, or 0 where that is no number: a row without variance is
/// all zeros before `beta`.
#[inline(always)]
fn inverse_root<S: Simd>(s: S, variance: f32, eps: f32) -> f32 {
    // Rounding may leave a variance just below zero.
    let variance = if variance < 0.0 { 0.0 } else { variance } + eps;
    if variance == 0.0 { 0.0 } else { 1.0 / s.sqrt(variance) }
}

/// `x += y`, and `(first, Σ x - first)` of the new row's first number.
#[inline(always)]
fn added<S: Simd>(s: S, row: &mut [f32], y: &[f32]) -> (f32, f32) {
    let first = row.first().unwrap_or(&0.0) + y.first().unwrap_or(&0.0);
    let ((lines, tail), (y, y_tail)) = (row.as_chunks_mut::<LANES>(), y.as_chunks::<LANES>());
    let ((fours, rest), (y, y_rest)) = (lines.as_chunks_mut::<AT_ONCE>(), y.as_chunks::<AT_ONCE>());
    let mut lanes = [0.0; LANES];
    for part in 0..S::PARTS {
        let s = s.part(part);
        let from = s.splat(first);
        let mut sums = [s.splat(0.0); AT_ONCE];
        for (x, y) in fours.iter_mut().zip(y) {
            unroll!(I < AT_ONCE {
                let sum = s.add(s.load(&x[I]), s.load(&y[I]));
                s.store(sum, &mut x[I]);
                sums[I] = s.add(sums[I], s.sub(sum, from));
            });
        }
        for (x, y) in rest.iter_mut().zip(y_rest) {
            let sum = s.add(s.load(x), s.load(y));
            s.store(sum, x);
            sums[0] = s.add(sums[0], s.sub(sum, from));
        }
        if !tail.is_empty() {
            let sum = s.add(s.load_part(tail, first), s.load_part(y_tail, 0.0));
            s.store_part(sum, tail);
            // Beyond the row, differences of zero.
            sums[1] = s.add(sums[1], s.sub(sum, from));
        }
        s.store(s.add(s.add(sums[0], sums[2]), s.add(sums[1], sums[3])), &mut lanes);
    }
    (first, s.sum(&lanes))
}

/// `(Σ d, Σ d²)` of `d = x - from`, in the order of [`added`].
#[inline(always)]
fn differences<S: Simd>(s: S, row: &[f32], from: f32) -> (f32, f32) {
    let (lines, tail) = row.as_chunks::<LANES>();
    let (fours, rest) = lines.as_chunks::<AT_ONCE>();
    let (mut sum_lanes, mut square_lanes) = ([0.0; LANES], [0.0; LANES]);
    for part in 0..S::PARTS {
        let s = s.part(part);
        let line = s.splat(from);
        let (mut sums, mut squares) = ([s.splat(0.0); AT_ONCE], [s.splat(0.0); AT_ONCE]);
        for four in fours {
            unroll!(I < AT_ONCE {
                let d = s.sub(s.load(&four[I]), line);
                sums[I] = s.add(sums[I], d);
                squares[I] = s.mul_add(d, d, squares[I]);
            });
        }
        for x in rest {
            let d = s.sub(s.load(x), line);
            sums[0] = s.add(sums[0], d);
            squares[0] = s.mul_add(d, d, squares[0]);
        }
        if !tail.is_empty() {
            // Beyond the row, differences of zero.
            let d = s.sub(s.load_part(tail, from), line);
            sums[1] = s.add(sums[1], d);
            squares[1] = s.mul_add(d, d, squares[1]);
        }
        let sum = s.add(s.add(sums[0], sums[2]), s.add(sums[1], sums[3]));
        s.store(sum, &mut sum_lanes);
        let squares = s.add(s.add(squares[0], squares[2]), s.add(squares[1], squares[3]));
        s.store(squares, &mut square_lanes);
    }
    (s.sum(&sum_lanes), s.sum(&square_lanes))
}

/// `x = ((x - mean) - correction) * scale * gamma + beta`; no `beta` is zeros.
#[inline(always)]
fn normalize<S: Simd>(
    s: S,
    row: &mut [f32],
    mean: f32,
    correction: f32,
    scale: f32,
    gamma: &[Line],
    beta: &[Line],
) {
    let (lines, tail) = row.as_chunks_mut::<LANES>();
    for part in 0..S::PARTS {
        let s = s.part(part);
        let (mean, correction, scale) = (s.splat(mean), s.splat(correction), s.splat(scale));
        macro_rules! normal {
            ($x:expr, $gamma:expr, $beta:expr) => {{
                let d = s.mul(s.sub(s.sub($x, mean), correction), scale);
                s.mul_add(d, s.load($gamma), $beta)
            }};
        }
        if beta.is_empty() {
            for (x, gamma) in lines.iter_mut().zip(gamma) {
                let y = normal!(s.load(x), &gamma.0, s.splat(0.0));
                s.store(y, x);
            }
        } else {
            for ((x, gamma), beta) in lines.iter_mut().zip(gamma).zip(beta) {
                let y = normal!(s.load(x), &gamma.0, s.load(&beta.0));
                s.store(y, x);
            }
        }
        if let Some(gamma) = gamma.get(lines.len()).filter(|_| !tail.is_empty()) {
            let beta = beta.get(lines.len()).unwrap_or(&Line::ZERO);
            let y = normal!(s.load_part(tail, 0.0), &gamma.0, s.load(&beta.0));
            s.store_part(y, tail);
        }
    }
}
