//! `out = act(x Wᵀ + b)`, by tiles.

use super::activation::Activation;
use super::tile::{Direct, Tile, height, product, width};
use crate::line::{LANES, Line};
use crate::simd::Simd;

/// A linear layer and its input.
#[derive(Clone, Copy, Debug)]
pub struct Matmul<'a> {
    /// `[rows × depth]`, rows `x_stride` floats apart.
    pub x: &'a [f32],
    /// Floats from one row of `x` to the next.
    pub x_stride: usize,
    /// Rows.
    pub rows: usize,
    /// Input features.
    pub depth: usize,
    /// `ceil(cols / 16)` panels of `depth` lines: line `k` of panel `p` holds
    /// `W[16p..16p + 16][k]`, zeros beyond `cols`.
    pub panels: &'a [Line],
    /// `ceil(cols / 16)` lines, or none.
    pub bias: &'a [Line],
    /// What is done to each sum.
    pub activation: Activation,
    /// Output features.
    pub cols: usize,
    /// Floats from one row of the output to the next.
    pub stride: usize,
    /// Whether sums go on from what is in the output, instead of from 0.
    pub add: bool,
}

/// Lines of weights, a megabyte, that may still be in a cache from the last time: to ask for
/// these was measured to take longer than to wait for them.
const FAR: usize = 1 << 14;

/// `out[rows × cols] = act(x[rows × depth] · W[cols × depth]ᵀ + bias)`.
///
/// Every sum starts at 0 and takes its products in order of depth, by [`Simd::mul_add`],
/// whatever the tile: a row's result does not depend on how many rows there are.
///
/// Of the activations only `Relu` is done here. Any other is a pass of its own for whoever
/// calls: in the tile it would wait for each step of so long a function.
#[inline(always)]
pub fn matmul<S: Simd>(s: S, m: &Matmul<'_>, out: &mut [f32]) {
    // for row in rows, col in cols:
    //     sum = 0
    //     for k in 0..depth: sum += x[row][k] * W[col][k]
    //     out[row][col] = act(sum + bias[col])
    //
    // 1. A tile of rows and panels has its sums in registers.
    // 2. It goes down all rows before the next panels, which thus stay in cache; of many
    //    weights, the next panels are fetched meanwhile.
    // 3. Few rows take many panels at once, for sums enough to keep the CPU busy.
    let rows = m.rows;
    let panels = m.cols.div_ceil(LANES);
    let mut first_row = 0;
    while first_row < rows {
        let end_row = band::<S>(first_row, rows);
        let mut panel = 0;
        while panel < panels {
            let wide = width::<S>(height::<S>(end_row - first_row), panels - panel);
            // The next panels are fetched in as many parts as there are tiles meanwhile.
            let tiles = (end_row - first_row).div_ceil(height::<S>(end_row - first_row).max(1));
            let far = tiles >= 4 && m.panels.len() >= FAR;
            let next = m.panels.get((panel + wide) * m.depth..).filter(|_| far).unwrap_or_default();
            let next = next.get(..wide * m.depth).unwrap_or(next);
            let mut ahead = next.chunks(next.len().div_ceil(tiles.max(1)).max(1));
            let mut row = first_row;
            while row < end_row {
                let tile = Tile {
                    x: m.x.get(row * m.x_stride..).unwrap_or_default(),
                    x_stride: m.x_stride,
                    rows: height::<S>(rows - row),
                    w: m.panels.get(panel * m.depth..).unwrap_or_default(),
                    w_stride: m.depth,
                    panels: wide,
                    depth: m.depth,
                    ahead: ahead.next().unwrap_or_default(),
                };
                let out = out.get_mut(row * m.stride..).unwrap_or_default();
                block(s, m, &tile, panel, out);
                row += tile.rows;
            }
            panel += wide;
        }
        first_row = end_row;
    }
}

/// The end of the rows from `first` on whose tiles are equally wide.
#[inline(always)]
fn band<S: Simd>(first: usize, rows: usize) -> usize {
    const MANY: usize = usize::MAX;
    let wide = width::<S>(height::<S>(rows - first), MANY);
    let mut end = first;
    while end < rows && width::<S>(height::<S>(rows - end), MANY) == wide {
        end += height::<S>(rows - end);
    }
    end
}

/// One tile of `out`, given from its first row on.
#[inline(always)]
fn block<S: Simd>(s: S, m: &Matmul<'_>, tile: &Tile<'_>, panel: usize, out: &mut [f32]) {
    // -inf is no floor.
    let floor = if m.activation == Activation::Relu { 0.0 } else { f32::NEG_INFINITY };
    let bias = m.bias.get(panel..).unwrap_or_default();
    let first = panel * LANES;
    let out = out.get_mut(first..).unwrap_or_default();
    product(s, tile, Direct { out, stride: m.stride, width: m.cols - first, bias, floor, add: m.add });
}
