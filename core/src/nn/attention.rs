//! Multi-head attention (the paper, section 3.2): self-attention, where queries,
//! keys and values come from one stream, and cross-attention, where keys and
//! values come from the encoder. With one head it is single-head attention.

use super::linear::{Linear, attention_width, heads};
use super::{Norm, Run, Sequence, Site};
use crate::arena::AttentionBuffers;
use crate::config::Stack;
use crate::kernels::activation::Activation;
use crate::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values};
use crate::parts::{HeadAxis, parts};
use crate::{Config, Error, Line};

const fn d_model(c: &Config) -> usize {
    c.d_model as usize
}

/// The width of cross-attention's projections: none where there is no encoder to look at.
const fn cross(c: &Config, width: usize) -> usize {
    if matches!(c.stack, Stack::EncoderDecoder) { width } else { 0 }
}

parts! { c;
    /// Queries, keys and values as one product, and the projection of the heads' results.
    SelfAttention {
        /// `d_model` to three times all heads: query, key, value.
        query_key_value: Linear(3 * attention_width(c), d_model(c), c.attention_bias, HeadAxis::Columns(3), c.elements.attention),
        /// All heads to `d_model`.
        output: Linear(d_model(c), attention_width(c), c.attention_bias, HeadAxis::Depth, c.elements.attention),
    }
}

parts! { c;
    /// Queries from the decoder; keys and values from the encoder, made once a source.
    CrossAttention {
        /// `d_model` to all heads.
        query: Linear(cross(c, attention_width(c)), d_model(c), c.attention_bias && cross(c, 1) == 1, HeadAxis::Columns(1), c.elements.attention),
        /// `d_model` to twice all heads: key, value.
        key_value: Linear(2 * cross(c, attention_width(c)), d_model(c), c.attention_bias && cross(c, 1) == 1, HeadAxis::Columns(2), c.elements.attention),
        /// All heads to `d_model`.
        output: Linear(cross(c, d_model(c)), cross(c, attention_width(c)), c.attention_bias && cross(c, 1) == 1, HeadAxis::Depth, c.elements.attention),
    }
}

/// Packed keys and values, one slot a sequence (or one slot that they use in turn).
#[derive(Debug)]
pub struct KeyValues<'a> {
    /// The heads they are packed for.
    pub heads: Heads,
    /// Positions of a slot.
    pub capacity: usize,
    /// `heads.key_lines(capacity)` lines a slot.
    pub keys: &'a mut [Line],
    /// `heads.value_lines(capacity)` lines a slot.
    pub values: &'a mut [Line],
}

/// The packed keys and values of every layer of a decoder.
#[derive(Debug)]
pub struct Caches<'a> {
    /// The heads they are packed for.
    pub heads: Heads,
    /// Positions of a slot.
    pub capacity: usize,
    /// Slots of a layer: one a sequence.
    pub batch: usize,
    /// `[layer × sequence]` slots of `heads.key_lines(capacity)` lines.
    pub keys: &'a mut [Line],
    /// `[layer × sequence]` slots of `heads.value_lines(capacity)` lines.
    pub values: &'a mut [Line],
}

impl Caches<'_> {
    /// One layer's slots.
    pub fn layer(&mut self, layer: usize) -> KeyValues<'_> {
        let (heads, capacity) = (self.heads, self.capacity);
        let keys = self.batch.saturating_mul(heads.key_lines(capacity));
        let values = self.batch.saturating_mul(heads.value_lines(capacity));
        KeyValues {
            heads,
            capacity,
            keys: self.keys.chunks_exact_mut(keys.max(1)).nth(layer).unwrap_or_default(),
            values: self.values.chunks_exact_mut(values.max(1)).nth(layer).unwrap_or_default(),
        }
    }
}

