//! Layer normalisation and RMS normalisation, and the residual connection around a sublayer.

use crate::config::{NormKind, NormPlace};
use crate::parts::{Cut, Describe, Path, Tensor};
use crate::{Config, Error, Line, Workers};

/// A normalisation with its scale and shift; without lines it is the identity.
#[derive(Clone, Copy, Debug)]
pub struct Norm<'w> {
    /// Features of a row.
    pub d_model: usize,
    /// Which formula.
    pub kind: NormKind,
    /// Added to the variance.
    pub eps: f32,
    /// `ceil(d_model / 16)` lines.
    pub gamma: &'w [Line],
    /// As many, or none for RMS norm.
    pub beta: &'w [Line],
}

impl<'w> Norm<'w> {
    pub(crate) const fn lines(c: &Config, present: bool) -> u64 {
        let each = (c.d_model as u64).div_ceil(16);
        match (present, c.norm) {
            (false, _) => 0,
            (true, NormKind::Layer) => 2 * each,
            (true, NormKind::Rms) => each,
        }
    }

    pub(crate) fn cut(blob: &mut Cut<'w>, c: &Config, present: bool) -> Self {
        let each = (c.d_model as u64).div_ceil(16);
        let gamma = blob.take(if present { each } else { 0 });
        let beta = blob.take(if present && c.norm == NormKind::Layer { each } else { 0 });
        Norm { d_model: c.d_model as usize, kind: c.norm, eps: c.norm_eps, gamma, beta }
    }

    pub(crate) fn describe(path: &Path, f: &mut Describe<'_>, c: &Config, present: bool) {
        if present {
            let tensor = Tensor::Norm { d_model: c.d_model as usize, beta: c.norm == NormKind::Layer };
            f(path, tensor, Self::lines(c, present) as usize);
        }
    }

    /// `x = norm(x + residual)` for each row of `x`, in place.
    pub fn forward(
        &self,
        workers: Workers<'_>,
        x: &mut [f32],
        residual: Option<&[f32]>,
    ) -> Result<(), Error> {
        match (self.gamma.is_empty(), self.kind) {
            (true, _) => residual.map_or(Ok(()), |y| workers.cpu.add(x, y)),
            (false, NormKind::Layer) => {
                workers.layer_norm(x, self.d_model, residual, self.gamma, self.beta, self.eps)
            }
            (false, NormKind::Rms) => workers.rms_norm(x, self.d_model, residual, self.gamma, self.eps),
        }
    }

    /// What the sublayer reads: `x` itself after the paper (post-norm), or its
    /// normalisation, made in `normed` (pre-norm).
    pub(crate) fn before<'x>(
        &self,
        workers: Workers<'_>,
        place: NormPlace,
        x: &'x [f32],
        normed: &'x mut [f32],
    ) -> Result<&'x [f32], Error> {
        match place {
            NormPlace::Post => Ok(x),
            NormPlace::Pre => {
                let normed = normed.get_mut(..x.len()).ok_or(Error::Shape { need: x.len() })?;
                normed.copy_from_slice(x);
                self.forward(workers, normed, None)?;
                Ok(normed)
            }
        }
    }

    /// The residual connection: `x = norm(x + sublayer)` (post-norm) or
    /// `x = x + sublayer` (pre-norm).
    pub(crate) fn after(
        &self,
        workers: Workers<'_>,
        place: NormPlace,
        x: &mut [f32],
        sublayer: &[f32],
    ) -> Result<(), Error> {
        match place {
            NormPlace::Post => self.forward(workers, x, Some(sublayer)),
            NormPlace::Pre => workers.cpu.add(x, sublayer),
        }
    }
}
