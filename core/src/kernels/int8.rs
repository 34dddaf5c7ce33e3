//! Products of eight-bit weights and eight-bit activations, in whole numbers.
//!
//! ```text
//! w = code · scale      a scale for each column, or for each column and group of the depth
//! x = code · scale      a scale for each row and group, found when it runs
//! out[row][col] = act(Σ_groups (Σ_k code_x code_w) · scale_w · scale_x + bias[col])
//! ```
//!
//! Both codes are symmetric, -127..=127. The inner sum is exact: the bits of a result are the
//! same on every backend, in any batch.
//!
//! **Bound.** `|out - x·w| <= Σ_groups n · (scale_x |w|_max + scale_w |x|_max + scale_x scale_w / 2) / 2`
//! over groups of `n` steps, and the rounding of the outer sum.

use super::activation::Activation;
use super::tile::Direct;
use crate::line::{Codes, LANES, Line};
use crate::simd::{Dot, Simd};

mod tile;
use tile::{Tile, height, product, width};

/// Steps of depth in a word of codes.
const QUAD: usize = 4;

/// The longest depth: `255 · 127 · 2^15 < 2^31`, so that no sum overflows, nor its start,
/// which is at most half of that.
pub const DEEPEST: usize = 1 << 15;

/// A linear layer's weights: see [`pack_int8`](super::pack::pack_int8).
#[derive(Clone, Copy, Debug)]
pub struct Int8<'w> {
    /// `ceil(cols / 16)` panels of `ceil(depth / 4)` lines: byte `4c + i` of line `j` of panel
    /// `p` is the code of `W[16p + c][4j + i]`, plus 128.
    pub codes: &'w [Codes],
    /// The scales of sixteen columns, a line for each panel and group.
    pub scales: &'w [Line],
    /// Steps of a group, a multiple of 16; `depth` or more is one group.
    pub group: usize,
}

/// Groups of a depth.
pub const fn groups(depth: usize, group: usize) -> usize {
    if group == 0 { 1 } else { depth.div_ceil(group) }
}

/// Words of a quantized row: codes, then each group's scale, then each group's offset.
const fn row_words(depth: usize, group: usize) -> usize {
    depth.div_ceil(QUAD) + 2 * groups(depth, group)
}

/// Lines of a quantized row.
pub const fn row_lines(depth: usize, group: usize) -> usize {
    row_words(depth, group).div_ceil(LANES)
}

/// Quantizes each row of `x[rows × depth]` into [`row_lines`] lines of `out`.
///
/// The scale is the largest magnitude of a group over 127, so that nothing is cut off; a group
/// of less than 2^-100 becomes zeros. NaN or infinity in a group makes its scale NaN.
#[inline(always)]
pub fn quantize<S: Simd>(s: S, x: &[f32], depth: usize, group: usize, out: &mut [Line]) {
    // for row, group: scale = max |x| / 127; code = round(x / scale); offset = -128 Σ code
    if depth == 0 {
        return;
    }
    let (quads, groups) = (depth.div_ceil(QUAD), groups(depth, group));
    let rows = out.chunks_exact_mut(row_lines(depth, group).max(1));
    for (x, row) in x.chunks_exact(depth).zip(rows) {
        let Some((codes, rest)) = Line::words_mut(row).split_at_mut_checked(quads) else { return };
        let Some((scales, offsets)) = rest.split_at_mut_checked(groups) else { return };
        let steps = if groups == 1 { depth } else { group.max(1) };
        let codes = codes.chunks_mut(steps.div_ceil(QUAD).max(1));
        for (((x, codes), scale), offset) in x.chunks(steps).zip(codes).zip(scales).zip(offsets) {
            let (found, sum) = quantize_group(s, x, codes);
            (*scale, *offset) = (found.to_bits(), (sum as i32 * -128) as u32);
        }
    }
}

