//! `softmax(Q Kᵀ / √head_size + mask) V` for each head (the paper, section 3.2).

use super::softmax::softmax;
use super::tile::{Between, SUMS, Tile, most_rows, product, shape};
use crate::line::{LANES, Line};
use crate::simd::Simd;

/// Heads side by side in a row, each padded to whole lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heads {
    /// How many.
    pub heads: usize,
    /// Features of one.
    pub head_size: usize,
}

impl Heads {
    /// Lines of one head in a row: `ceil(head_size / 16)`.
    pub const fn head_lines(self) -> usize {
        self.head_size.div_ceil(LANES)
    }

    /// Floats of all heads in a row.
    pub const fn width(self) -> usize {
        self.heads.saturating_mul(self.head_lines()).saturating_mul(LANES)
    }

    /// Lines of `capacity` packed keys: for each head `ceil(capacity / 16)` panels of
    /// `head_size` lines; line `k` of panel `p` holds feature `k` of keys `16p..16p + 16`.
    pub const fn key_lines(self, capacity: usize) -> usize {
        self.heads.saturating_mul(capacity.div_ceil(LANES)).saturating_mul(self.head_size)
    }

    /// Lines of `capacity` packed values: for each head `head_lines` panels of `capacity`
    /// lines; line `t` of panel `j` holds features `16j..16j + 16` of value `t`.
    pub const fn value_lines(self, capacity: usize) -> usize {
        self.heads.saturating_mul(self.head_lines()).saturating_mul(capacity)
    }
}

/// Which keys a query sees; `true` keeps. A query that sees none gets zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mask<'m> {
    /// All.
    None,
    /// Query `i` sees keys up to `first + i`.
    Causal,
    /// `[keys]`: the same keys for every query.
    KeyPadding(&'m [bool]),
    /// Both.
    CausalKeyPadding(&'m [bool]),
    /// `[queries × keys]`.
    Arbitrary(&'m [bool]),
}

impl<'m> Mask<'m> {
    const fn is_causal(self) -> bool {
        matches!(self, Mask::Causal | Mask::CausalKeyPadding(_))
    }

    /// The `keep` of one query's keys, if the mask has such a list.
    #[inline(always)]
    fn keep(self, query: usize, keys: usize) -> Option<&'m [bool]> {
        match self {
            Mask::None | Mask::Causal => None,
            Mask::KeyPadding(keep) | Mask::CausalKeyPadding(keep) => Some(keep),
            Mask::Arbitrary(keep) => keep.get(query * keys..),
        }
    }

    /// Flags that the mask must have.
    pub(crate) const fn need(self, queries: usize, keys: usize) -> usize {
        match self {
            Mask::None | Mask::Causal => 0,
            Mask::KeyPadding(_) | Mask::CausalKeyPadding(_) => keys,
            Mask::Arbitrary(_) => queries.saturating_mul(keys),
        }
    }

    /// Flags that it has.
    pub(crate) const fn len(self) -> usize {
        match self {
            Mask::None | Mask::Causal => 0,
            Mask::KeyPadding(keep) | Mask::CausalKeyPadding(keep) | Mask::Arbitrary(keep) => keep.len(),
        }
    }
}

/// The sizes of one attention.
#[derive(Clone, Copy, Debug)]
pub struct AttentionShape<'m> {
    /// The heads.
    pub heads: Heads,
    /// Query rows.
    pub queries: usize,
    /// Floats from one query row to the next, at least `heads.width()`.
    pub query_stride: usize,
    /// Keys and values that are attended.
    pub keys: usize,
    /// Keys and values that the packed buffers have room for.
    pub capacity: usize,
    /// The position of the first query, for causal masks.
    pub first: usize,
    /// Which keys a query sees.
    pub mask: Mask<'m>,
}

/// Query rows whose scores are in memory at once.
const SCORE_ROWS: usize = 8;

