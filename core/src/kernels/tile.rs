//! The tile: a small block of `x · Wᵀ` whose sums stay in registers.

use crate::line::Line;
use crate::simd::Simd;

/// Lines of sums that the largest tile has.
pub(crate) const SUMS: usize = 16;

/// How many rows and panels a tile spans.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub rows: usize,
    pub panels: usize,
}

/// Rows that tiles span where there are many.
pub(crate) const fn most_rows<S: Simd>() -> usize {
    match S::VECTORS {
        32.. => 8,
        8.. => 6,
        4.. => 2,
        _ => 1,
    }
}

/// The tile for so many rows and panels, of which it may span more than there are.
///
/// Measured: at least eight sums in flight keep the units for products busy, and a
/// tile that spans some rows too many is faster than several small ones.
#[inline(always)]
pub(crate) fn shape<S: Simd>(rows: usize, panels: usize) -> Shape {
    let (rows, panels) = match (S::VECTORS, rows, panels) {
        (32.., 5.., 2..) => (8, 2),
        (32.., 5.., _) => (8, 1),
        (32.., 3.., _) => (4, 2),
        (32.., 2, _) => (2, 4),
        (32.., _, _) => (1, 8),
        (8.., 5.., _) => (6, 1),
        (8.., 3.., _) => (4, 1),
        (8.., 2, _) => (2, 2),
        (8.., _, _) => (1, 6),
        (4.., 2.., _) => (2, 1),
        (4.., _, _) => (1, 2),
        _ => (1, 1),
    };
    Shape { rows, panels }
}

/// How many of `left` rows go by the tile that is best for them: all, or all but a rest
/// for which a smaller tile is better.
#[inline(always)]
pub(crate) fn band<S: Simd>(left: usize) -> usize {
    let rows = shape::<S>(left, SUMS).rows;
    let rest = left % rows;
    if rest == 0 || rest == left || shape::<S>(rest, SUMS).rows == rows { left } else { left - rest }
}

/// What a tile multiplies. Rows and panels beyond `rows` and `panels` repeat the last.
#[derive(Clone, Copy)]
pub(crate) struct Tile<'a> {
    /// Rows of `x`, `x_stride` floats apart.
    pub x: &'a [f32],
    pub x_stride: usize,
    pub rows: usize,
    /// Panels of `W`, `w_stride` lines apart.
    pub w: &'a [Line],
    pub w_stride: usize,
    pub panels: usize,
    /// Steps of the sum.
    pub depth: usize,
}

/// Adds the products of the tile, in order of depth, to `sums`: those of row `r` and
/// panel `p` are line `r * shape.panels + p`.
#[inline(always)]
pub(crate) fn product<S: Simd>(s: S, shape: Shape, tile: &Tile<'_>, sums: &mut [Line; SUMS]) {
    match (S::VECTORS, shape.rows, shape.panels) {
        (32.., 8, 2) => tile_of::<S, 8, 2>(s, tile, sums),
        (32.., 8, _) => tile_of::<S, 8, 1>(s, tile, sums),
        (32.., 4, _) => tile_of::<S, 4, 2>(s, tile, sums),
        (32.., 2, _) => tile_of::<S, 2, 4>(s, tile, sums),
        (32.., _, _) => tile_of::<S, 1, 8>(s, tile, sums),
        (8.., 6, _) => tile_of::<S, 6, 1>(s, tile, sums),
        (8.., 4, _) => tile_of::<S, 4, 1>(s, tile, sums),
        (8.., 2, _) => tile_of::<S, 2, 2>(s, tile, sums),
        (8.., _, _) => tile_of::<S, 1, 6>(s, tile, sums),
        (4.., 2, _) => tile_of::<S, 2, 1>(s, tile, sums),
        (4.., _, _) => tile_of::<S, 1, 2>(s, tile, sums),
        _ => tile_of::<S, 1, 1>(s, tile, sums),
    }
}

/// [`product`] of `R` rows and `P` panels.
#[inline(always)]
fn tile_of<S: Simd, const R: usize, const P: usize>(s: S, tile: &Tile<'_>, sums: &mut [Line; SUMS]) {
    // for k in 0..depth, row in 0..R, panel in 0..P:
    //     sums[row][panel] += x[row][k] * w[panel][k]
    //
    // Four steps of depth at a time, which leaves the CPU more room for products than
    // for counting. Slices are cut to the same length, so that one comparison bounds all.
    const STEPS: usize = 4;
    let (fours, ones) = (tile.depth / STEPS, tile.depth % STEPS);
    let (mut x, mut x_rest) = ([&[][..]; R], [&[][..]; R]);
    let (mut w, mut w_rest) = ([&[][..]; P], [&[][..]; P]);
    unroll!(I < R {
        let row = if I < tile.rows { I } else { tile.rows - 1 };
        let Some(row) = tile.x.get(row * tile.x_stride..) else { return };
        let Some(row) = row.get(..tile.depth) else { return };
        let (row, rest) = row.as_chunks::<STEPS>();
        let (Some(row), Some(rest)) = (row.get(..fours), rest.get(..ones)) else { return };
        (x[I], x_rest[I]) = (row, rest);
    });
    unroll!(J < P {
        let panel = if J < tile.panels { J } else { tile.panels - 1 };
        let Some(panel) = tile.w.get(panel * tile.w_stride..) else { return };
        let Some(panel) = panel.get(..tile.depth) else { return };
        let (panel, rest) = panel.as_chunks::<STEPS>();
        let (Some(panel), Some(rest)) = (panel.get(..fours), rest.get(..ones)) else { return };
        (w[J], w_rest[J]) = (panel, rest);
    });

    let mut sum = [[s.splat(0.0); P]; R];
    unroll!(I < R { unroll!(J < P { sum[I][J] = s.load(&sums[I * P + J].0); }) });
    macro_rules! step {
        ($x:ident, $w:ident, $($k:expr),+) => {
            let mut line = [s.splat(0.0); P];
            unroll!(J < P { line[J] = s.load(&$w[J]$([$k])+.0); });
            unroll!(I < R {
                let x = s.splat($x[I]$([$k])+);
                unroll!(J < P { sum[I][J] = s.mul_add(x, line[J], sum[I][J]); })
            });
        };
    }
    for k in 0..fours {
        unroll!(K < STEPS { step!(x, w, k, K); });
    }
    for k in 0..ones {
        step!(x_rest, w_rest, k);
    }
    unroll!(I < R { unroll!(J < P { s.store(sum[I][J], &mut sums[I * P + J].0); }) });
}
