//! `out = act(x Wᵀ + b)`, by tiles.

use super::activation::{Activation, activation};
use super::tile::{Between, Direct, SUMS, Shape, Tile, band, product, shape};
use crate::line::{LANES, Line};
use crate::simd::{Simd, padded, store_part};

/// A linear layer and its input.
#[derive(Clone, Copy, Debug)]
pub struct Matmul<'a> {
    /// `[rows × depth]`, dense.
    pub x: &'a [f32],
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
}

/// Steps of depth that a tile goes before the next rows have their turn, so that its
/// panels stay close: two panels of so many lines are 48 KiB.
const DEPTH_BLOCK: usize = 384;

/// `out[rows × cols] = act(x[rows × depth] · W[cols × depth]ᵀ + bias)`; `out` tells the rows.
///
/// Every sum starts at 0 and takes its products in order of depth, by [`Simd::mul_add`],
/// whatever the tile: a row's result does not depend on how many rows there are.
#[inline(always)]
pub fn matmul<S: Simd>(s: S, m: &Matmul<'_>, out: &mut [f32]) {
    // for row in rows, col in cols:
    //     sum = 0
    //     for k in 0..depth: sum += x[row][k] * W[col][k]
    //     out[row][col] = act(sum + bias[col])
    //
    // 1. A tile of rows and panels has its sums in registers.
    // 2. It goes down all rows before the next panels, which thus stay in cache.
    // 3. Depth is cut in blocks; between them the sums wait in `out`.
    // 4. Few rows take many panels at once, for sums enough to keep the CPU busy.
    let Some(rows) = out.len().checked_div(m.cols) else { return };
    let panels = m.cols.div_ceil(LANES);
    let mut first_row = 0;
    while first_row < rows {
        let end_row = first_row + band::<S>(rows - first_row);
        let mut panel = 0;
        while panel < panels {
            let shape = shape::<S>(end_row - first_row, panels - panel);
            let mut from = 0;
            loop {
                let depth = (m.depth - from).min(DEPTH_BLOCK);
                let mut row = first_row;
                while row < end_row {
                    let tile = Tile {
                        x: m.x.get(row * m.depth + from..).unwrap_or_default(),
                        x_stride: m.depth,
                        rows: shape.rows.min(end_row - row),
                        w: m.panels.get(panel * m.depth + from..).unwrap_or_default(),
                        w_stride: m.depth,
                        panels: shape.panels.min(panels - panel),
                        depth,
                    };
                    let out = out.get_mut(row * m.cols..(row + tile.rows) * m.cols).unwrap_or_default();
                    block(s, m, shape, &tile, panel, from, out);
                    row += shape.rows;
                }
                from += depth;
                if from >= m.depth {
                    break;
                }
            }
            panel += shape.panels;
        }
        first_row = end_row;
    }
}

/// One tile of `out`, whole rows of which are given: the steps of depth that are in
/// `tile`, after those up to `from` whose sums are in `out`.
#[inline(always)]
fn block<S: Simd>(
    s: S,
    m: &Matmul<'_>,
    shape: Shape,
    tile: &Tile<'_>,
    panel: usize,
    from: usize,
    out: &mut [f32],
) {
    let last = from + tile.depth >= m.depth;
    let (bias, function) = if last { (m.bias, m.activation) } else { (&[][..], Activation::Identity) };
    // The common ones without a choice for every vector: -inf is no floor.
    let simple = matches!(function, Activation::Identity | Activation::Relu);
    let floor = if function == Activation::Relu { 0.0 } else { f32::NEG_INFINITY };
    let whole = tile.rows == shape.rows && (panel + shape.panels) * LANES <= m.cols;
    // Measured: with sixteen registers the way around memory is the faster one.
    if S::VECTORS >= 32 && simple && whole {
        let bias = bias.get(panel..).unwrap_or_default();
        let out = out.get_mut(panel * LANES..).unwrap_or_default();
        return product(s, shape, tile, Direct { fresh: from == 0, out, stride: m.cols, bias, floor });
    }
    let (mut sums, floor) = ([Line::ZERO; SUMS], s.splat(floor));
    if from > 0 {
        for (row, sums) in out.chunks_exact(m.cols).zip(sums.chunks_exact_mut(shape.panels)) {
            let cells = row.chunks(LANES).skip(panel);
            for (sum, cells) in sums.iter_mut().zip(cells) {
                match cells.first_chunk::<LANES>() {
                    Some(cells) => s.store(s.load(cells), &mut sum.0),
                    None => sum.0 = padded(cells, 0.0),
                }
            }
        }
    }
    product(s, shape, tile, Between(&mut sums));

    for (row, sums) in out.chunks_exact_mut(m.cols).zip(sums.chunks_exact(shape.panels)) {
        let cells = row.chunks_mut(LANES).enumerate().skip(panel);
        for (sum, (panel, cells)) in sums.iter().zip(cells) {
            let shift = match bias.get(panel) {
                Some(bias) => s.load(&bias.0),
                None => s.splat(0.0),
            };
            let mut y = s.max(floor, s.add(s.load(&sum.0), shift));
            if !simple {
                y = activation(s, function, y);
            }
            match cells.first_chunk_mut::<LANES>() {
                Some(cells) => s.store(y, cells),
                None => store_part(s, y, cells),
            }
        }
    }
}
