//! The arena's buffers, each with its shape, and the span in which some take turns.
//!
//! ```text
//! arena: | sources targets next_token | memory stream last | cross and own keys, values | scratch        |
//!                                                                  attention:    | qkv attended … scores |
//!                                                                  feed-forward: | hidden sublayer …     |
//!                                                                  output:       | logits quantized      |
//! ```

use crate::buffers::buffers;
use crate::kernels::attention::score_lines;
use crate::{Error, Line, Plan};

buffers! { plan;
    /// The arena of a session.
    Buffers {
        /// Which rows are which source's.
        sources: sequences(if plan.config().has_encoder() { plan.capacity().batch } else { 0 }),
        /// Which rows are which target's, and how far each has come.
        targets: sequences(if plan.config().has_decoder() { plan.capacity().batch } else { 0 }),
        /// The token that each target goes on with.
        next_token: words(if plan.config().has_decoder() { plan.capacity().batch } else { 0 }),
        /// The encoder's stream and result: `[source rows × d_model]`.
        memory: floats(plan.source_rows().saturating_mul(plan.d_model())),
        /// The decoder's stream: `[target rows × d_model]`.
        stream: floats(plan.target_rows().saturating_mul(plan.d_model())),
        /// Each target's last row: `[batch × d_model]`.
        last: floats(if plan.config().has_decoder() { (plan.capacity().batch as u64).saturating_mul(plan.d_model()) } else { 0 }),
        /// The sources' keys: `[layer × sequence × head × panel × feature]`.
        cross_keys: lines(plan.slots(plan.crosses()).saturating_mul(plan.key_lines(plan.capacity().source))),
        /// The sources' values: `[layer × sequence × head × panel × position]`.
        cross_values: lines(plan.slots(plan.crosses()).saturating_mul(plan.value_lines(plan.capacity().source))),
        /// The targets' keys so far.
        own_keys: lines(plan.slots(true).saturating_mul(plan.key_lines(plan.capacity().target))),
        /// The targets' values so far.
        own_values: lines(plan.slots(true).saturating_mul(plan.value_lines(plan.capacity().target))),
        /// What the groups below take turns in.
        scratch: lines(plan.scratch()),
    }
}

buffers! { plan;
    /// What attention works in.
    AttentionBuffers {
        /// Queries, keys and values: `[rows × 3 × width]`.
        query_key_value: floats(plan.rows().saturating_mul(3 * plan.width())),
        /// The heads' results: `[rows × width]`.
        attended: floats(plan.rows().saturating_mul(plan.width())),
        /// A block of what the sublayer reads or gives: `[block × d_model]`.
        sublayer: floats(plan.block_rows() * plan.d_model()),
        /// A block of rows in eight bits, where a projection wants them.
        quantized: lines(plan.quantized_attention()),
        /// One source's packed keys.
        keys: lines(plan.key_lines(plan.capacity().source)),
        /// One source's packed values.
        values: lines(plan.value_lines(plan.capacity().source)),
        /// Scores of one tile of queries, for each thread.
        scores: lines((plan.threads() as u64).saturating_mul(score_lines(if plan.capacity().source > plan.capacity().target { plan.capacity().source } else { plan.capacity().target }) as u64)),
    }
}

buffers! { plan;
    /// What the feed-forward layer works in.
    FeedForwardBuffers {
        /// The middle of a block: `[block × d_ff]`.
        hidden: floats(plan.block_rows() * plan.config().d_ff as u64),
        /// A block of what the sublayer reads or gives: `[block × d_model]`.
        sublayer: floats(plan.block_rows() * plan.d_model()),
        /// A block of rows in eight bits.
        quantized: lines(plan.quantized_feed_forward()),
    }
}

buffers! { plan;
    /// What the output projection gives.
    OutputBuffers {
        /// Scores of the next token: `[rows × target_vocab]`, of a batch's last rows or some of a chunk's.
        logits: floats(plan.logits()),
        /// The rows in eight bits.
        quantized: lines(plan.quantized_output()),
    }
}

/// The span in which the groups of scratch buffers take turns.
#[derive(Debug)]
pub struct Workspace<'a> {
    plan: &'a Plan,
    lines: &'a mut [Line],
}

impl<'a> Workspace<'a> {
    /// A workspace in `lines`.
    ///
    /// Errors: [`Error::Arena`] if it is too short for the plan.
    pub fn new(plan: &'a Plan, lines: &'a mut [Line]) -> Result<Self, Error> {
        let need = plan.scratch() as usize;
        if lines.len() < need {
            return Err(Error::Arena { need });
        }
        Ok(Workspace { plan, lines })
    }

    /// Lines of a plan's workspace.
    pub const fn lines(plan: &Plan) -> usize {
        plan.scratch() as usize
    }

    /// The span as what attention works in.
    pub fn attention(&mut self) -> Result<AttentionBuffers<'_>, Error> {
        let need = Self::lines(self.plan);
        AttentionBuffers::carve(self.plan, self.lines).ok_or(Error::Arena { need })
    }

    /// The span as what the feed-forward layer works in.
    pub fn feed_forward(&mut self) -> Result<FeedForwardBuffers<'_>, Error> {
        let need = Self::lines(self.plan);
        FeedForwardBuffers::carve(self.plan, self.lines).ok_or(Error::Arena { need })
    }

    /// The span as what the output projection gives.
    pub fn output(self) -> Result<OutputBuffers<'a>, Error> {
        let need = Self::lines(self.plan);
        OutputBuffers::carve(self.plan, self.lines).ok_or(Error::Arena { need })
    }
}
