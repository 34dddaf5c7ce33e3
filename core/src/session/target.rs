//! The targets of a session: decoding step by step, and greedy generation.

use super::{Session, caches, check_tokens, rows, rows_mut};
use crate::arena::{OutputBuffers, Workspace};
use crate::config::Output;
use crate::kernels::embedding::argmax;
use crate::nn::{Run, Sequence, Watch};
use crate::{Error, Line};

/// The scores after each target's last row, the tokens to go on with, and the targets.
type Scored<'s> = (&'s [f32], &'s mut [u32], &'s [Sequence]);

impl Session<'_, '_> {
    /// Appends tokens to each target (none to some, if their slice is empty) and
    /// gives the scores of what comes next: `[batch × target_vocab]`; the row of a
    /// target without new tokens is that of its last ones.
    ///
    /// Token by token, in pieces or at once: the result has the same bits.
    ///
    /// Errors: [`Error::Missing`] without decoder or output, [`Error::Batch`],
    /// [`Error::Full`], [`Error::Token`]; they change nothing.
    pub fn decode(&mut self, tokens: &[&[u32]]) -> Result<&[f32], Error> {
        self.decode_watched(tokens, &mut ())
    }

    /// [`Session::decode`], with every step shown to `watch`.
    pub fn decode_watched(&mut self, tokens: &[&[u32]], watch: &mut dyn Watch) -> Result<&[f32], Error> {
        self.decode_targets(tokens.len(), |i| tokens.get(i).copied().unwrap_or(&[]), watch)
    }

