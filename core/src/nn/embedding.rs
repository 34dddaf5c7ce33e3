//! Token and positional embedding, `E[token] * sqrt(d_model) + P[position]`
//! (the paper, sections 3.4 and 3.5).

use super::{Norm, Run};
use crate::config::Positions;
use crate::kernels::position::{Sinusoid, add_sinusoidal};
use crate::parts::{Cut, Describe, Path, Tensor};
use crate::{Error, Line};

/// A table of vectors, one a token or a position.
#[derive(Clone, Copy, Debug)]
pub struct Table<'w> {
    /// Vectors.
    pub rows: usize,
    /// Features of each.
    pub d_model: usize,
    /// Whether it lies in panels, to be the output projection too.
    pub tied: bool,
    /// `rows` times `ceil(d_model / 16)` lines; tied: `ceil(rows / 16)` panels of `d_model` lines.
    pub lines: &'w [Line],
}

impl<'w> Table<'w> {
    pub(crate) const fn lines(rows: usize, d_model: usize, tied: bool) -> u64 {
        let (rows, d_model) = (rows as u64, d_model as u64);
        match tied {
            true => rows.div_ceil(16).saturating_mul(d_model),
            false => d_model.div_ceil(16).saturating_mul(rows),
        }
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, rows: usize, d_model: usize, tied: bool) -> Self {
        Table { rows, d_model, tied, lines: blob.take(Self::lines(rows, d_model, tied)) }
    }

    pub(crate) fn describe(path: &Path, f: &mut Describe<'_>, rows: usize, d_model: usize, tied: bool) {
        if rows != 0 {
            f(path, Tensor::Table { rows, d_model, tied }, Self::lines(rows, d_model, tied) as usize);
        }
    }
}

/// What turns tokens into the residual stream: views of the tables, and how to use them.
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'w> {
    /// A vector a token.
    pub tokens: Table<'w>,
    /// A vector a position, if they are learned.
    pub positions: Table<'w>,
    /// Normalises the sum, if the model does that.
    pub norm: Norm<'w>,
}

impl Embedding<'_> {
    /// `x[tokens × d_model]` for `tokens` at the positions from `first` on.
    pub fn forward(&self, run: &Run<'_>, tokens: &[u32], first: usize, x: &mut [f32]) -> Result<(), Error> {
        let (c, d_model) = (run.plan.config(), self.tokens.d_model);
        let scale = if c.scaled_embedding { libm::sqrtf(d_model as f32) } else { 1.0 };
        for (&token, row) in tokens.iter().zip(x.chunks_exact_mut(d_model.max(1))) {
            self.token(run, token, scale, row)?;
        }
        match c.positions {
            Positions::None => {}
            Positions::SinusoidalInterleaved => add_sinusoidal(Sinusoid::Interleaved, first, x, d_model),
            Positions::SinusoidalHalves => add_sinusoidal(Sinusoid::Halves, first, x, d_model),
            Positions::Learned => {
                let width = Line::count(d_model);
                let table = self
                    .positions
                    .lines
                    .chunks_exact(width.max(1))
                    .skip(first.saturating_add(c.position_offset as usize));
                for (row, position) in x.chunks_exact_mut(d_model.max(1)).zip(table) {
                    run.workers.cpu.add(row, Line::floats(position).get(..d_model).unwrap_or(&[]))?;
                }
            }
        }
        self.norm.forward(run.workers, x, None)
    }

    /// One token's vector times `scale`, without its position.
    pub fn token(&self, run: &Run<'_>, token: u32, scale: f32, row: &mut [f32]) -> Result<(), Error> {
        match self.tokens.tied {
            true => run.workers.cpu.embed_tied(self.tokens.lines, token, self.tokens.d_model, scale, row),
            false => run.workers.cpu.embed(self.tokens.lines, token, self.tokens.d_model, scale, row),
        }
    }
}