/// Lines of scratch for the scores of a few queries with `keys` keys each.
pub const fn score_lines(keys: usize) -> usize {
    SCORE_ROWS * keys.div_ceil(LANES)
}

/// Attention of `query[queries × query_stride]` to packed `keys` and `values`, into
/// `out[queries × width]`; `weights`, if any, receives `[heads × queries × keys]`.
///
/// Masked scores become -inf, never zero by multiplication. What keys and values beyond
/// `shape.keys` hold does not matter. A query's result depends neither on the other
/// queries nor on masked keys after its last visible one (whose values must be finite).
#[inline(always)]
pub fn attention<S: Simd>(
    s: S,
    shape: &AttentionShape<'_>,
    query: &[f32],
    keys: &[Line],
    values: &[Line],
    scores: &mut [Line],
    out: &mut [f32],
    mut weights: Option<&mut [f32]>,
) {
    // for each head, each query i:
    //     scores[t] = query[i] · key[t] / √head_size, or -inf where masked
    //     weights = softmax(scores)
    //     out[i] = Σ weights[t] value[t]
    //
    // A few queries at a time: both products are a matmul's tiles, and the scores of
    // those queries are all that is ever in memory. Causal queries skip the keys after
    // the last that one of them sees.
    let heads = shape.heads;
    let (head_floats, width) = (heads.head_lines() * LANES, heads.width());
    let scale = 1.0 / libm::sqrtf(heads.head_size as f32);
    for head in 0..heads.heads {
        let keys = keys.get(head * shape.capacity.div_ceil(LANES) * heads.head_size..).unwrap_or_default();
        let values = values.get(head * heads.head_lines() * shape.capacity..).unwrap_or_default();
        let mut i = 0;
        while i < shape.queries {
            let rows = (shape.queries - i).min(most_rows::<S>());
            let visible = match shape.mask.is_causal() {
                true => shape.keys.min(shape.first.saturating_add(i + rows)),
                false => shape.keys,
            };
            let line = visible.div_ceil(LANES);
            let Some(scores) = scores.get_mut(..rows * line) else { return };

            let query = query.get(i * shape.query_stride + head * head_floats..).unwrap_or_default();
            let q = Tile {
                x: query,
                x_stride: shape.query_stride,
                rows,
                w: keys,
                w_stride: heads.head_size,
                panels: line,
                depth: heads.head_size,
            };
            products(s, &q, Line::floats_mut(scores), line * LANES);

            for r in 0..rows {
                let Some(row) = scores.get_mut(r * line..(r + 1) * line) else { return };
                mask(s, shape, i + r, visible, scale, row);
                softmax(s, Line::floats_mut(row));
                if let Some(weights) = weights.as_deref_mut() {
                    let at = (head * shape.queries + i + r) * shape.keys;
                    let row = Line::floats(row).iter().take(visible).copied();
                    let all = row.chain(core::iter::repeat(0.0));
                    let weights = weights.get_mut(at..at + shape.keys).unwrap_or_default();
                    for (w, p) in weights.iter_mut().zip(all) {
                        *w = p;
                    }
                }
            }

            let v = Tile {
                x: Line::floats(scores),
                x_stride: line * LANES,
                rows,
                w: values,
                w_stride: shape.capacity,
                panels: heads.head_lines(),
                depth: visible,
            };
            products(s, &v, out.get_mut(i * width + head * head_floats..).unwrap_or_default(), width);
            i += rows;
        }
    }
}

