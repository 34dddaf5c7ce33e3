//! Sequences in progress, in an arena.

mod source;
mod target;

use crate::arena::{Buffers, OutputBuffers, Workspace};
use crate::kernels::activation::Activation;
use crate::kernels::embedding::{argmax, nearest_int8};
use crate::kernels::half::nearest_half;
use crate::nn::embedding::Vectors;
use crate::nn::{Caches, Linear, Sequence};
use crate::{Cpu, Error, Line, Model, Plan, Threads, Workers};

/// A batch of sequences in progress.
///
/// Once it exists, only its input can be wrong (an unknown token, too many or too
/// long sequences), and such a call changes nothing.
#[derive(Debug)]
pub struct Session<'w, 'a> {
    workers: Workers<'a>,
    model: Model<'w>,
    buffers: Buffers<'a>,
    /// Sequences that run.
    batch: usize,
}

impl<'w, 'a> Session<'w, 'a> {
    pub(crate) fn new(model: Model<'w>, arena: &'a mut [Line], cpu: Cpu) -> Result<Self, Error> {
        let need = model.plan().arena();
        let buffers = Buffers::carve(model.plan(), arena).ok_or(Error::Arena { need })?;
        buffers.sources.fill(Sequence::default());
        let batch = if model.plan().config().has_encoder() { 0 } else { model.plan().capacity().batch };
        let mut session = Session { workers: cpu.into(), model, buffers, batch };
        session.clear_targets();
        Ok(session)
    }

    /// The same session on several threads, as many as its plan has room for
    /// ([`Plan::with_threads`]). Results keep their bits.
    pub fn on(self, threads: &'a dyn Threads) -> Self {
        let most = self.model.plan().threads();
        Session { workers: Workers::new(self.workers.cpu, threads, most), ..self }
    }

    /// Every target back to its start, where its last row is zeros.
    fn clear_targets(&mut self) {
        self.buffers.targets.fill(Sequence::default());
        self.buffers.last.fill(0.0);
    }

    /// The model.
    pub fn model(&self) -> &Model<'w> {
        &self.model
    }

    /// Sequences that run.
    pub fn batch(&self) -> usize {
        self.batch
    }

    /// Starts a batch of `batch` targets anew; for models without encoder
    /// ([`Session::encode`] does it for the others, and there this starts the
    /// targets of the same sources again).
    ///
    /// Errors: [`Error::Batch`].
    pub fn restart(&mut self, batch: usize) -> Result<(), Error> {
        let c = self.model.plan().config();
        let most = if c.has_encoder() { self.batch } else { self.model.plan().capacity().batch };
        if batch > most || (c.has_encoder() && batch != most) {
            return Err(Error::Batch { need: most });
        }
        self.batch = batch;
        self.clear_targets();
        Ok(())
    }

    /// The token whose embedding has the largest dot product with `x[d_model]`:
    /// decoding back by nearest embedding, over the target's table (the source's in
    /// an encoder).
    ///
    /// Errors: [`Error::Shape`] unless `x` has `d_model` floats.
    pub fn nearest(&mut self, x: &[f32]) -> Result<u32, Error> {
        let plan = self.model.plan();
        let (c, transformer) = (plan.config(), self.model.transformer());
        let d_model = c.d_model as usize;
        if x.len() != d_model {
            return Err(Error::Shape { need: d_model });
        }
        let tokens = match c.has_decoder() {
            true => transformer.target_embedding().tokens,
            false => transformer.source_tokens,
        };
        match tokens.vectors {
            Vectors::F32(lines) => return Ok(self.workers.cpu.nearest(lines, tokens.rows, d_model, x)?.0),
            Vectors::Int8(table) => return Ok(nearest_int8(&table, tokens.rows, x).0),
            Vectors::Half(table) => return Ok(nearest_half(table, tokens.rows, x).0),
            Vectors::Tied(_) => {}
        }
        let OutputBuffers { logits, quantized } = Workspace::new(plan, self.buffers.scratch)?.output()?;
        let logits = logits.get_mut(..tokens.rows).ok_or(Error::Shape { need: tokens.rows })?;
        let projection = Linear { cols: tokens.rows, depth: d_model, weights: tokens.panels(), bias: &[] };
        projection.forward(self.workers, x, Activation::Identity, quantized, logits)?;
        Ok(argmax(logits))
    }
}

fn check_tokens(tokens: &[u32], vocab: u32) -> Result<(), Error> {
    match tokens.iter().find(|token| **token >= vocab) {
        Some(&token) => Err(Error::Token { token, vocab }),
        None => Ok(()),
    }
}

/// The arena's keys and values as a decoder's caches.
fn caches<'k>(plan: &Plan, capacity: usize, keys: &'k mut [Line], values: &'k mut [Line]) -> Caches<'k> {
    Caches { heads: plan.heads(), capacity, batch: plan.capacity().batch, keys, values }
}

fn rows<'x>(x: &'x [f32], s: &Sequence, d_model: usize) -> &'x [f32] {
    x.get(s.range(d_model)).unwrap_or(&[])
}

fn rows_mut<'x>(x: &'x mut [f32], s: &Sequence, d_model: usize) -> &'x mut [f32] {
    x.get_mut(s.range(d_model)).unwrap_or_default()
}
