//! The linear layer, `y = act(x W^T + b)`, with its weights packed in panels.

use crate::config::Element;
use crate::kernels::activation::Activation;
use crate::kernels::attention::Heads;
use crate::kernels::half::{self, Half, half_lines};
use crate::kernels::int8::{Int8, groups, row_lines};
use crate::parts::{Cut, Describe, HeadAxis, Path, Tensor};
use crate::{Config, Error, Line, Workers};

/// The weights of a linear layer, as they are stored.
#[derive(Clone, Copy, Debug)]
pub enum Panels<'w> {
    /// `ceil(cols / 16)` panels of `depth` lines: see [`pack_linear`](crate::kernels::pack::pack_linear).
    F32(&'w [Line]),
    /// In eight bits: see [`pack_int8`](crate::kernels::pack::pack_int8).
    Int8(Int8<'w>),
    /// In sixteen bits: see [`pack_half`](crate::kernels::pack::pack_half).
    Half(Half<'w>),
}

impl<'w> Panels<'w> {
    pub(crate) const fn lines(cols: usize, depth: usize, element: Element) -> u64 {
        let panels = cols.div_ceil(16) as u64;
        match (element.half(), element.group()) {
            (Some(_), _) => half_lines(cols, depth) as u64,
            (_, None) => panels.saturating_mul(depth as u64),
            (_, Some(group)) => panels.saturating_mul(depth.div_ceil(4) as u64 + groups(depth, group) as u64),
        }
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, cols: usize, depth: usize, element: Element) -> Self {
        let lines = Self::lines(cols, depth, element);
        match (element.half(), element.group()) {
            (Some(format), _) => Panels::Half(Half { halves: Line::halves(blob.take(lines)), format }),
            (_, None) => Panels::F32(blob.take(lines)),
            (_, Some(group)) => {
                let codes = cols.div_ceil(16) as u64 * depth.div_ceil(4) as u64;
                let (codes, scales) = (blob.take(codes), blob.take(lines.saturating_sub(codes)));
                Panels::Int8(Int8 { codes: Line::codes(codes), scales, group })
            }
        }
    }

    /// Lines that the quantized form of `rows` rows takes, or what widens weights on each thread:
    /// none for weights of floats.
    pub(crate) const fn quantized(rows: u64, depth: usize, element: Element, threads: usize) -> u64 {
        match (element.half(), element.group()) {
            (Some(_), _) => (threads as u64).saturating_mul(half::SCRATCH as u64),
            (_, None) => 0,
            (_, Some(group)) => rows.saturating_mul(row_lines(depth, group) as u64),
        }
    }
}

/// A linear layer over packed weights.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'w> {
    /// Output features.
    pub cols: usize,
    /// Input features.
    pub depth: usize,
    /// The weights, `[cols × depth]`.
    pub weights: Panels<'w>,
    /// `ceil(cols / 16)` lines, or none.
    pub bias: &'w [Line],
}

impl<'w> Linear<'w> {
    pub(crate) const fn lines(cols: usize, depth: usize, bias: bool, _: HeadAxis, element: Element) -> u64 {
        let bias = if bias { cols.div_ceil(16) as u64 } else { 0 };
        Panels::lines(cols, depth, element).saturating_add(bias)
    }

    pub(crate) fn cut(
        blob: &mut Cut<'w>,
        cols: usize,
        depth: usize,
        bias: bool,
        _: HeadAxis,
        element: Element,
    ) -> Self {
        let weights = Panels::cut(blob, cols, depth, element);
        let bias = blob.take(if bias { cols.div_ceil(16) as u64 } else { 0 });
        Linear { cols, depth, weights, bias }
    }

    pub(crate) fn describe(
        path: &Path,
        f: &mut Describe<'_>,
        cols: usize,
        depth: usize,
        bias: bool,
        heads: HeadAxis,
        element: Element,
    ) {
        if cols != 0 {
            let lines = Self::lines(cols, depth, bias, heads, element) as usize;
            f(path, Tensor::Linear { cols, depth, bias, heads, element }, lines);
        }
    }

    /// `out[rows × cols] = act(x[rows × depth] · Wᵀ + bias)`; `out` tells the rows. For weights of
    /// eight bits, `x` is quantized into `quantized`; those of sixteen are widened there.
    pub fn forward(
        &self,
        workers: Workers<'_>,
        x: &[f32],
        activation: Activation,
        quantized: &mut [Line],
        out: &mut [f32],
    ) -> Result<(), Error> {
        match self.weights {
            Panels::F32(panels) => {
                workers.matmul(x, self.depth, panels, self.bias, activation, out, self.cols)
            }
            Panels::Int8(weights) => {
                workers.matmul_int8(x, self.depth, weights, self.bias, activation, quantized, out, self.cols)
            }
            Panels::Half(weights) => {
                workers.matmul_half(x, self.depth, weights, self.bias, activation, quantized, out, self.cols)
            }
        }
    }
}

/// The heads of a configuration.
pub(crate) const fn heads(c: &Config) -> Heads {
    Heads {
        heads: c.heads as usize,
        head_size: match c.d_model.checked_div(c.heads) {
            Some(size) => size as usize,
            None => 0,
        },
    }
}

/// Features of all heads side by side, each head padded to whole lines.
pub(crate) const fn attention_width(c: &Config) -> usize {
    heads(c).width()
}
