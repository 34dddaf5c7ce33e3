//! The tile: a small block of `x · Wᵀ` whose sums stay in registers.

use crate::line::{LANES, Line};
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

/// Where the sums of a tile start and end.
pub(crate) trait Sums<S: Simd> {
    /// The sum of row `r` and panel `p`, of `panels` in a row, before the tile.
    fn start(&self, s: S, r: usize, p: usize, panels: usize) -> S::V;
    /// Takes it after the tile.
    fn end(&mut self, s: S, r: usize, p: usize, panels: usize, sum: S::V);
}

/// Sums in memory between: the one of row `r` and panel `p` is line `r * panels + p`.
pub(crate) struct Between<'a>(pub &'a mut [Line; SUMS]);

impl<S: Simd> Sums<S> for Between<'_> {
    #[inline(always)]
    fn start(&self, s: S, r: usize, p: usize, panels: usize) -> S::V {
        s.load(&self.0[r * panels + p].0)
    }
    #[inline(always)]
    fn end(&mut self, s: S, r: usize, p: usize, panels: usize, sum: S::V) {
        s.store(sum, &mut self.0[r * panels + p].0);
    }
}

/// Sums of a whole tile that go straight from the registers to the output.
pub(crate) struct Direct<'a> {
    /// The tile's first cell; rows are `stride` floats apart.
    pub out: &'a mut [f32],
    pub stride: usize,
    /// Whether the sums start at zero, not at what `out` holds.
    pub fresh: bool,
    /// Added to each panel's sums; zeros where there is none.
    pub bias: &'a [Line],
    /// The least that a sum may be: 0 for ReLU, -inf for any.
    pub floor: f32,
}

impl<S: Simd> Sums<S> for Direct<'_> {
    #[inline(always)]
    fn start(&self, s: S, r: usize, p: usize, _: usize) -> S::V {
        let cells = self.out.get(r * self.stride + p * LANES..).and_then(|cells| cells.first_chunk());
        match cells {
            Some(cells) if !self.fresh => s.load(cells),
            _ => s.splat(0.0),
        }
    }
    #[inline(always)]
    fn end(&mut self, s: S, r: usize, p: usize, _: usize, sum: S::V) {
        let shift = match self.bias.get(p) {
            Some(bias) => s.load(&bias.0),
            None => s.splat(0.0),
        };
        let cells = self.out.get_mut(r * self.stride + p * LANES..).and_then(|cells| cells.first_chunk_mut());
        if let Some(cells) = cells {
            s.store(s.max(s.splat(self.floor), s.add(sum, shift)), cells);
        }
    }
}

/// Adds the products of the tile, in order of depth, to `sums`.
#[inline(always)]
pub(crate) fn product<S: Simd>(s: S, shape: Shape, tile: &Tile<'_>, sums: impl Sums<S>) {
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
fn tile_of<S: Simd, const R: usize, const P: usize>(s: S, tile: &Tile<'_>, mut sums: impl Sums<S>) {
    // for k in 0..depth, row in 0..R, panel in 0..P:
    //     sums[row][panel] += x[row][k] * w[panel][k]
    //
    // Eight steps of depth at a time, which leaves the CPU more room for products than
    // for counting. Slices are cut to the same length, so that one comparison bounds all.
    const STEPS: usize = 8;
    let (whole, ones) = (tile.depth / STEPS, tile.depth % STEPS);
    let (mut x, mut x_rest) = ([&[][..]; R], [&[][..]; R]);
    let (mut w, mut w_rest) = ([&[][..]; P], [&[][..]; P]);
    unroll!(I < R {
        let row = if I < tile.rows { I } else { tile.rows - 1 };
        let Some(row) = tile.x.get(row * tile.x_stride..) else { return };
        let Some(row) = row.get(..tile.depth) else { return };
        let (row, rest) = row.as_chunks::<STEPS>();
        let (Some(row), Some(rest)) = (row.get(..whole), rest.get(..ones)) else { return };
        (x[I], x_rest[I]) = (row, rest);
    });
    unroll!(J < P {
        let panel = if J < tile.panels { J } else { tile.panels - 1 };
        let Some(panel) = tile.w.get(panel * tile.w_stride..) else { return };
        let Some(panel) = panel.get(..tile.depth) else { return };
        let (panel, rest) = panel.as_chunks::<STEPS>();
        let (Some(panel), Some(rest)) = (panel.get(..whole), rest.get(..ones)) else { return };
        (w[J], w_rest[J]) = (panel, rest);
    });

    let mut sum = [[s.splat(0.0); P]; R];
    unroll!(I < R { unroll!(J < P { sum[I][J] = sums.start(s, I, J, P); }) });
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
    for k in 0..whole {
        unroll!(K < STEPS { step!(x, w, k, K); });
    }
    for k in 0..ones {
        step!(x_rest, w_rest, k);
    }
    unroll!(I < R { unroll!(J < P { sums.end(s, I, J, P, sum[I][J]); }) });
}