/// One group's codes; its scale and the sum of the codes.
#[inline(always)]
fn quantize_group<S: Simd>(s: S, x: &[f32], codes: &mut [u32]) -> (f32, f32) {
    let largest = largest_magnitude(s, x);
    let tiny = f32::from_bits((127 - 100) << 23);
    let (scale, inverse) = if largest < tiny { (0.0, 0.0) } else { (largest / 127.0, 127.0 / largest) };
    let mut lanes = [0.0; LANES];
    for part in 0..S::PARTS {
        let s = s.part(part);
        // At 1.5 · 2^23 a float's last bit is worth one: there it rounds to a whole number, half
        // to even.
        let (inverse, whole) = (s.splat(inverse), s.splat(12_582_912.0));
        let mut sum = s.splat(0.0);
        for (line, codes) in x.chunks(LANES).zip(codes.chunks_mut(LANES / QUAD)) {
            let x = match line.first_chunk() {
                Some(line) => s.load(line),
                None => s.load_part(line, 0.0),
            };
            let rounded = s.sub(s.add(s.mul(x, inverse), whole), whole);
            sum = s.add(sum, rounded);
            s.store_bytes(rounded, codes);
        }
        s.store(sum, &mut lanes);
    }
    let sum = s.sum(&lanes);
    (if sum.is_nan() { f32::NAN } else { scale }, sum)
}

/// `max |x|`.
#[inline(always)]
fn largest_magnitude<S: Simd>(s: S, x: &[f32]) -> f32 {
    const FOUR: usize = 4;
    let (fours, rest) = x.as_chunks::<{ FOUR * LANES }>();
    let mut lanes = [0.0; LANES];
    for part in 0..S::PARTS {
        let s = s.part(part);
        let mut largest = [s.splat(0.0); FOUR];
        for four in fours {
            let (lines, _) = four.as_chunks::<LANES>();
            unroll!(I < FOUR {
                let v = s.load(&lines[I]);
                largest[I] = s.max(largest[I], s.abs(v));
            });
        }
        let [a, b, c, mut d] = largest;
        for line in rest.chunks(LANES) {
            let v = s.load_part(line, 0.0);
            d = s.max(d, s.abs(v));
        }
        s.store(s.max(s.max(a, b), s.max(c, d)), &mut lanes);
    }
    s.largest(&lanes)
}

/// `out[rows × cols] = act(x · Wᵀ + bias)` of rows quantized by [`quantize`], with the same
/// `depth` and `group`; `out` tells the rows. Activations other than `Relu` are left to the
/// caller.
#[inline(always)]
pub fn matmul<D: Dot>(
    d: D,
    x: &[Line],
    depth: usize,
    w: &Int8<'_>,
    bias: &[Line],
    activation: Activation,
    out: &mut [f32],
    cols: usize,
) {
    // for row, col:
    //     total = 0
    //     for group: total += float(Σ_k x[row][k] * w[col][k]) * scale_w[col] * scale_x[row]
    //     out[row][col] = act(total + bias[col])
    //
    // By tiles, as the product of floats.
    let Some(rows) = out.len().checked_div(cols) else { return };
    let groups = groups(depth, w.group);
    let (words, quads, panels) =
        (row_lines(depth, w.group) * LANES, depth.div_ceil(QUAD), cols.div_ceil(LANES));
    let floor = if activation == Activation::Relu { 0.0 } else { f32::NEG_INFINITY };
    let mut panel = 0;
    while panel < panels {
        let wide = width::<D>(rows, panels - panel);
        let mut row = 0;
        while row < rows {
            let high = height::<D>(rows - row);
            let tile = Tile {
                x: Line::words(x).get(row * words..).unwrap_or_default(),
                words,
                rows: high,
                codes: w.codes.get(panel * quads..).unwrap_or_default(),
                scales: w.scales.get(panel * groups..).unwrap_or_default(),
                panels: wide,
                depth,
                group: w.group,
            };
            let first = panel * LANES;
            let out = out.get_mut(row * cols..(row + high) * cols).unwrap_or_default();
            let bias = bias.get(panel..).unwrap_or_default();
            let out = out.get_mut(first..).unwrap_or_default();
            product(d, &tile, Direct { out, stride: cols, width: cols - first, bias, floor, add: false });
            row += high;
        }
        panel += wide;
    }
}
