//! The decoder layer and the decoder (the paper, section 3.1).

use super::{Caches, CrossAttention, FeedForward, KeyValues, Norm, Run, SelfAttention, Sequence};
use crate::arena::Workspace;
use crate::config::Stack;
use crate::kernels::attention::Mask;
use crate::parts::{Cut, Describe, Path, join, join_number, parts};
use crate::{Config, Error, Line};

const fn crosses(c: &Config) -> bool {
    matches!(c.stack, Stack::EncoderDecoder)
}

parts! { c;
    /// Causal self-attention, cross-attention, then feed-forward, each inside its
    /// residual connection.
    DecoderLayer {
        /// Every position looks at itself and those before it.
        self_attention: SelfAttention(c),
        /// The norm of its residual connection.
        norm1: Norm(c, true),
        /// Every position looks at the whole source; absent in a model without encoder.
        cross_attention: CrossAttention(c),
        /// The norm of its residual connection.
        norm2: Norm(c, crosses(c)),
        /// The same small network at every position.
        feed_forward: FeedForward(c),
        /// The norm of its residual connection.
        norm3: Norm(c, true),
    }
}

impl DecoderLayer<'_> {
    /// The layer, in place over `x[rows × d_model]`. `targets` say which rows are
    /// whose and where they stand; `self_cache` has the keys and values of the positions
    /// before, `cross_cache` those of the sources.
    pub fn forward(
        &self,
        run: &mut Run<'_>,
        targets: &[Sequence],
        sources: &[Sequence],
        x: &mut [f32],
        self_cache: &mut KeyValues<'_>,
        cross_cache: &mut KeyValues<'_>,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        // x = norm1(x + self_attention(x)); pre-norm: x + self_attention(norm1(x))
        let (part, buffers) = ("decoder.self_attention", workspace.attention()?);
        self.self_attention.forward(run, part, targets, Mask::Causal, x, &self.norm1, self_cache, buffers)?;
        run.show(part, x);
        // x = norm2(x + cross_attention(x, memory))
        if crosses(run.plan.config()) {
            let buffers = workspace.attention()?;
            self.cross_attention.forward(run, targets, sources, x, &self.norm2, cross_cache, buffers)?;
            run.show("decoder.cross_attention", x);
        }
        // x = norm3(x + feed_forward(x))
        self.feed_forward.forward(run, x, &self.norm3, workspace.feed_forward()?)?;
        run.show("decoder.feed_forward", x);
        Ok(())
    }
}

/// A stack of decoder layers.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'w> {
    layers: &'w [Line],
    /// Normalises the result, if the model does that.
    pub norm: Norm<'w>,
}

impl<'w> Decoder<'w> {
    const fn count(c: &Config) -> u64 {
        if c.has_decoder() { c.decoder_layers as u64 } else { 0 }
    }

    const fn final_norm(c: &Config) -> bool {
        c.has_decoder() && c.final_norm
    }

    pub(crate) const fn lines(c: &Config) -> u64 {
        DecoderLayer::lines(c)
            .saturating_mul(Self::count(c))
            .saturating_add(Norm::lines(c, Self::final_norm(c)))
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, c: &Config) -> Self {
        let layers = blob.take(DecoderLayer::lines(c).saturating_mul(Self::count(c)));
        Decoder { layers, norm: Norm::cut(blob, c, Self::final_norm(c)) }
    }

    pub(crate) fn describe(path: &Path, f: &mut Describe<'_>, c: &Config) {
        for i in 0..Self::count(c) as usize {
            DecoderLayer::describe(&join_number(path, i), f, c);
        }
        Norm::describe(&join(path, "norm"), f, c, Self::final_norm(c));
    }

    /// Each layer's lines.
    fn blobs(&self, c: &Config) -> core::slice::ChunksExact<'w, Line> {
        self.layers.chunks_exact((DecoderLayer::lines(c) as usize).max(1))
    }

    /// The layers, in order.
    pub fn layers(&self, c: &Config) -> impl Iterator<Item = DecoderLayer<'w>> {
        self.blobs(c).map(move |blob| DecoderLayer::cut(&mut Cut(blob), c))
    }

    /// Makes every layer's keys and values of the sources in `memory[rows × d_model]`.
    pub fn fill_cross_caches(
        &self,
        run: &Run<'_>,
        sources: &[Sequence],
        memory: &[f32],
        cross: &mut Caches<'_>,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let c = run.plan.config();
        for (i, blob) in self.blobs(c).enumerate() {
            let layer = DecoderLayer::cut(&mut Cut(blob), c);
            let buffers = workspace.attention()?;
            layer.cross_attention.fill_cache(run, sources, memory, &mut cross.layer(i), buffers)?;
        }
        Ok(())
    }

    /// All layers, in place over `x[rows × d_model]`: new positions of `targets`, after
    /// those in the caches.
    pub fn forward(
        &self,
        run: &mut Run<'_>,
        targets: &[Sequence],
        sources: &[Sequence],
        x: &mut [f32],
        own: &mut Caches<'_>,
        cross: &mut Caches<'_>,
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let plan = run.plan;
        // Cut here: an iterator of layers would have two of them on the stack.
        for (i, blob) in self.blobs(plan.config()).enumerate() {
            run.layer = i;
            DecoderLayer::cut(&mut Cut(blob), plan.config()).forward(
                run,
                targets,
                sources,
                x,
                &mut own.layer(i),
                &mut cross.layer(i),
                workspace,
            )?;
        }
        self.norm.forward(run.workers, x, None)
    }
}
