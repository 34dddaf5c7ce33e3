//! The sources of a session: encoding, and what comes of it.

use super::{Session, caches, check_tokens, rows, rows_mut};
use crate::Error;
use crate::arena::Workspace;
use crate::config::Pooling;
use crate::nn::{Run, Sequence, Watch};

impl Session<'_, '_> {
    /// Encodes one source a sequence; sources may differ in length.
    ///
    /// A source's result has the same bits alone and in any batch.
    ///
    /// Errors: [`Error::Missing`] without encoder, [`Error::Batch`], [`Error::Full`],
    /// [`Error::Token`]; they change nothing.
    pub fn encode(&mut self, sources: &[&[u32]]) -> Result<(), Error> {
        self.encode_watched(sources, &mut ())
    }

    /// [`Session::encode`], with every step shown to `watch`.
    pub fn encode_watched(&mut self, sources: &[&[u32]], watch: &mut dyn Watch) -> Result<(), Error> {
        let source = |i: usize| sources.get(i).map_or((&[][..], 0), |s| (*s, s.len()));
        self.encode_sources(sources.len(), source, watch)
    }

    /// Encodes a padded batch: `tokens[lengths.len() × width]`, of whose rows the
    /// first `lengths[i]` tokens are the source and the others padding that nobody
    /// attends to. The padding's own rows are computed, but change no other's bits.
    ///
    /// Errors: as [`Session::encode`], and [`Error::Shape`] where `tokens` is too
    /// short or a length exceeds the width.
    pub fn encode_padded(&mut self, tokens: &[u32], width: usize, lengths: &[usize]) -> Result<(), Error> {
        let need = width.saturating_mul(lengths.len());
        if tokens.len() < need || lengths.iter().any(|&length| length > width) {
            return Err(Error::Shape { need });
        }
        let source = |i: usize| {
            let row = tokens.get(i * width..(i + 1) * width).unwrap_or(&[]);
            (row, lengths.get(i).copied().unwrap_or(0))
        };
        self.encode_sources(lengths.len(), source, &mut ())
    }

    /// Encodes `source(i)`, a sequence's tokens and how many of them are kept, for each of a batch.
    pub(crate) fn encode_sources<'t>(
        &mut self,
        batch: usize,
        source: impl Fn(usize) -> (&'t [u32], usize),
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        let model = self.model;
        let plan = model.plan();
        let (c, capacity) = (plan.config(), plan.capacity());
        if !c.has_encoder() {
            return Err(Error::Missing("encoder"));
        }
        if batch > capacity.batch {
            return Err(Error::Batch { need: capacity.batch });
        }
        for i in 0..batch {
            check_tokens(source(i).0, c.source_vocab)?;
            if source(i).0.len() > capacity.source {
                return Err(Error::Full { capacity: capacity.source });
            }
        }
        let mut row = 0;
        for (i, s) in self.buffers.sources.iter_mut().enumerate() {
            let (tokens, keep) = if i < batch { source(i) } else { (&[][..], 0) };
            let rows = tokens.len() as u32;
            *s = Sequence { row, rows, at: 0, keep: keep as u32 };
            row += rows;
        }
        self.batch = batch;
        self.clear_targets();

        let transformer = self.model.transformer();
        let mut run = Run { workers: self.workers, plan, layer: 0, watch };
        let mut workspace = Workspace::new(plan, self.buffers.scratch)?;
        let sources = self.buffers.sources.get(..batch).unwrap_or(&[]);
        let d_model = c.d_model as usize;
        let x = self.buffers.memory.get_mut(..row as usize * d_model).unwrap_or_default();
        for (i, s) in sources.iter().enumerate() {
            transformer.source_embedding().forward(&run, source(i).0, 0, rows_mut(x, s, d_model))?;
        }
        run.watch.step("encoder.embedding", 0, d_model, x);
        transformer.encoder.forward(&mut run, sources, x, &mut workspace)?;
        if c.has_decoder() {
            let (keys, values) = (&mut *self.buffers.cross_keys, &mut *self.buffers.cross_values);
            let mut cross = caches(plan, capacity.source, keys, values);
            transformer.decoder.fill_cross_caches(&run, sources, x, &mut cross, &mut workspace)?;
        }
        Ok(())
    }

    /// The encoder's vectors of a sequence: `[tokens × d_model]`, padding included.
    ///
    /// Errors: [`Error::Batch`] if no such sequence was encoded.
    pub fn encoded(&self, sequence: usize) -> Result<&[f32], Error> {
        let s = self.source(sequence)?;
        let d_model = self.model.plan().config().d_model as usize;
        Ok(rows(self.buffers.memory, &s, d_model))
    }

    /// One vector of an encoded text: its tokens' vectors pooled as the model says
    /// (the mean if it says nothing), scaled to length 1 if the model says so.
    ///
    /// Errors: [`Error::Batch`] without such a sequence; [`Error::Shape`] unless
    /// `out` has `d_model` floats.
    pub fn embedding(&self, sequence: usize, out: &mut [f32]) -> Result<(), Error> {
        let c = self.model.plan().config();
        let d_model = c.d_model as usize;
        let keep = self.source(sequence)?.keep as usize;
        if out.len() != d_model {
            return Err(Error::Shape { need: d_model });
        }
        let tokens = match c.pooling {
            Pooling::First => keep.min(1),
            Pooling::None | Pooling::Mean => keep,
        };
        out.fill(0.0);
        for token in self.encoded(sequence)?.chunks_exact(d_model.max(1)).take(tokens) {
            self.workers.cpu.add(out, token)?;
        }
        let mut scale = if tokens == 0 { 0.0 } else { 1.0 / tokens as f32 };
        if c.unit_length {
            let squares = out.iter().map(|&x| x as f64 * x as f64).sum::<f64>();
            let length = libm::sqrt(squares) as f32;
            scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        }
        out.iter_mut().for_each(|x| *x *= scale);
        Ok(())
    }

    fn source(&self, sequence: usize) -> Result<Sequence, Error> {
        let sources = self.buffers.sources.get(..self.batch).unwrap_or(&[]);
        sources.get(sequence).copied().ok_or(Error::Batch { need: self.batch })
    }
}
