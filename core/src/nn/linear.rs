//! The linear layer, `y = act(x W^T + b)`, with its weights packed in panels.

use crate::kernels::activation::Activation;
use crate::kernels::attention::Heads;
use crate::parts::{Cut, Describe, HeadAxis, Path, Tensor};
use crate::{Config, Error, Line, Workers};

/// A linear layer over packed weights.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'w> {
    /// Output features.
    pub cols: usize,
    /// Input features.
    pub depth: usize,
    /// `ceil(cols / 16)` panels of `depth` lines: see [`crate::kernels::pack`].
    pub panels: &'w [Line],
    /// `ceil(cols / 16)` lines, or none.
    pub bias: &'w [Line],
}

impl<'w> Linear<'w> {
    pub(crate) const fn lines(cols: usize, depth: usize, bias: bool, _: HeadAxis) -> u64 {
        let panels = cols.div_ceil(16) as u64;
        panels.saturating_mul(depth as u64).saturating_add(if bias { panels } else { 0 })
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, cols: usize, depth: usize, bias: bool, heads: HeadAxis) -> Self {
        let panels = blob.take(Self::lines(cols, depth, false, heads));
        let bias = blob.take(if bias { cols.div_ceil(16) as u64 } else { 0 });
        Linear { cols, depth, panels, bias }
    }

    pub(crate) fn describe(
        path: &Path,
        f: &mut Describe<'_>,
        cols: usize,
        depth: usize,
        bias: bool,
        heads: HeadAxis,
    ) {
        if cols != 0 {
            let lines = Self::lines(cols, depth, bias, heads) as usize;
            f(path, Tensor::Linear { cols, depth, bias, heads }, lines);
        }
    }

    /// `out[rows × cols] = act(x[rows × depth] · Wᵀ + bias)`; `out` tells the rows.
    pub fn forward(
        &self,
        workers: Workers<'_>,
        x: &[f32],
        activation: Activation,
        out: &mut [f32],
    ) -> Result<(), Error> {
        workers.matmul(x, self.depth, self.panels, self.bias, activation, out, self.cols)
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
