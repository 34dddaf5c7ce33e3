//! `softmax(Q Kᵀ / √head_size + mask) V` for each head (the paper, section 3.2).

use super::activation::exp_below_89;
use super::softmax::{exponentials, largest};
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

/// The lanes of a line.
const LANE: [f32; LANES] = [0., 1., 2., 3., 4., 5., 6., 7., 8., 9., 10., 11., 12., 13., 14., 15.];

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
    // scores between them are all that is ever in memory. With more keys the softmax goes
    // on from what it has (Milakov, Gimelshein 2018; Rabe, Staats 2021): where the largest
    // score grows, the sums so far are scaled down. Causal queries skip the keys after the
    // last that one of them sees.
    let heads = shape.heads;
    let (head_floats, width) = (heads.head_lines() * LANES, heads.width());
    let scale = 1.0 / libm::sqrtf(heads.head_size as f32);
    for head in 0..heads.heads {
        let keys = keys.get(head * shape.capacity.div_ceil(LANES) * heads.head_size..).unwrap_or_default();
        let values = values.get(head * heads.head_lines() * shape.capacity..).unwrap_or_default();
        let mut i = 0;
        while i < shape.queries {
            let rows = height::<S>(shape.queries - i);
            let visible = match shape.mask.is_causal() {
                true => shape.keys.min(shape.first.saturating_add(i + rows)),
                false => shape.keys,
            };
            let query = query.get(i * shape.query_stride + head * head_floats..).unwrap_or_default();
            let out = out.get_mut(i * width + head * head_floats..).unwrap_or_default();
            let mut state = [Weighing { shift: f32::NEG_INFINITY, sum: 0.0 }; ROWS];
            let mut from = 0;
            loop {
                let count = KEYS.min(visible - from);
                let line = count.div_ceil(LANES);
                let Some(scores) = scores.get_mut(..rows * line) else { return };
                let last = from + count >= visible;
                let (mut before, mut after) = ([1.0; ROWS], [1.0; ROWS]);
                // One place for both products: each has all tiles in it.
                for product in [Product::QueryKey, Product::WeightValue] {
                    let (tile, ends) = match product {
                        Product::QueryKey => (
                            Tile {
                                x: query,
                                x_stride: shape.query_stride,
                                rows,
                                w: keys.get(from / LANES * heads.head_size..).unwrap_or_default(),
                                w_stride: heads.head_size,
                                panels: line,
                                depth: heads.head_size,
                            },
                            Ends {
                                out: Line::floats_mut(scores),
                                stride: line * LANES,
                                fresh: true,
                                before,
                                after,
                            },
                        ),
                        Product::WeightValue => (
                            Tile {
                                x: Line::floats(scores),
                                x_stride: line * LANES,
                                rows,
                                w: values.get(from..).unwrap_or_default(),
                                w_stride: shape.capacity,
                                panels: heads.head_lines(),
                                depth: count,
                            },
                            Ends { out: &mut *out, stride: width, fresh: from == 0, before, after },
                        ),
                    };
                    products(s, &tile, ends);
                    if product == Product::WeightValue {
                        break;
                    }
                    for r in 0..rows {
                        let row = scores.get_mut(r * line..(r + 1) * line);
                        let (Some(row), Some(state)) = (row, state.get_mut(r)) else { return };
                        let (row, _) = Line::floats_mut(row).as_chunks_mut();
                        mask(s, shape, i + r, from, count, row);
                        let b = state.weigh(s, row, scale);
                        let a = match last {
                            true if state.sum == 0.0 => 0.0,
                            true => 1.0 / state.sum,
                            false => 1.0,
                        };
                        if let (Some(before), Some(after)) = (before.get_mut(r), after.get_mut(r)) {
                            (*before, *after) = (b, a);
                        }
                        if let Some(weights) = weights.as_deref_mut() {
                            let at = (head * shape.queries + i + r) * shape.keys;
                            let all = weights.get_mut(at..at + shape.keys).unwrap_or_default();
                            show(all, from, row.as_flattened().get(..count).unwrap_or_default(), b, a);
                        }
                    }
                }
                from += count;
                if last {
                    break;
                }
            }
            i += rows;
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Product {
    QueryKey,
    WeightValue,
}

/// Where the sums of both products end: rows of whole lines.
struct Ends<'a> {
    out: &'a mut [f32],
    /// Floats from one row to the next.
    stride: usize,
    /// Whether sums start at zero, not at `before` times what `out` holds.
    fresh: bool,
    before: [f32; ROWS],
    /// A factor of each row's sums.
    after: [f32; ROWS],
}

impl<S: Simd> Sums<S> for Ends<'_> {
    #[inline(always)]
    fn start<const P: usize>(&self, s: S, row: usize) -> [S::V; P] {
        let mut sums = [s.splat(0.0); P];
        if !self.fresh {
            let factor = s.splat(self.before.get(row).copied().unwrap_or(1.0));
            let cells = self.out.get(row * self.stride..).unwrap_or_default().as_chunks().0;
            let Some(cells) = cells.first_chunk::<P>() else { return sums };
            unroll!(J < P { sums[J] = s.mul(s.load(&cells[J]), factor); });
        }
        sums
    }
    #[inline(always)]
    fn take<const P: usize>(&mut self, s: S, row: usize, sums: [S::V; P]) {
        let factor = s.splat(self.after.get(row).copied().unwrap_or(1.0));
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

/// How far one query's softmax has come.
#[derive(Clone, Copy)]
struct Weighing {
    /// The largest score so far, scaled.
    shift: f32,
    /// The sum of `exp(score - shift)` so far.
    sum: f32,
}

impl Weighing {
    /// `x = exp(x * scale - shift)` of the next scores, with the new `shift`; gives the
    /// factor that what was weighed before must have.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, s: S, row: &mut [[f32; LANES]], scale: f32) -> f32 {
        let old = self.shift;
        let new = s.largest(largest(s, row)) * scale;
        if new > old {
            self.shift = new;
        } else if old == f32::NEG_INFINITY {
            // Nothing is seen yet: -inf minus -inf would be no number.
            row.as_flattened_mut().fill(0.0);
            return 1.0;
        }
        let sum = s.sum(exponentials(s, row, scale, self.shift));
        // Exactly 1 where the largest stays; 0 where nothing was before.
        let mut factor = [0.0; LANES];
        if old == self.shift {
            factor = [1.0; LANES];
        } else if old > f32::NEG_INFINITY {
            s.store(exp_below_89(s, s.splat(old - self.shift)), &mut factor);
        }
        let [factor, ..] = factor;
        self.sum = self.sum * factor + sum;
        factor
    }
}

/// Adds to one query's `all` weights those of the keys `from` on; what comes after is 0.
fn show(all: &mut [f32], from: usize, weights: &[f32], before: f32, after: f32) {
    let (old, new) = all.split_at_mut(from.min(all.len()));
    old.iter_mut().for_each(|w| *w *= before * after);
    let weights = weights.iter().map(|w| w * after).chain(core::iter::repeat(0.0));
    new.iter_mut().zip(weights).for_each(|(all, w)| *all = w);
}

/// Makes the scores of keys that one query does not see -inf: of `count` keys from `from`
/// on, and of what is beyond them in the last line.
#[inline(always)]
fn mask<S: Simd>(
    s: S,
    shape: &AttentionShape<'_>,
    query: usize,
    from: usize,
    count: usize,
    row: &mut [[f32; LANES]],
) {
    let end = match shape.mask.is_causal() {
        true => count.min(shape.first.saturating_add(query + 1).saturating_sub(from)),
        false => count,
    };
    let minus_infinity = s.splat(f32::NEG_INFINITY);
    for (p, x) in row.iter_mut().enumerate().skip(end / LANES) {
        let left = s.splat(end.saturating_sub(p * LANES) as f32);
        let seen = s.select_lt(s.load(&LANE), left, s.load(x), minus_infinity);
        s.store(seen, x);
    }
    let Some(keep) = shape.mask.keep(query, shape.keys).and_then(|keep| keep.get(from..)) else { return };
    for (x, keep) in row.iter_mut().zip(keep.chunks(LANES)) {
        // 1 where the key is seen: 0.5 < 1 selects its score, whatever else is there.
        let mut seen = [0.0; LANES];
        for (seen, keep) in seen.iter_mut().zip(keep) {
            *seen = f32::from(u8::from(*keep));
        }
        let kept = s.select_lt(s.splat(0.5), s.load(&seen), s.load(x), minus_infinity);
        s.store(kept, x);
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
