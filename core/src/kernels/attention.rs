//! `softmax(Q Kᵀ / √head_size + mask) V` for each head (the paper, section 3.2).

mod cache;
mod online;

pub use cache::append_keys_values;

use self::online::Online;
use super::tile::{Sums, Tile, height, product, width};
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

impl AttentionShape<'_> {
    /// Keys up to the last that a query may see.
    #[inline(always)]
    const fn visible(&self, query: usize) -> usize {
        let seen = self.first.saturating_add(query + 1);
        if self.mask.is_causal() && seen < self.keys { seen } else { self.keys }
    }
}

/// Query rows whose scores are in memory at once, at most.
const ROWS: usize = 8;

/// Keys whose scores are in memory at once.
const KEYS: usize = 256;

/// Lines of scratch for the scores of a few queries with `keys` keys each: what attention
/// needs does not grow beyond 256 keys.
pub const fn score_lines(keys: usize) -> usize {
    let keys = if keys < KEYS { keys } else { KEYS };
    ROWS * keys.div_ceil(LANES)
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
    // A few queries and 256 keys at a time: both products are a matmul's tiles, and the
    // scores between them are all that is ever in memory; `Online` goes on from one part of
    // the keys to the next. Causal queries skip the keys after the last that one of them sees.
    let heads = shape.heads;
    let (head_floats, width) = (heads.head_lines() * LANES, heads.width());
    let scale = 1.0 / s.sqrt(heads.head_size as f32);
    for head in 0..heads.heads {
        let keys = keys.get(head * shape.capacity.div_ceil(LANES) * heads.head_size..).unwrap_or_default();
        let values = values.get(head * heads.head_lines() * shape.capacity..).unwrap_or_default();
        let mut i = 0;
        while i < shape.queries {
            let rows = height::<S>(shape.queries - i);
            let visible = shape.visible(i + rows - 1);
            let query = query.get(i * shape.query_stride + head * head_floats..).unwrap_or_default();
            let out = out.get_mut(i * width + head * head_floats..).unwrap_or_default();
            let mut online = Online::new(rows, scale);
            // Twice for each part of the keys: first the one product, then the other. (One
            // place for both, for each place has all tiles compiled into it.)
            let (mut from, mut weighed) = (0, false);
            loop {
                let count = KEYS.min(visible - from);
                let lines = count.div_ceil(LANES);
                let Some(scores) = scores.get_mut(..rows * lines) else { return };
                let (tile, ends) = if weighed {
                    let tile = Tile {
                        x: Line::floats(scores),
                        x_stride: lines * LANES,
                        rows,
                        w: values.get(from..).unwrap_or_default(),
                        w_stride: shape.capacity,
                        panels: heads.head_lines(),
                        // A few keys with weights of zero more, for the whole steps of a tile.
                        depth: count.next_multiple_of(8).min(shape.keys - from),
                        ahead: &[],
                    };
                    (tile, Ends { out: &mut *out, stride: width, online: Some((&online, from == 0)) })
                } else {
                    let tile = Tile {
                        x: query,
                        x_stride: shape.query_stride,
                        rows,
                        w: keys.get(from / LANES * heads.head_size..).unwrap_or_default(),
                        w_stride: heads.head_size,
                        panels: lines,
                        depth: heads.head_size,
                        ahead: &[],
                    };
                    (tile, Ends { out: Line::floats_mut(scores), stride: lines * LANES, online: None })
                };
                products(s, &tile, ends);

                let last = from + count >= visible;
                match (weighed, last) {
                    (false, _) => {
                        let (scores, _) = Line::floats_mut(scores).as_chunks_mut();
                        let mut seen = [0; ROWS];
                        for (r, seen) in seen.iter_mut().take(rows).enumerate() {
                            let keep = shape.mask.keep(i + r, shape.keys);
                            if let Some(keep) = keep.and_then(|keep| keep.get(from..)) {
                                let row = scores.get_mut(r * lines..(r + 1) * lines).unwrap_or_default();
                                mask(s, keep, row);
                            }
                            *seen = count.min(shape.visible(i + r).saturating_sub(from));
                        }
                        online.weigh(s, scores, lines, &seen, last);
                        if let Some(weights) = weights.as_deref_mut() {
                            let at = (head * shape.queries + i) * shape.keys;
                            let weights = weights.get_mut(at..).unwrap_or_default();
                            let rows = weights.chunks_exact_mut(shape.keys.max(1)).take(rows);
                            for (r, (all, row)) in rows.zip(scores.chunks_exact(lines.max(1))).enumerate() {
                                online.show(
                                    r,
                                    all,
                                    from,
                                    row.as_flattened().get(..count).unwrap_or_default(),
                                );
                            }
                        }
                    }
                    (true, false) => from += count,
                    (true, true) => break,
                }
                weighed = !weighed;
            }
            i += rows;
        }
    }
}

/// Where the sums of both products end: rows of whole lines, `stride` floats apart.
struct Ends<'a> {
    out: &'a mut [f32],
    stride: usize,
    /// Of weights with values: the factors, and whether nothing is in `out` yet.
    online: Option<(&'a Online, bool)>,
}

impl<S: Simd> Sums<S> for Ends<'_> {
    #[inline(always)]
    fn start<const P: usize>(&self, s: S, row: usize) -> [S::V; P] {
        let mut sums = [s.splat(0.0); P];
        if let Some((online, false)) = self.online {
            let factor = s.splat(online.before(row));
            let cells = self.out.get(row * self.stride..).unwrap_or_default().as_chunks().0;
            let Some(cells) = cells.first_chunk::<P>() else { return sums };
            unroll!(J < P { sums[J] = s.mul(s.load(&cells[J]), factor); });
        }
        sums
    }
    #[inline(always)]
    fn take<const P: usize>(&mut self, s: S, row: usize, sums: [S::V; P]) {
        let factor = s.splat(self.online.map_or(1.0, |(online, _)| online.after(row)));
        let cells = self.out.get_mut(row * self.stride..).unwrap_or_default().as_chunks_mut().0;
        let Some(cells) = cells.first_chunk_mut::<P>() else { return };
        unroll!(J < P { s.store(s.mul(sums[J], factor), &mut cells[J]); });
    }
}

/// The product of `all.rows` rows, as many as one tile has, with `all.panels` panels.
#[inline(always)]
fn products<S: Simd>(s: S, all: &Tile<'_>, ends: Ends<'_>) {
    let mut panel = 0;
    while panel < all.panels {
        let panels = width::<S>(all.rows, all.panels - panel);
        let w = all.w.get(panel * all.w_stride..).unwrap_or_default();
        let out = ends.out.get_mut(panel * LANES..).unwrap_or_default();
        product(s, &Tile { w, panels, ..*all }, Ends { out, ..ends });
        panel += panels;
    }
}

/// Makes the scores of keys that `keep` drops -inf.
#[inline(always)]
fn mask<S: Simd>(s: S, keep: &[bool], row: &mut [[f32; LANES]]) {
    for (x, keep) in row.iter_mut().zip(keep.chunks(LANES)) {
        // 1 where the key is seen: 0.5 < 1 selects its score, whatever else is there.
        let mut seen = [0.0; LANES];
        for (seen, keep) in seen.iter_mut().zip(keep) {
            *seen = f32::from(u8::from(*keep));
        }
        for part in 0..S::PARTS {
            let s = s.part(part);
            let kept = s.select_lt(s.splat(0.5), s.load(&seen), s.load(x), s.splat(f32::NEG_INFINITY));
            s.store(kept, x);
        }
    }
}
