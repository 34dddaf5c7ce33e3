//! Weights stored in sixteen bits, half the bytes of floats: `f16` or `bf16`, widened on the way to
//! products of floats.
//!
//! Widening is exact, and the sums are those of [`matmul`](super::matmul): the result has the
//! bits that the same weights give as floats. What is lost is lost at conversion: at most 2^-12
//! of a weight in `f16` (2^-25 absolutely, below 2^-14), 2^-9 in `bf16`.

use super::activation::Activation;
use super::matmul::Matmul;
use crate::line::{Halves, LANES, Line};

/// What the sixteen bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// IEEE 754's binary16, without infinities and NaN: 11 bits of precision, up to 65504.
    F16,
    /// The upper half of an `f32`: 8 bits of precision, all its range.
    Bf16,
}

/// A linear layer's weights, or a table's vectors.
#[derive(Clone, Copy, Debug)]
pub struct Half<'w> {
    /// `ceil(cols / 16)` panels of `ceil(depth / 2)` elements: steps `2j` and `2j + 1` of sixteen
    /// columns. Of a table, `ceil(d_model / 32)` elements a vector.
    pub halves: &'w [Halves],
    /// Their format.
    pub format: Format,
}

/// Panels and steps of depth that are widened at once.
const PANELS: usize = 4;
const STEPS: usize = 32;

/// Lines of scratch for widened weights.
pub const SCRATCH: usize = PANELS * STEPS;

/// Elements of `cols` columns of `depth` weights.
pub const fn half_lines(cols: usize, depth: usize) -> usize {
    cols.div_ceil(LANES).saturating_mul(depth.div_ceil(2))
}

impl Format {
    /// The number nearest to `x`, of two the even one. What is too large for `f16` becomes its
    /// largest.
    pub fn narrow(self, x: f32) -> u16 {
        let bits = x.to_bits();
        let (sign, size) = ((bits >> 16 & 0x8000) as u16, bits & 0x7fff_ffff);
        let size = match self {
            Format::Bf16 if x.is_nan() => 0x7fc0,
            Format::Bf16 => ((size + 0x7fff + (size >> 16 & 1)) >> 16) as u16,
            // 65520 would be rounded to infinity.
            Format::F16 if size >= 0x477f_f000 => 0x7bff,
            // Below 2^-14 the spacing is 2^-24.
            Format::F16 if size < 0x3880_0000 => libm::rintf(f32::from_bits(size) * 16_777_216.0) as u16,
            Format::F16 => ((size - 0x3800_0000 + 0xfff + (size >> 13 & 1)) >> 13) as u16,
        };
        sign | size
    }

    /// The number.
    #[inline(always)]
    pub fn widen(self, half: u16) -> f32 {
        let bits = u32::from(half);
        match self {
            Format::Bf16 => f32::from_bits(bits << 16),
            // In its place, the exponent is 112 too small, also that of a denormal number.
            Format::F16 => {
                let size = f32::from_bits((bits & 0x7fff) << 13) * f32::from_bits((127 + 112) << 23);
                f32::from_bits(size.to_bits() | (bits & 0x8000) << 16)
            }
        }
    }
}

/// `out[rows × cols] = act(x[rows × depth] · Wᵀ + bias)` by products of floats, `multiply`, with
/// [`SCRATCH`] lines of scratch; `out` tells the rows. Of the activations, those that `multiply`
/// does.
pub(crate) fn matmul(
    x: &[f32],
    depth: usize,
    w: Half<'_>,
    bias: &[Line],
    activation: Activation,
    scratch: &mut [Line],
    out: &mut [f32],
    cols: usize,
    multiply: impl Fn(&Matmul<'_>, &mut [f32]),
) {
    // for some panels, some steps:
    //     floats = widened weights
    //     out += x · floats, which begins at 0 and ends with the bias and the activation
    let Some(rows) = out.len().checked_div(cols) else { return };
    let pairs = depth.div_ceil(2);
    for first in (0..cols.div_ceil(LANES)).step_by(PANELS) {
        let column = first * LANES;
        let width = (PANELS * LANES).min(cols - column);
        let mut from = 0;
        loop {
            let steps = STEPS.min(depth - from);
            let last = from + steps >= depth;
            let floats = scratch.chunks_exact_mut(steps.max(1)).take(width.div_ceil(LANES));
            for (p, floats) in floats.enumerate() {
                let halves = w.halves.get((first + p) * pairs + from / 2..).unwrap_or_default();
                for (pair, halves) in floats.chunks_mut(2).zip(halves) {
                    for (line, halves) in pair.iter_mut().zip(halves.0) {
                        line.0 = halves.map(|half| w.format.widen(half));
                    }
                }
            }
            let product = Matmul {
                x: x.get(from..).unwrap_or_default(),
                x_stride: depth,
                rows,
                depth: steps,
                panels: scratch,
                bias: if last { bias.get(first..).unwrap_or_default() } else { &[] },
                activation: if last { activation } else { Activation::Identity },
                cols: width,
                stride: cols,
                add: from > 0,
            };
            multiply(&product, out.get_mut(column..).unwrap_or_default());
            if last {
                break;
            }
            from += steps;
        }
    }
}

/// `out = vector · scale` of a table, or `None` if it has no such row; `out` tells `d_model`.
pub fn embed_half(table: Half<'_>, token: u32, scale: f32, out: &mut [f32]) -> Option<()> {
    let width = out.len().div_ceil(2 * LANES);
    let vector = table.halves.get((token as usize).checked_mul(width)?..)?.get(..width)?;
    let halves = vector.iter().flat_map(|halves| halves.0.as_flattened());
    out.iter_mut().zip(halves).for_each(|(x, half)| *x = table.format.widen(*half) * scale);
    Some(())
}

/// [`embed_half`] from the panels of an output projection that is tied to the table.
pub fn embed_tied_half(w: Half<'_>, token: u32, scale: f32, out: &mut [f32]) -> Option<()> {
    let (panel, lane) = (token as usize / LANES, token as usize % LANES);
    let pairs = out.len().div_ceil(2);
    let panel = w.halves.get(panel.checked_mul(pairs)?..)?.get(..pairs)?;
    let halves = panel.iter().flat_map(|halves| halves.0);
    for (x, columns) in out.iter_mut().zip(halves) {
        *x = w.format.widen(*columns.get(lane)?) * scale;
    }
    Some(())
}

/// The vector of a table with the largest dot product with `x`, in plain order of the features, and
/// that product: the first of equals; (0, -inf) of no vectors.
pub fn nearest_half(table: Half<'_>, vocab: usize, x: &[f32]) -> (u32, f32) {
    let mut best = (0, f32::NEG_INFINITY);
    let width = x.len().div_ceil(2 * LANES).max(1);
    for (token, vector) in table.halves.chunks_exact(width).take(vocab).enumerate() {
        let halves = vector.iter().flat_map(|halves| halves.0.as_flattened());
        let score = x.iter().zip(halves).map(|(x, half)| x * table.format.widen(*half)).sum::<f32>();
        if score > best.1 {
            best = (token as u32, score);
        }
    }
    best
}
