//! Products of whole numbers where a CPU has but the plain multiplication: four columns at a
//! time go down the depth, so that their sums stay in registers.

use crate::line::{Codes, LANES};

/// Rows of the largest tile.
pub(super) const ROWS: usize = 1;
/// Panels of the largest tile, of one row.
pub(super) const PANELS: usize = 1;

/// `sums[row][panel][column] += Σ w[panel][column][k] · x[row][k]` over the depth that all have.
#[inline(always)]
pub(super) fn accumulate<const R: usize, const P: usize>(
    x: [&[u32]; R],
    w: [&[Codes]; P],
    sums: &mut [[[i32; LANES]; P]; R],
) {
    for (x, sums) in x.iter().zip(sums) {
        for (w, sums) in w.iter().zip(sums) {
            for (at, four) in sums.as_chunks_mut().0.iter_mut().enumerate() {
                columns(at, x, w, four);
            }
        }
    }
}

/// The four columns that begin at `4 · at`.
fn columns(at: usize, x: &[u32], w: &[Codes], sums: &mut [i32; 4]) {
    const STEPS: usize = 4;
    let [mut a, mut b, mut c, mut d] = *sums;
    for (x, w) in x.iter().zip(w) {
        let (columns, _) = w.0.as_chunks::<STEPS>();
        let Some([p, q, r, s]) = columns.as_chunks::<4>().0.get(at) else { return };
        let x = x.to_le_bytes();
        unroll!(I < STEPS {
            let x = x[I] as i8 as i32;
            a += x * p[I] as i32;
            b += x * q[I] as i32;
            c += x * r[I] as i32;
            d += x * s[I] as i32;
        });
    }
    *sums = [a, b, c, d];
}
