//! The whole Transformer: embeddings, encoder, decoder, output projection.

use super::embedding::{Embedding, Table};
use super::linear::Linear;
use super::{Decoder, Encoder, Norm, Run};
use crate::config::{Element, Output, Positions};
use crate::kernels::activation::Activation;
use crate::parts::{Cut, Describe, HeadAxis, Path, Tensor, parts};
use crate::{Config, Error, Line};

/// Rows of a token table: the source's, or the target's where it has its own.
const fn token_rows(c: &Config, target: bool) -> usize {
    match target {
        false if c.has_encoder() => c.source_vocab as usize,
        true if c.has_decoder() && !(c.shared_embedding && c.has_encoder()) => c.target_vocab as usize,
        _ => 0,
    }
}

/// Rows of a learned position table.
const fn position_rows(c: &Config, target: bool) -> usize {
    let (present, context) = match target {
        false => (c.has_encoder(), c.source_context),
        true => (c.has_decoder(), c.target_context),
    };
    match c.positions {
        Positions::Learned if present => context as usize + c.position_offset as usize,
        _ => 0,
    }
}

/// Whether a token table is the output projection too.
const fn tied(c: &Config, target: bool) -> bool {
    matches!(c.output, Output::Tied) && c.has_decoder() && (target || c.shared_embedding)
}

const fn output_cols(c: &Config) -> usize {
    match c.output {
        Output::Separate if c.has_decoder() => c.target_vocab as usize,
        _ => 0,
    }
}

/// A bias of the tied output projection, which has no linear layer of its own.
#[derive(Clone, Copy, Debug)]
pub struct Bias<'w> {
    /// `ceil(cols / 16)` lines, or none.
    pub lines: &'w [Line],
}

impl<'w> Bias<'w> {
    pub(crate) const fn lines(cols: usize) -> u64 {
        cols.div_ceil(16) as u64
    }
    pub(crate) fn cut(blob: &mut Cut<'w>, cols: usize) -> Self {
        Bias { lines: blob.take(Self::lines(cols)) }
    }
    pub(crate) fn describe(path: &Path, f: &mut Describe<'_>, cols: usize) {
        if cols != 0 {
            f(path, Tensor::Bias { cols }, Self::lines(cols) as usize);
        }
    }
}

const fn tied_bias_cols(c: &Config) -> usize {
    match c.output {
        Output::Tied if c.has_decoder() && c.output_bias => c.target_vocab as usize,
        _ => 0,
    }
}

parts! { c;
    /// All weights of a model, as views in the order of the blob.
    Transformer {
        /// A vector a source token.
        source_tokens: Table(token_rows(c, false), c.d_model as usize, tied(c, false), c.elements.tokens),
        /// A vector a source position, if learned.
        source_positions: Table(position_rows(c, false), c.d_model as usize, false, Element::F32),
        /// Normalises the source's embedding, if the model does that.
        source_norm: Norm(c, c.embedding_norm && c.has_encoder()),
        /// The encoder.
        encoder: Encoder(c),
        /// A vector a target token, unless shared.
        target_tokens: Table(token_rows(c, true), c.d_model as usize, tied(c, true), c.elements.tokens),
        /// A vector a target position, if learned.
        target_positions: Table(position_rows(c, true), c.d_model as usize, false, Element::F32),
        /// Normalises the target's embedding, if the model does that.
        target_norm: Norm(c, c.embedding_norm && c.has_decoder()),
        /// The decoder.
        decoder: Decoder(c),
        /// Scores the next token, unless tied.
        output: Linear(output_cols(c), c.d_model as usize, c.output_bias && output_cols(c) != 0, HeadAxis::None, c.elements.output),
        /// The bias of a tied output projection.
        output_bias: Bias(tied_bias_cols(c)),
    }
}

impl<'w> Transformer<'w> {
    /// What embeds the source.
    pub fn source_embedding(&self) -> Embedding<'w> {
        Embedding { tokens: self.source_tokens, positions: self.source_positions, norm: self.source_norm }
    }

    /// What embeds the target: its own table, or the source's where they share one.
    pub fn target_embedding(&self) -> Embedding<'w> {
        let shared = self.target_tokens.rows == 0;
        Embedding {
            tokens: if shared { self.source_tokens } else { self.target_tokens },
            positions: self.target_positions,
            norm: self.target_norm,
        }
    }

    /// The projection to `target_vocab` scores: a linear layer, or the embedding's
    /// table read as one; `None` in a model without.
    pub fn output_projection(&self, c: &Config) -> Option<Linear<'w>> {
        match c.output {
            Output::Separate if c.has_decoder() => Some(self.output),
            Output::Tied if c.has_decoder() => Some(Linear {
                cols: c.target_vocab as usize,
                depth: c.d_model as usize,
                weights: self.target_embedding().tokens.panels(),
                bias: self.output_bias.lines,
            }),
            _ => None,
        }
    }

    /// `logits[rows × target_vocab]` of `x[rows × d_model]`; `quantized` as in [`Linear::forward`].
    pub fn logits(
        &self,
        run: &Run<'_>,
        x: &[f32],
        quantized: &mut [Line],
        logits: &mut [f32],
    ) -> Result<(), Error> {
        let output = self.output_projection(run.plan.config()).ok_or(Error::Missing("output projection"))?;
        output.forward(run.workers, x, Activation::Identity, quantized, logits)
    }
}
