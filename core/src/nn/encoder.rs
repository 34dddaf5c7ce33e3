//! The encoder layer and the encoder (the paper, section 3.1).

use super::{FeedForward, KeyValues, Norm, Run, SelfAttention, Sequence};
use crate::arena::Workspace;
use crate::kernels::attention::Mask;
use crate::parts::{Cut, Describe, Path, join, join_number, parts};
use crate::{Config, Error, Line};

parts! { c;
    /// Self-attention, then feed-forward, each inside its residual connection.
    EncoderLayer {
        /// Every position looks at every position.
        self_attention: SelfAttention(c),
        /// The norm of its residual connection.
        norm1: Norm(c, true),
        /// The same small network at every position.
        feed_forward: FeedForward(c),
        /// The norm of its residual connection.
        norm2: Norm(c, true),
    }
}

impl EncoderLayer<'_> {
    /// The layer, in place over `x[rows × d_model]`; `mask` is of every sequence alike.
    pub fn forward(
        &self,
        run: &mut Run<'_>,
        sequences: &[Sequence],
        mask: Mask<'_>,
        x: &mut [f32],
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let mut buffers = workspace.attention()?;
        let mut cache = KeyValues {
            heads: run.plan.heads(),
            capacity: run.plan.capacity().source,
            keys: core::mem::take(&mut buffers.keys),
            values: core::mem::take(&mut buffers.values),
        };
        // x = norm1(x + self_attention(x)); pre-norm: x + self_attention(norm1(x))
        let part = "encoder.self_attention";
        self.self_attention.forward(run, part, sequences, mask, x, &self.norm1, &mut cache, buffers)?;
        run.show(part, x);
        // x = norm2(x + feed_forward(x))
        self.feed_forward.forward(run, x, &self.norm2, workspace.feed_forward()?)?;
        run.show("encoder.feed_forward", x);
        Ok(())
    }
}

/// A stack of encoder layers.
#[derive(Clone, Copy, Debug)]
pub struct Encoder<'w> {
    layers: &'w [Line],
    /// Normalises the result, if the model does that.
    pub norm: Norm<'w>,
}

impl<'w> Encoder<'w> {
    const fn count(c: &Config) -> u64 {
        if c.has_encoder() { c.encoder_layers as u64 } else { 0 }
    }

    const fn final_norm(c: &Config) -> bool {
        c.has_encoder() && c.final_norm
    }

    pub(crate) const fn lines(c: &Config) -> u64 {
        EncoderLayer::lines(c)
            .saturating_mul(Self::count(c))
            .saturating_add(Norm::lines(c, Self::final_norm(c)))
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, c: &Config) -> Self {
        let layers = blob.take(EncoderLayer::lines(c).saturating_mul(Self::count(c)));
        Encoder { layers, norm: Norm::cut(blob, c, Self::final_norm(c)) }
    }

    pub(crate) fn describe(path: &Path, f: &mut Describe<'_>, c: &Config) {
        for i in 0..Self::count(c) as usize {
            EncoderLayer::describe(&join_number(path, i), f, c);
        }
        Norm::describe(&join(path, "norm"), f, c, Self::final_norm(c));
    }

    /// Each layer's lines.
    fn blobs(&self, c: &Config) -> core::slice::ChunksExact<'w, Line> {
        self.layers.chunks_exact((EncoderLayer::lines(c) as usize).max(1))
    }

    /// The layers, in order.
    pub fn layers(&self, c: &Config) -> impl Iterator<Item = EncoderLayer<'w>> {
        self.blobs(c).map(move |blob| EncoderLayer::cut(&mut Cut(blob), c))
    }

    /// All layers, in place over `x[rows × d_model]`.
    pub fn forward(
        &self,
        run: &mut Run<'_>,
        sequences: &[Sequence],
        x: &mut [f32],
        workspace: &mut Workspace<'_>,
    ) -> Result<(), Error> {
        let plan = run.plan;
        // Cut here: an iterator of layers would have two of them on the stack.
        for (i, blob) in self.blobs(plan.config()).enumerate() {
            run.layer = i;
            EncoderLayer::cut(&mut Cut(blob), plan.config()).forward(
                run,
                sequences,
                Mask::None,
                x,
                workspace,
            )?;
        }
        self.norm.forward(run.workers, x, None)
    }
}
