//! Token and positional embedding, `E[token] * sqrt(d_model) + P[position]`
//! (the paper, sections 3.4 and 3.5).

use super::linear::Panels;
use super::{Norm, Run};
use crate::config::{Element, Positions};
use crate::kernels::embedding::{Int8Table, embed_int8, embed_tied_int8};
use crate::kernels::half::{Half, embed_half, embed_tied_half};
use crate::kernels::position::{Sinusoid, add_sinusoidal};
use crate::parts::{Cut, Describe, Path, Tensor};
use crate::{Error, Line, Workers};

/// A table of vectors, one a token or a position.
#[derive(Clone, Copy, Debug)]
pub struct Table<'w> {
    /// Vectors.
    pub rows: usize,
    /// Features of each.
    pub d_model: usize,
    /// The vectors, as they are stored.
    pub vectors: Vectors<'w>,
}

/// The vectors of a table, as they are stored.
#[derive(Clone, Copy, Debug)]
pub enum Vectors<'w> {
    /// Each from a line on, `ceil(d_model / 16)` lines.
    F32(&'w [Line]),
    /// In eight bits.
    Int8(Int8Table<'w>),
    /// In sixteen bits.
    Half(Half<'w>),
    /// In panels, to be the output projection too.
    Tied(Panels<'w>),
}

impl<'w> Table<'w> {
    pub(crate) const fn lines(rows: usize, d_model: usize, tied: bool, element: Element) -> u64 {
        match (tied, element) {
            (true, _) => Panels::lines(rows, d_model, element),
            (false, Element::F32) => (d_model.div_ceil(16) as u64).saturating_mul(rows as u64),
            (false, Element::F16 | Element::Bf16) => {
                (d_model.div_ceil(32) as u64).saturating_mul(rows as u64)
            }
            (false, _) => {
                let codes = (d_model.div_ceil(64) as u64).saturating_mul(rows as u64);
                codes.saturating_add(rows.div_ceil(16) as u64)
            }
        }
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, rows: usize, d_model: usize, tied: bool, element: Element) -> Self {
        let lines = Self::lines(rows, d_model, tied, element);
        let vectors = match (tied, element, element.half()) {
            (true, ..) => Vectors::Tied(Panels::cut(blob, rows, d_model, element)),
            (false, Element::F32, _) => Vectors::F32(blob.take(lines)),
            (false, _, Some(format)) => {
                Vectors::Half(Half { halves: Line::halves(blob.take(lines)), format })
            }
            (false, ..) => {
                let codes = blob.take((d_model.div_ceil(64) as u64).saturating_mul(rows as u64));
                let scales = blob.take(rows.div_ceil(16) as u64);
                Vectors::Int8(Int8Table { codes: Line::codes(codes), scales })
            }
        };
        Table { rows, d_model, vectors }
    }

    pub(crate) fn describe(
        path: &Path,
        f: &mut Describe<'_>,
        rows: usize,
        d_model: usize,
        tied: bool,
        element: Element,
    ) {
        if rows != 0 {
            let lines = Self::lines(rows, d_model, tied, element) as usize;
            f(path, Tensor::Table { rows, d_model, tied, element }, lines);
        }
    }

    /// The vectors as the output projection's weights; none unless they are tied.
    pub fn panels(&self) -> Panels<'w> {
        match self.vectors {
            Vectors::Tied(panels) => panels,
            _ => Panels::F32(&[]),
        }
    }

    /// `out = vector · scale` of a token.
    ///
    /// Errors: [`Error::Token`], [`Error::Shape`].
    pub fn vector(&self, workers: Workers<'_>, token: u32, scale: f32, out: &mut [f32]) -> Result<(), Error> {
        let (cpu, d_model) = (workers.cpu, self.d_model);
        let out = out.get_mut(..d_model).ok_or(Error::Shape { need: d_model })?;
        let none = Error::Token { token, vocab: self.rows as u32 };
        match self.vectors {
            Vectors::F32(lines) => cpu.embed(lines, token, d_model, scale, out),
            Vectors::Int8(table) => embed_int8(&table, token, scale, out).ok_or(none),
            Vectors::Tied(Panels::F32(panels)) => cpu.embed_tied(panels, token, d_model, scale, out),
            Vectors::Tied(Panels::Int8(weights)) => embed_tied_int8(&weights, token, scale, out).ok_or(none),
            Vectors::Half(table) => embed_half(table, token, scale, out).ok_or(none),
            Vectors::Tied(Panels::Half(weights)) => embed_tied_half(weights, token, scale, out).ok_or(none),
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
            self.tokens.vector(run.workers, token, scale, row)?;
        }
        match c.positions {
            Positions::None => {}
            Positions::SinusoidalInterleaved => add_sinusoidal(Sinusoid::Interleaved, first, x, d_model),
            Positions::SinusoidalHalves => add_sinusoidal(Sinusoid::Halves, first, x, d_model),
            Positions::Learned => {
                let width = Line::count(d_model);
                let lines = match self.positions.vectors {
                    Vectors::F32(lines) => lines,
                    _ => &[],
                };
                let table =
                    lines.chunks_exact(width.max(1)).skip(first.saturating_add(c.position_offset as usize));
                for (row, position) in x.chunks_exact_mut(d_model.max(1)).zip(table) {
                    run.workers.cpu.add(row, Line::floats(position).get(..d_model).unwrap_or(&[]))?;
                }
            }
        }
        self.norm.forward(run.workers, x, None)
    }
}