/// The product of `all.rows` rows, as many as one tile has, with `all.panels` panels, to
/// rows of whole lines in `out`, `stride` floats apart.
#[inline(always)]
fn products<S: Simd>(s: S, all: &Tile<'_>, out: &mut [f32], stride: usize) {
    let mut panel = 0;
    while panel < all.panels {
        let shape = shape::<S>(all.rows, all.panels - panel);
        let tile = Tile {
            w: all.w.get(panel * all.w_stride..).unwrap_or_default(),
            panels: shape.panels.min(all.panels - panel),
            ..*all
        };
        let mut sums = [Line::ZERO; SUMS];
        product(s, shape, &tile, Between(&mut sums));
        for (r, sums) in sums.chunks_exact(shape.panels).take(all.rows).enumerate() {
            let row = out.get_mut(r * stride + panel * LANES..).unwrap_or_default();
            let (lines, _) = row.as_chunks_mut::<LANES>();
            for (sum, line) in sums.iter().take(tile.panels).zip(lines) {
                s.store(s.load(&sum.0), line);
            }
        }
        panel += shape.panels;
    }
}

/// Scales one query's scores, and makes those of keys that it does not see -inf.
#[inline(always)]
fn mask<S: Simd>(
    s: S,
    shape: &AttentionShape<'_>,
    query: usize,
    visible: usize,
    scale: f32,
    row: &mut [Line],
) {
    let end = match shape.mask.is_causal() {
        true => visible.min(shape.first.saturating_add(query + 1)),
        false => visible,
    };
    let mut keep = shape.mask.keep(query, shape.keys).map(|keep| keep.chunks(LANES));
    let (scale, minus_infinity, half) = (s.splat(scale), s.splat(f32::NEG_INFINITY), s.splat(0.5));
    for (p, line) in row.iter_mut().enumerate() {
        let mut x = s.mul(s.load(&line.0), scale);
        let left = end.saturating_sub(p * LANES);
        let flags = keep.as_mut().and_then(|keep| keep.next());
        if left < LANES || flags.is_some() {
            // 1 where the key is seen: 0.5 < 1 selects its score, whatever else is there.
            let mut seen = [0.0; LANES];
            for (t, seen) in seen.iter_mut().enumerate() {
                let kept = flags.is_none_or(|keep| keep.get(t).copied().unwrap_or(false));
                *seen = if t < left && kept { 1.0 } else { 0.0 };
            }
            x = s.select_lt(half, s.load(&seen), x, minus_infinity);
        }
        s.store(x, &mut line.0);
    }
}

/// Packs `count` rows of keys and of values, each `stride` floats after the last and
/// `heads.width()` floats wide, at positions `at` on of buffers for `capacity` (see
/// [`Heads::key_lines`] and [`Heads::value_lines`]; nothing is packed into shorter ones).
/// What is beyond them, or missing in `key` and `value`, is left out.
pub fn append_keys_values(
    heads: Heads,
    capacity: usize,
    at: usize,
    key: &[f32],
    value: &[f32],
    stride: usize,
    count: usize,
    keys: &mut [Line],
    values: &mut [Line],
) {
    let (head_size, head_lines) = (heads.head_size, heads.head_lines());
    let small = keys.len() < heads.key_lines(capacity) || values.len() < heads.value_lines(capacity);
    if small || heads.width() == 0 {
        return;
    }
    for row in 0..count.min(capacity.saturating_sub(at)) {
        let Some(from) = row.checked_mul(stride) else { return };
        let t = at + row;
        for head in 0..heads.heads {
            let from = from.saturating_add(head * head_lines * LANES);
            let panel = (head * capacity.div_ceil(LANES) + t / LANES) * head_size;
            let lines = keys.get_mut(panel..).unwrap_or_default();
            let features = key.get(from..).unwrap_or_default();
            for (line, x) in lines.iter_mut().zip(features).take(head_size) {
                if let Some(cell) = line.0.get_mut(t % LANES) {
                    *cell = *x;
                }
            }
            let features = value.get(from..).unwrap_or_default();
            for (j, x) in features.as_chunks::<LANES>().0.iter().take(head_lines).enumerate() {
                if let Some(line) = values.get_mut((head * head_lines + j) * capacity + t) {
                    line.0 = *x;
                }
            }
        }
    }
}
