//! The position-wise feed-forward layer, `act(x W1 + b1) W2 + b2` (the paper, section 3.3).

use super::linear::Linear;
use super::{Norm, Run};
use crate::Error;
use crate::arena::FeedForwardBuffers;
use crate::kernels::activation::Activation;
use crate::parts::{HeadAxis, parts};

parts! { c;
    /// Two linear layers with the activation between them.
    FeedForward {
        /// `d_model` to `d_ff`.
        up: Linear(c.d_ff as usize, c.d_model as usize, c.feed_forward_bias, HeadAxis::None, c.elements.feed_forward),
        /// `d_ff` to `d_model`.
        down: Linear(c.d_model as usize, c.d_ff as usize, c.feed_forward_bias, HeadAxis::None, c.elements.feed_forward),
    }
}

impl FeedForward<'_> {
    /// The sublayer with its residual connection, in place over `x[rows × d_model]`,
    /// a block of rows at a time: the middle of a block stays in the cache.
    pub fn forward(
        &self,
        run: &Run<'_>,
        x: &mut [f32],
        norm: &Norm<'_>,
        buffers: FeedForwardBuffers<'_>,
    ) -> Result<(), Error> {
        let FeedForwardBuffers { hidden, sublayer, quantized } = buffers;
        let c = run.plan.config();
        for x in x.chunks_mut((run.plan.block() * self.up.depth).max(1)) {
            let rows = x.len().checked_div(self.up.depth).unwrap_or(0);
            let hidden = super::part(hidden, rows * self.up.cols)?;
            let input = norm.before(run.workers, c.norm_place, x, sublayer)?;
            self.up.forward(run.workers, input, c.activation, quantized, hidden)?;
            let sublayer = super::part(sublayer, x.len())?;
            self.down.forward(run.workers, hidden, Activation::Identity, quantized, sublayer)?;
            norm.after(run.workers, c.norm_place, x, sublayer)?;
        }
        Ok(())
    }
}
