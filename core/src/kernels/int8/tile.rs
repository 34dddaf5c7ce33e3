//! The tile of whole numbers: a block of `x · Wᵀ` whose sums stay in registers.

use super::{QUAD, groups};
use crate::kernels::tile::Sums;
use crate::line::{Codes, LANES, Line};
use crate::simd::{Dot, Simd};

/// What a tile multiplies.
pub(super) struct Tile<'a> {
    /// Quantized rows, `words` words apart.
    pub x: &'a [u32],
    pub words: usize,
    pub rows: usize,
    /// Panels of codes, `ceil(depth / 4)` lines apart.
    pub codes: &'a [Codes],
    /// Their scales, a line a group.
    pub scales: &'a [Line],
    pub panels: usize,
    pub depth: usize,
    pub group: usize,
}

/// Rows of the next tile where `left` are left: one of the sizes below.
#[inline(always)]
pub(super) const fn height<D: Dot>(left: usize) -> usize {
    match left {
        2.. if D::ROWS == 2 => 2,
        6.. if D::ROWS >= 6 => 6,
        4.. => {
            if D::ROWS >= 4 && left != 5 {
                4
            } else if D::ROWS >= 3 {
                3
            } else {
                1
            }
        }
        3 if D::ROWS < 3 => 1,
        2 if D::ROWS < 2 => 1,
        _ => left,
    }
}

/// Panels of the next tile of so many rows, where `left` are left.
#[inline(always)]
pub(super) const fn width<D: Dot>(rows: usize, left: usize) -> usize {
    match left {
        8.. if D::PANELS >= 8 && rows == 1 => 8,
        4.. if D::PANELS >= 8 || D::PANELS >= 4 && rows == 1 => 4,
        2.. if D::PANELS == 2 && rows == 1 => 2,
        _ => 1,
    }
}

/// The sums of the tile, each given to `sink` row by row.
#[inline(always)]
pub(super) fn product<D: Dot>(d: D, tile: &Tile<'_>, sink: impl Sums<D::Floats>) {
    // Each size is compiled where it is used, and nowhere else: hence the constant conditions.
    macro_rules! sizes {
        ($(($rows:literal, $panels:literal))*) => {
            match (tile.rows, tile.panels) {
                $(($rows, $panels) => tile_of::<D, $rows, $panels>(d, tile, sink),)*
                _ => tile_of::<D, 1, 1>(d, tile, sink),
            }
        };
    }
    if const { D::PANELS >= 8 } {
        sizes! { (6, 4) (4, 4) (3, 4) (2, 4) (1, 8) (1, 4) (6, 1) (4, 1) (3, 1) (2, 1) }
    } else if const { D::PANELS >= 4 } {
        sizes! { (6, 1) (4, 1) (3, 1) (2, 1) (1, 4) }
    } else if const { D::ROWS == 2 } {
        sizes! { (2, 1) (1, 2) }
    } else if const { D::PANELS >= 2 } {
        sizes! { (4, 1) (3, 1) (2, 1) (1, 2) }
    } else {
        sizes! {}
    }
}

/// [`product`] of `R` rows and `P` panels.
#[inline(always)]
fn tile_of<D: Dot, const R: usize, const P: usize>(d: D, tile: &Tile<'_>, mut sink: impl Sums<D::Floats>) {
    // for group in groups:
    //     for k in group, row in 0..R, panel in 0..P: sums[row][panel] += x[row][k] * w[panel][k]
    //     total[row][panel] += float(sums[row][panel]) * scale_w[panel] * scale_x[row]
    //
    // The three operations of the second line are rounded one by one, so that a CPU without
    // fused multiply-add gives the same bits. The totals wait in memory: they are needed once
    // a group.
    const STEPS: usize = 4;
    let s = d.floats();
    let (quads, groups) = (tile.depth.div_ceil(QUAD), groups(tile.depth, tile.group));
    let group = if groups > 1 { tile.group / QUAD } else { quads };
    let (mut rows, mut panels, mut scales) = ([&[][..]; R], [&[][..]; P], [&[][..]; P]);
    unroll!(I < R {
        let row = tile.x.get(I * tile.words..).and_then(|row| row.get(..quads + 2 * groups));
        let Some(row) = row else { return };
        rows[I] = row;
    });
    unroll!(J < P {
        let panel = tile.codes.get(J * quads..).and_then(|panel| panel.get(..quads));
        let scale = tile.scales.get(J * groups..).and_then(|scale| scale.get(..groups));
        let (Some(panel), Some(scale)) = (panel, scale) else { return };
        (panels[J], scales[J]) = (panel, scale);
    });
    let mut total = [[[0.0; LANES]; P]; R];
    for g in 0..groups {
        let (from, to) = (g * group, ((g + 1) * group).min(quads));
        let (whole, ones) = ((to - from) / STEPS, (to - from) % STEPS);
        let mut sums = [[d.start(0); P]; R];
        unroll!(I < R {
            let Some(offset) = rows[I].get(quads + groups + g) else { return };
            sums[I] = [d.start(*offset as i32); P];
        });
        if const { D::TILE } {
            let (mut x, mut w) = ([&[][..]; R], [&[][..]; P]);
            unroll!(I < R {
                let Some(row) = rows[I].get(from..to) else { return };
                x[I] = row;
            });
            unroll!(J < P {
                let Some(panel) = panels[J].get(from..to) else { return };
                w[J] = panel;
            });
            d.accumulate(x, w, &mut sums);
        } else {
            let (mut x, mut x_rest) = ([&[][..]; R], [&[][..]; R]);
            let (mut w, mut w_rest) = ([&[][..]; P], [&[][..]; P]);
            unroll!(I < R {
                let Some(row) = rows[I].get(from..to) else { return };
                let (row, rest) = row.as_chunks::<STEPS>();
                let (Some(row), Some(rest)) = (row.get(..whole), rest.get(..ones)) else { return };
                (x[I], x_rest[I]) = (row, rest);
            });
            unroll!(J < P {
                let Some(panel) = panels[J].get(from..to) else { return };
                let (panel, rest) = panel.as_chunks::<STEPS>();
                let (Some(panel), Some(rest)) = (panel.get(..whole), rest.get(..ones)) else { return };
                (w[J], w_rest[J]) = (panel, rest);
            });
            macro_rules! step {
                ($x:ident, $w:ident, $($k:expr),+) => {
                    unroll!(I < R {
                        let x = $x[I]$([$k])+;
                        unroll!(J < P { sums[I][J] = d.dot(sums[I][J], x, &$w[J]$([$k])+); })
                    });
                };
            }
            for k in 0..whole {
                unroll!(K < STEPS { step!(x, w, k, K); });
            }
            for k in 0..ones {
                step!(x_rest, w_rest, k);
            }
        }
        unroll!(I < R {
            let Some(scale) = rows[I].get(quads + g) else { return };
            let scale = f32::from_bits(*scale);
            unroll!(J < P {
                let Some(columns) = scales[J].get(g) else { return };
                for part in 0..<D::Floats as Simd>::PARTS {
                    let s = s.part(part);
                    let sums = s.mul(d.sums(s, sums[I][J]), s.load(&columns.0));
                    let before = s.load(&total[I][J]);
                    s.store(s.add(before, s.mul(sums, s.splat(scale))), &mut total[I][J]);
                }
            })
        });
    }
    for part in 0..<D::Floats as Simd>::PARTS {
        let s = s.part(part);
        unroll!(I < R {
            let mut row = [s.splat(0.0); P];
            unroll!(J < P { row[J] = s.load(&total[I][J]); });
            sink.take(s, I, row);
        });
    }
}
