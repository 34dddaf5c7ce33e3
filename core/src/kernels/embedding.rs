//! A token's vector, and the token nearest to a vector.

use crate::line::{LANES, Line};
use crate::simd::Simd;

/// `out = table[token] * scale`, or `None` if the table has no such row.
///
/// A row of the table is `ceil(d_model / 16)` lines.
#[inline(always)]
pub fn embed<S: Simd>(
    s: S,
    table: &[Line],
    token: u32,
    d_model: usize,
    scale: f32,
    out: &mut [f32],
) -> Option<()> {
    // for i in 0..d_model: out[i] = table[token][i] * scale
    let lines = Line::count(d_model);
    let from = (token as usize).checked_mul(lines)?;
    let row = table.get(from..)?.get(..lines)?;
    let out = out.get_mut(..d_model)?;
    for part in 0..S::PARTS {
        let s = s.part(part);
        let scale = s.splat(scale);
        for (x, w) in out.chunks_mut(LANES).zip(row) {
            let y = s.mul(s.load(&w.0), scale);
            match x.first_chunk_mut() {
                Some(x) => s.store(y, x),
                None => s.store_part(y, x),
            }
        }
    }
    Some(())
}

/// [`embed`] from the output projection's panels ([`panel_lines`](super::pack::panel_lines)
/// of `vocab` columns and `d_model` depth): the token is a lane of its panel.
pub fn embed_tied(panels: &[Line], token: u32, d_model: usize, scale: f32, out: &mut [f32]) -> Option<()> {
    let (panel, lane) = (token as usize / LANES, token as usize % LANES);
    let panel = panels.get(panel.checked_mul(d_model)?..)?.get(..d_model)?;
    for (x, line) in out.iter_mut().zip(panel) {
        *x = line.0.get(lane)? * scale;
    }
    Some(())
}

/// The index of the largest number: the first of equals. NaN never wins, and of
/// nothing but NaN (or nothing) it is 0.
pub fn argmax(x: &[f32]) -> u32 {
    let (mut best, mut largest) = (0, f32::NEG_INFINITY);
    for (i, &x) in x.iter().enumerate() {
        if x > largest {
            (best, largest) = (i as u32, x);
        }
    }
    best
}

/// The row of `table[vocab]` (rows as in [`embed`]) with the largest dot product with
/// `x[d_model]`, and that product. The first of equals; (0, -inf) of no rows.
///
/// Lanes are summed in the order of [`Simd::sum`]; the padding of a row must be zeros.
#[inline(always)]
pub fn nearest<S: Simd>(s: S, table: &[Line], vocab: usize, d_model: usize, x: &[f32]) -> (u32, f32) {
    // for token in 0..vocab: score = table[token] · x; keep the largest
    //
    // Four rows at once, so that four sums are in flight.
    const ROWS: usize = 4;
    let mut best = (0, f32::NEG_INFINITY);
    let lines = Line::count(d_model);
    let (Some(x), true) = (x.get(..d_model), lines > 0) else { return best };
    let Some(table) = table.get(..vocab.saturating_mul(lines)) else { return best };
    for (i, rows) in table.chunks(ROWS * lines).enumerate() {
        let scores = dots::<S, ROWS>(s, rows, lines, x);
        for (r, score) in scores.into_iter().take(rows.len() / lines).enumerate() {
            if score > best.1 {
                best = ((i * ROWS + r) as u32, score);
            }
        }
    }
    best
}

/// The dot products of `x` with `R` rows of `lines` lines; 0 where there is no row.
#[inline(always)]
fn dots<S: Simd, const R: usize>(s: S, table: &[Line], lines: usize, x: &[f32]) -> [f32; R] {
    let mut scores = [0.0; R];
    let mut rows = [&[][..]; R];
    unroll!(I < R {
        // Beyond the last row, the first again.
        let Some(first) = table.get(..lines) else { return scores };
        let row = table.get(I * lines..).and_then(|row| row.get(..lines));
        rows[I] = row.unwrap_or(first);
    });
    let (x, tail) = x.as_chunks::<LANES>();
    let mut lanes = [[0.0; LANES]; R];
    for part in 0..S::PARTS {
        let s = s.part(part);
        let mut sums = [s.splat(0.0); R];
        #[allow(clippy::needless_range_loop, reason = "it indexes every row")]
        for k in 0..lines {
            let x = match x.get(k) {
                Some(x) => s.load(x),
                None => s.load_part(tail, 0.0),
            };
            unroll!(I < R { sums[I] = s.mul_add(s.load(&rows[I][k].0), x, sums[I]); });
        }
        unroll!(I < R { s.store(sums[I], &mut lanes[I]); });
    }
    unroll!(I < R { scores[I] = s.sum(&lanes[I]); });
    scores
}