impl KeyValues<'_> {
    fn slot(&mut self, sequence: usize) -> (&mut [Line], &mut [Line]) {
        let (keys, values) = (self.heads.key_lines(self.capacity), self.heads.value_lines(self.capacity));
        let slots = self.values.len().checked_div(values).unwrap_or(0);
        let slot = sequence.checked_rem(slots).unwrap_or(0);
        (
            self.keys.get_mut(slot.saturating_mul(keys)..).unwrap_or_default(),
            self.values.get_mut(slot.saturating_mul(values)..).unwrap_or_default(),
        )
    }

    /// Packs `rows` of `[... | key | value]`, `stride` floats apart, at positions `at` on.
    pub fn append(&mut self, sequence: usize, at: usize, rows: &[f32], stride: usize, count: usize) {
        let (heads, capacity, width) = (self.heads, self.capacity, self.heads.width());
        let (keys, values) = self.slot(sequence);
        let key = rows.get(stride.saturating_sub(width.saturating_mul(2))..).unwrap_or_default();
        let value = rows.get(stride.saturating_sub(width)..).unwrap_or_default();
        append_keys_values(heads, capacity, at, key, value, stride, count, keys, values);
    }
}

/// `out = linear(x)`, or of `norm(x)` where the norm comes first, a block of rows at a time.
fn project_in(
    run: &Run<'_>,
    linear: &Linear<'_>,
    norm: &Norm<'_>,
    x: &[f32],
    sublayer: &mut [f32],
    quantized: &mut [Line],
    out: &mut [f32],
) -> Result<(), Error> {
    let (block, place) = (run.plan.block(), run.plan.config().norm_place);
    let blocks = out.chunks_mut((block * linear.cols).max(1));
    for (x, out) in x.chunks((block * norm.d_model).max(1)).zip(blocks) {
        let input = norm.before(run.workers, place, x, sublayer)?;
        linear.forward(run.workers, input, Activation::Identity, quantized, out)?;
    }
    Ok(())
}

/// The heads' results projected, and the residual connection, a block of rows at a time.
fn project_out(
    run: &Run<'_>,
    linear: &Linear<'_>,
    norm: &Norm<'_>,
    attended: &[f32],
    x: &mut [f32],
    sublayer: &mut [f32],
    quantized: &mut [Line],
) -> Result<(), Error> {
    let (block, place) = (run.plan.block(), run.plan.config().norm_place);
    let blocks = attended.chunks((block * linear.depth).max(1));
    for (x, attended) in x.chunks_mut((block * norm.d_model).max(1)).zip(blocks) {
        let sublayer = super::part(sublayer, x.len())?;
        linear.forward(run.workers, attended, Activation::Identity, quantized, sublayer)?;
        norm.after(run.workers, place, x, sublayer)?;
    }
    Ok(())
}

/// `softmax(Q Kᵀ / sqrt(head_size) + mask) V` for one sequence's queries.
fn attend(
    run: &mut Run<'_>,
    site: Site,
    shape: AttentionShape<'_>,
    query: &[f32],
    cache: &mut KeyValues<'_>,
    scores: &mut [Line],
    out: &mut [f32],
) -> Result<(), Error> {
    let need = shape.heads.heads.saturating_mul(shape.queries).saturating_mul(shape.keys);
    let weights = run.watch.weights(site, shape.heads.heads, shape.queries, shape.keys);
    let weights = weights.filter(|weights| weights.len() >= need);
    let (keys, values) = cache.slot(site.sequence);
    run.workers.attention(&shape, query, keys, values, scores, out, weights)
}

