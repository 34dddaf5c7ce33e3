//! LayerNorm and RMSNorm of each row, in place, with the residual addition before them.

use crate::line::{LANES, Line};
use crate::simd::{Simd, padded, store_part};

/// `x += y`, as far as both go.
#[inline(always)]
pub fn add<S: Simd>(s: S, x: &mut [f32], y: &[f32]) {
    let ((x, x_tail), (y, y_tail)) = (x.as_chunks_mut::<LANES>(), y.as_chunks::<LANES>());
    for (x, y) in x.iter_mut().zip(y) {
        let sum = s.add(s.load(x), s.load(y));
        s.store(sum, x);
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
/// repeated gives exactly `beta`.
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
    let count = cols as f32;
    if let Some(y) = residual {
        add(s, x, y);
    }
    for row in x.chunks_exact_mut(cols) {
        let first = row.first().copied().unwrap_or(0.0);
        let (shift, _) = differences(s, row, first);
        let mean = first + shift / count;
        let (left, squares) = differences(s, row, mean);
        let correction = left / count;
        let variance = squares / count - correction * correction;
        normalize(s, row, mean, correction, inverse_root(variance, eps), gamma, beta);
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
    for row in x.chunks_exact_mut(cols) {
        let (_, squares) = differences(s, row, 0.0);
        normalize(s, row, 0.0, 0.0, inverse_root(squares / cols as f32, eps), gamma, &[]);
    }
}

/// `1 / sqrt(variance + eps)`, or 0 where that is no number: a row without variance is
/// all zeros before `beta`.
#[inline(always)]
fn inverse_root(variance: f32, eps: f32) -> f32 {
    // Rounding may leave a variance just below zero.
    let variance = if variance < 0.0 { 0.0 } else { variance } + eps;
    if variance == 0.0 { 0.0 } else { 1.0 / libm::sqrtf(variance) }
}

/// `(Σ d, Σ d²)` of `d = x - from`.
#[inline(always)]
fn differences<S: Simd>(s: S, row: &[f32], from: f32) -> (f32, f32) {
    let (lines, tail) = row.as_chunks::<LANES>();
    let from_line = s.splat(from);
    // Beyond the row, differences of zero.
    let d = s.sub(s.load(&padded(tail, from)), from_line);
    let (mut sum, mut squares) = (d, s.mul(d, d));
    for x in lines {
        let d = s.sub(s.load(x), from_line);
        sum = s.add(sum, d);
        squares = s.mul_add(d, d, squares);
    }
    (s.sum(sum), s.sum(squares))
}

/// `x = ((x - mean) - correction) * scale * gamma + beta`.
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
    let (mean, correction, scale) = (s.splat(mean), s.splat(correction), s.splat(scale));
    for (k, (x, gamma)) in row.chunks_mut(LANES).zip(gamma).enumerate() {
        let beta = s.load(&beta.get(k).unwrap_or(&Line::ZERO).0);
        let whole = match x.first_chunk::<LANES>() {
            Some(x) => s.load(x),
            None => s.load(&padded(x, 0.0)),
        };
        let d = s.mul(s.sub(s.sub(whole, mean), correction), scale);
        let y = s.mul_add(d, s.load(&gamma.0), beta);
        match x.first_chunk_mut::<LANES>() {
            Some(x) => s.store(y, x),
            None => store_part(s, y, x),
        }
    }
}
