//! The tile: a small block of `x · Wᵀ` whose sums stay in registers.

use crate::line::{LANES, Line};
use crate::simd::Simd;

/// Rows of the next tile where `left` are left: as many as keep the units for products
/// busy, but so that no small rest remains after them.
#[inline(always)]
pub(crate) const fn height<S: Simd>(left: usize) -> usize {
    match (S::VECTORS, left) {
        (32.., 0..=8) => left,
        (32.., _) => left.div_ceil(left.div_ceil(6)),
        // Four rows of one panel are too few sums, and of two too many for the registers.
        (8.., 0..=2 | 5..=6) => left,
        (8.., 3..=4) => 2,
        (8.., 7) => 5,
        (8.., 10) => 5,
        (8.., _) => 6,
        (4.., 0..=2) => left,
        (4.., _) => 2,
        // Three rows are one tile, four are two of two.
        (3, 0..=2) => left,
        (3, 4) => 2,
        (3, _) => 3,
        _ => 1,
    }
}

/// Panels that a tile of so many rows spans, of `left` that are left. Measured: ten sums in
/// flight, or more, keep the units for products busy.
#[inline(always)]
pub(crate) const fn width<S: Simd>(rows: usize, left: usize) -> usize {
    let most = match (S::VECTORS, rows) {
        (32.., 8..) => 2,
        (32.., 7) => 3,
        (32.., 4..) => 4,
        (32.., 2..) => 6,
        (32.., _) => 8,
        (8.., 3..) => 1,
        (8.., 2) => 3,
        (8.., _) => 6,
        (4.., 2..) => 1,
        (4.., _) => 2,
        _ => 1,
    };
    match left {
        _ if left >= most => most,
        4.. => 4,
        2.. => 2,
        _ => 1,
    }
}

/// What a tile multiplies: [`height`] rows and [`width`] panels.
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
    /// What later tiles read: it is fetched meanwhile.
    pub ahead: &'a [Line],
}

/// Where the sums of a tile's rows start and where they go.
pub(crate) trait Sums<S: Simd> {
    #[inline(always)]
    fn start<const P: usize>(&self, s: S, _row: usize) -> [S::V; P] {
        [s.splat(0.0); P]
    }
    fn take<const P: usize>(&mut self, s: S, row: usize, sums: [S::V; P]);
}

/// Straight to the output, with what a linear layer adds.
pub(crate) struct Direct<'a> {
    /// The tile's first cell; rows are `stride` floats apart.
    pub out: &'a mut [f32],
    pub stride: usize,
    /// Floats of a row from the first cell on: the last panel may have columns beyond them.
    pub width: usize,
    /// Added to each panel's sums; none is zeros.
    pub bias: &'a [Line],
    /// The least that a sum may be: 0 for ReLU, -inf for any.
    pub floor: f32,
    /// Whether sums go on from what is in `out`.
    pub add: bool,
}

impl<S: Simd> Sums<S> for Direct<'_> {
    #[inline(always)]
    fn start<const P: usize>(&self, s: S, row: usize) -> [S::V; P] {
        let mut sums = [s.splat(0.0); P];
        if self.add {
            let cells = self.out.get(row * self.stride..).unwrap_or_default();
            let cells = cells.get(..self.width).unwrap_or_default();
            unroll!(J < P {
                let cells = cells.get(J * LANES..).unwrap_or_default();
                sums[J] = match cells.first_chunk() {
                    Some(line) => s.load(line),
                    None => s.load_part(cells, 0.0),
                };
            });
        }
        sums
    }
    #[inline(always)]
    fn take<const P: usize>(&mut self, s: S, row: usize, sums: [S::V; P]) {
        let cells = self.out.get_mut(row * self.stride..).unwrap_or_default();
        let (floor, mut sums) = (s.splat(self.floor), sums);
        unroll!(J < P {
            let bias = self.bias.get(J).unwrap_or(&Line::ZERO);
            sums[J] = s.max(floor, s.add(sums[J], s.load(&bias.0)));
        });
        if self.width >= P * LANES {
            let Some(cells) = cells.as_chunks_mut().0.first_chunk_mut::<P>() else { return };
            unroll!(J < P { s.store(sums[J], &mut cells[J]); });
        } else {
            let cells = cells.get_mut(..self.width).unwrap_or_default();
            for (cells, sum) in cells.chunks_mut(LANES).zip(sums) {
                s.store_part(sum, cells);
            }
        }
    }
}