impl SelfAttention<'_> {
    /// The sublayer with its residual connection, in place over `x[rows × d_model]`:
    /// queries, keys and values a block of rows at a time, attention a sequence at a time,
    /// then the output projection and `norm` a block at a time.
    ///
    /// Keys and values join `cache` at each sequence's `at`; a query sees the
    /// sequence's keys as far as `mask` and its `keep` allow.
    pub fn forward(
        &self,
        run: &mut Run<'_>,
        part: &'static str,
        sequences: &[Sequence],
        mask: Mask<'_>,
        x: &mut [f32],
        norm: &Norm<'_>,
        cache: &mut KeyValues<'_>,
        buffers: AttentionBuffers<'_>,
    ) -> Result<(), Error> {
        let AttentionBuffers { query_key_value, attended, sublayer, quantized, scores, .. } = buffers;
        let (heads, d_model) = (heads(run.plan.config()), norm.d_model);
        let (stride, width) = (3 * heads.width(), heads.width());
        let rows = x.len().checked_div(d_model).unwrap_or(0);
        let query_key_value = super::part(query_key_value, rows.saturating_mul(stride))?;
        let attended = super::part(attended, rows.saturating_mul(width))?;

        project_in(run, &self.query_key_value, norm, x, sublayer, quantized, query_key_value)?;
        for (i, s) in sequences.iter().enumerate() {
            let at = s.at as usize;
            let query = query_key_value.get(s.range(stride).start..).unwrap_or_default();
            cache.append(i, at, query, stride, s.rows as usize);
            let shape = AttentionShape {
                heads,
                queries: s.rows as usize,
                query_stride: stride,
                keys: s.keep as usize,
                capacity: cache.capacity,
                first: at,
                mask,
            };
            let out = attended.get_mut(s.range(width)).unwrap_or_default();
            attend(run, run.site(part, i), shape, query, cache, scores, out)?;
        }
        project_out(run, &self.output, norm, attended, x, sublayer, quantized)
    }
}

impl CrossAttention<'_> {
    /// Makes the keys and values of every source in `memory[rows × d_model]`.
    pub fn fill_cache(
        &self,
        run: &Run<'_>,
        sources: &[Sequence],
        memory: &[f32],
        cache: &mut KeyValues<'_>,
        buffers: AttentionBuffers<'_>,
    ) -> Result<(), Error> {
        let (stride, d_model) = (self.key_value.cols, self.key_value.depth);
        for (i, s) in sources.iter().enumerate() {
            let rows = memory.get(s.range(d_model).start..).unwrap_or_default();
            let need = (s.rows as usize).saturating_mul(stride);
            let key_value = super::part(&mut *buffers.query_key_value, need)?;
            let block = run.plan.block();
            let blocks = key_value.chunks_mut((block * stride).max(1));
            for (x, key_value) in rows.chunks((block * d_model).max(1)).zip(blocks) {
                let quantized = &mut *buffers.quantized;
                self.key_value.forward(run.workers, x, Activation::Identity, quantized, key_value)?;
            }
            cache.append(i, 0, key_value, stride, s.rows as usize);
        }
        Ok(())
    }

    /// Attends from each target's rows of `x` to its source's keys, as far as the source's `keep`.
    pub fn forward(
        &self,
        run: &mut Run<'_>,
        targets: &[Sequence],
        sources: &[Sequence],
        x: &mut [f32],
        norm: &Norm<'_>,
        cache: &mut KeyValues<'_>,
        buffers: AttentionBuffers<'_>,
    ) -> Result<(), Error> {
        let AttentionBuffers { query_key_value: query, attended, sublayer, quantized, scores, .. } = buffers;
        let (heads, d_model) = (heads(run.plan.config()), norm.d_model);
        let width = heads.width();
        let rows = x.len().checked_div(d_model).unwrap_or(0);
        let query = super::part(query, rows.saturating_mul(width))?;
        let attended = super::part(attended, rows.saturating_mul(width))?;

        project_in(run, &self.query, norm, x, sublayer, quantized, query)?;
        for (i, (target, source)) in targets.iter().zip(sources).enumerate() {
            let rows = target.range(width);
            let shape = AttentionShape {
                heads,
                queries: target.rows as usize,
                query_stride: width,
                keys: source.keep as usize,
                capacity: cache.capacity,
                first: 0,
                mask: Mask::None,
            };
            let query = query.get(rows.clone()).unwrap_or_default();
            let out = attended.get_mut(rows).unwrap_or_default();
            attend(run, run.site("decoder.cross_attention", i), shape, query, cache, scores, out)?;
        }
        project_out(run, &self.output, norm, attended, x, sublayer, quantized)
    }
}