    /// [`Session::decode_watched`] of the tokens that a function gives.
    pub(crate) fn decode_targets<'t>(
        &mut self,
        batch: usize,
        tokens: impl Fn(usize) -> &'t [u32],
        watch: &mut dyn Watch,
    ) -> Result<&[f32], Error> {
        self.check_targets(batch, &tokens)?;
        self.decode_tokens(tokens, watch, |_, _, _| {})?;
        self.logits()
    }

    /// [`Session::decode`], with the scores after every new token:
    /// `each(sequence, position, logits)`.
    pub fn decode_each(
        &mut self,
        tokens: &[&[u32]],
        mut each: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), Error> {
        let (batch, tokens) = (tokens.len(), |i: usize| tokens.get(i).copied().unwrap_or(&[]));
        self.check_targets(batch, tokens)?;
        let transformer = self.model.transformer();
        let (mut failed, plan, workers) = (Ok(()), *self.model.plan(), self.workers);
        let (d_model, vocab) = (plan.config().d_model as usize, plan.config().target_vocab as usize);
        let show = |targets: &[Sequence], x: &[f32], scratch: &mut [Line]| {
            let mut step = || {
                let run = Run { workers, plan: &plan, layer: 0, watch: &mut () };
                let OutputBuffers { logits: all, quantized } = Workspace::new(&plan, scratch)?.output()?;
                let positions = |(i, t): (usize, &Sequence)| {
                    let at = t.at as usize;
                    (at..at + t.rows as usize).map(move |position| (i, position))
                };
                let mut positions = targets.iter().enumerate().flat_map(positions);
                let together = all.len().checked_div(vocab).unwrap_or(0) * d_model;
                for x in x.chunks(together.max(1)) {
                    let rows = x.len().checked_div(d_model).unwrap_or(0);
                    let logits = all.get_mut(..rows * vocab).unwrap_or_default();
                    transformer.logits(&run, x, quantized, logits)?;
                    for (logits, (i, position)) in logits.chunks_exact(vocab.max(1)).zip(&mut positions) {
                        each(i, position, logits);
                    }
                }
                Ok(())
            };
            if let Err(error) = step() {
                failed = Err(error);
            }
        };
        self.decode_tokens(tokens, &mut (), show)?;
        failed
    }

    /// Continues every target greedily, from `begin` (or from what has been decoded),
    /// until each has given the `end` token, `limit` tokens, or is full; calls
    /// `each(sequence, token)` for every token but `end`. Returns whether all ended
    /// with `end`.
    ///
    /// Errors: [`Error::Missing`] without decoder or output.
    pub fn generate(&mut self, limit: usize, mut each: impl FnMut(usize, u32)) -> Result<bool, Error> {
        let c = self.model.plan().config();
        if c.output == Output::None || !c.has_decoder() {
            return Err(Error::Missing("output projection"));
        }
        // Not the whole configuration, nor the model's views, on the stack all the while.
        let (begin, end, vocab) = (c.begin, c.end, c.target_vocab as usize);
        let capacity = self.model.plan().capacity().target;
        // A target without a next token has ended, but for the first round: there all go.
        let mut fresh = false;
        self.buffers.next_token.fill(u32::MAX);
        for (next, target) in self.buffers.next_token.iter_mut().zip(&*self.buffers.targets).take(self.batch)
        {
            if target.at == 0 {
                (*next, fresh) = (begin, true);
            }
        }
        if fresh {
            self.decode_next()?;
        }
        let mut ended = true;
        for round in 0..=limit {
            // Read the scores of all targets, then choose for those still going.
            let (logits, next_token, targets) = self.logits_and_targets()?;
            let mut going = false;
            for (i, (next, logits)) in
                next_token.iter_mut().zip(logits.chunks_exact(vocab.max(1))).enumerate()
            {
                if *next == u32::MAX && round > 0 {
                    continue;
                }
                let best = argmax(logits);
                let full = targets.get(i).is_none_or(|t| t.at as usize >= capacity);
                *next = u32::MAX;
                if best == end {
                    continue;
                }
                if full || round == limit {
                    ended = false;
                    continue;
                }
                each(i, best);
                (*next, going) = (best, true);
            }
            if !going {
                break;
            }
            self.decode_next()?;
        }
        Ok(ended)
    }

    fn check_targets<'t>(&self, batch: usize, tokens: impl Fn(usize) -> &'t [u32]) -> Result<(), Error> {
        let plan = self.model.plan();
        let (c, capacity) = (plan.config(), plan.capacity().target);
        if c.output == Output::None || !c.has_decoder() {
            return Err(Error::Missing("output projection"));
        }
        if batch != self.batch {
            return Err(Error::Batch { need: self.batch });
        }
        for (i, target) in self.buffers.targets.iter().enumerate().take(batch) {
            let tokens = tokens(i);
            check_tokens(tokens, c.target_vocab)?;
            if tokens.len() > capacity - (target.at as usize).min(capacity) {
                return Err(Error::Full { capacity });
            }
        }
        Ok(())
    }

    /// Decodes each going target's next token.
    fn decode_next(&mut self) -> Result<(), Error> {
        // The tokens move out of the arena, which the decoder needs whole.
        let next_token = core::mem::take(&mut self.buffers.next_token);
        let token = |i: usize| match next_token.get(i) {
            Some(next) if *next != u32::MAX => core::slice::from_ref(next),
            _ => &[],
        };
        let done = self.decode_tokens(token, &mut (), |_, _, _| {});
        self.buffers.next_token = next_token;
        done
    }

    /// Runs the decoder over checked tokens, a chunk of each target at a time, and
    /// keeps each target's last row; `each` sees the targets and all rows of a chunk.
    fn decode_tokens<'t>(
        &mut self,
        tokens: impl Fn(usize) -> &'t [u32],
        watch: &mut dyn Watch,
        mut each: impl FnMut(&[Sequence], &[f32], &mut [Line]),
    ) -> Result<(), Error> {
        let plan = self.model.plan();
        let (c, capacity, batch) = (plan.config(), plan.capacity(), self.batch);
        let d_model = c.d_model as usize;
        let transformer = self.model.transformer();
        let longest = (0..batch).map(|i| tokens(i).len()).max().unwrap_or(0);
        let mut run = Run { workers: self.workers, plan, layer: 0, watch };
        for start in (0..longest).step_by(capacity.chunk.max(1)) {
            let piece = |i: usize| {
                let all = tokens(i);
                let end = all.len().min(start + capacity.chunk);
                all.get(start..end).unwrap_or(&[])
            };
            let targets = self.buffers.targets.get_mut(..batch).unwrap_or_default();
            let mut row = 0;
            for (i, t) in targets.iter_mut().enumerate() {
                let rows = piece(i).len() as u32;
                *t = Sequence { row, rows, at: t.at, keep: t.at + rows };
                row += rows;
            }
            let targets = &*targets;
            let x = self.buffers.stream.get_mut(..row as usize * d_model).unwrap_or_default();
            for (i, t) in targets.iter().enumerate() {
                let x = rows_mut(x, t, d_model);
                transformer.target_embedding().forward(&run, piece(i), t.at as usize, x)?;
            }
            run.watch.step("decoder.embedding", 0, d_model, x);
            let mut workspace = Workspace::new(plan, self.buffers.scratch)?;
            let sources = self.buffers.sources.get(..batch).unwrap_or(&[]);
            let (keys, values) = (&mut *self.buffers.own_keys, &mut *self.buffers.own_values);
            let mut own = caches(plan, capacity.target, keys, values);
            let (keys, values) = (&mut *self.buffers.cross_keys, &mut *self.buffers.cross_values);
            let mut cross = caches(plan, capacity.source, keys, values);
            let decoder = transformer.decoder;
            decoder.forward(&mut run, targets, sources, x, &mut own, &mut cross, &mut workspace)?;
            for (i, t) in targets.iter().enumerate() {
                let rows = rows(x, t, d_model);
                if let (Some(last), Some(row)) = (
                    rows.chunks_exact(d_model.max(1)).next_back(),
                    self.buffers.last.chunks_exact_mut(d_model.max(1)).nth(i),
                ) {
                    row.copy_from_slice(last);
                }
            }
            each(targets, x, self.buffers.scratch);
            for t in self.buffers.targets.iter_mut().take(batch) {
                (t.at, t.rows) = (t.at + t.rows, 0);
            }
        }
        Ok(())
    }

    fn logits(&mut self) -> Result<&[f32], Error> {
        Ok(self.logits_and_targets()?.0)
    }

    fn logits_and_targets(&mut self) -> Result<Scored<'_>, Error> {
        let plan = self.model.plan();
        let c = plan.config();
        let run = Run { workers: self.workers, plan, layer: 0, watch: &mut () };
        let x = self.buffers.last.get(..self.batch * c.d_model as usize).unwrap_or(&[]);
        let OutputBuffers { logits, quantized } = Workspace::new(plan, self.buffers.scratch)?.output()?;
        let logits = logits.get_mut(..self.batch * c.target_vocab as usize).unwrap_or_default();
        self.model.transformer().logits(&run, x, quantized, logits)?;
        Ok((logits, self.buffers.next_token, self.buffers.targets))
    }
}