/// The products of the tile, each sum in order of depth, given to `sums` row by row.
#[inline(always)]
pub(crate) fn product<S: Simd>(s: S, tile: &Tile<'_>, sums: impl Sums<S>) {
    // Each size is compiled where it is used, and nowhere else: hence the constant conditions.
    macro_rules! sizes {
        ($(($rows:literal, $panels:literal))*) => {
            match (tile.rows, tile.panels) {
                $(($rows, $panels) => tile_of::<S, $rows, $panels>(s, tile, sums),)*
                _ => tile_of::<S, 1, 1>(s, tile, sums),
            }
        };
    }
    if const { S::VECTORS >= 32 } {
        sizes! {
            (8, 2) (8, 1) (7, 3) (7, 2) (7, 1) (6, 4) (6, 2) (6, 1) (5, 4) (5, 2) (5, 1) (4, 4) (4, 2) (4, 1)
            (3, 6) (3, 4) (3, 2) (3, 1) (2, 6) (2, 4) (2, 2) (2, 1) (1, 8) (1, 4) (1, 2)
        }
    } else if const { S::VECTORS >= 8 } {
        sizes! {
            (6, 1) (5, 1) (2, 3) (2, 2) (2, 1) (1, 6) (1, 4) (1, 2)
        }
    } else if const { S::VECTORS >= 4 } {
        sizes! { (2, 1) (1, 2) }
    } else if const { S::VECTORS == 3 } {
        sizes! { (3, 1) (2, 1) }
    } else {
        tile_of::<S, 1, 1>(s, tile, sums)
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
    // Of rows and panels, the fewer wait in registers for each of the others.
    const STEPS: usize = 8;
    if const { S::TILE } {
        return own_tile::<S, R>(s, tile, sums);
    }
    let (whole, ones) = (tile.depth / STEPS, tile.depth % STEPS);
    let (mut x, mut x_rest) = ([&[][..]; R], [&[][..]; R]);
    let (mut w, mut w_rest) = ([&[][..]; P], [&[][..]; P]);
    unroll!(I < R {
        let Some(row) = tile.x.get(I * tile.x_stride..) else { return };
        let Some(row) = row.get(..tile.depth) else { return };
        let (row, rest) = row.as_chunks::<STEPS>();
        let (Some(row), Some(rest)) = (row.get(..whole), rest.get(..ones)) else { return };
        (x[I], x_rest[I]) = (row, rest);
    });
    unroll!(J < P {
        let Some(panel) = tile.w.get(J * tile.w_stride..) else { return };
        let Some(panel) = panel.get(..tile.depth) else { return };
        let (panel, rest) = panel.as_chunks::<STEPS>();
        let (Some(panel), Some(rest)) = (panel.get(..whole), rest.get(..ones)) else { return };
        (w[J], w_rest[J]) = (panel, rest);
    });

    for part in 0..S::PARTS {
        let s = s.part(part);
        let mut sum = [[s.splat(0.0); P]; R];
        unroll!(I < R { sum[I] = sums.start(s, I); });
        macro_rules! step {
            ($x:ident, $w:ident, $($k:expr),+) => {
                if const { R < P } {
                    let mut row = [s.splat(0.0); R];
                    unroll!(I < R { row[I] = s.splat($x[I]$([$k])+); });
                    unroll!(J < P {
                        let line = s.load(&$w[J]$([$k])+.0);
                        unroll!(I < R { sum[I][J] = s.mul_add(row[I], line, sum[I][J]); })
                    });
                } else {
                    let mut line = [s.splat(0.0); P];
                    unroll!(J < P { line[J] = s.load(&$w[J]$([$k])+.0); });
                    unroll!(I < R {
                        let x = s.splat($x[I]$([$k])+);
                        unroll!(J < P { sum[I][J] = s.mul_add(x, line[J], sum[I][J]); })
                    });
                }
            };
        }
        // Two loops, for even an empty list takes its time. (Eight rows are a tile alone, so that
        // nothing is ahead, and have no register to spare.)
        if const { R == 8 } || tile.ahead.is_empty() {
            for k in 0..whole {
                unroll!(K < STEPS { step!(x, w, k, K); });
            }
        } else {
            let mut ahead = tile.ahead.chunks(tile.ahead.len().div_ceil(whole.max(1)).max(1));
            for k in 0..whole {
                for line in ahead.next().unwrap_or_default() {
                    s.prefetch(line);
                }
                unroll!(K < STEPS { step!(x, w, k, K); });
            }
        }
        for k in 0..ones {
            step!(x_rest, w_rest, k);
        }
        unroll!(I < R { sums.take(s, I, sum[I]); });
    }
}

/// [`tile_of`] one panel, on a backend that has a tile.
#[inline(always)]
fn own_tile<S: Simd, const R: usize>(s: S, tile: &Tile<'_>, mut sums: impl Sums<S>) {
    let mut x = [&[][..]; R];
    unroll!(I < R {
        let Some(row) = tile.x.get(I * tile.x_stride..) else { return };
        let Some(row) = row.get(..tile.depth) else { return };
        x[I] = row;
    });
    let Some(w) = tile.w.get(..tile.depth) else { return };
    let mut lines = [[0.0; LANES]; R];
    for part in 0..S::PARTS {
        let s = s.part(part);
        unroll!(I < R {
            let [first] = sums.start(s, I);
            s.store(first, &mut lines[I]);
        });
    }
    s.accumulate(x, w, &mut lines);
    for part in 0..S::PARTS {
        let s = s.part(part);
        unroll!(I < R { sums.take(s, I, [s.load(&lines[I])]); });
    }
}
