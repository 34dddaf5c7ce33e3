//! Sequences in progress, in an arena.

use crate::config::Pooling;
use crate::kernels::embedding::argmax;
use crate::nn::{KeyValues, Run, Sequence, Watch};
use crate::plan::{Buffers, Workspace};
use crate::{Cpu, Error, Line, Model, Plan};

/// A batch of sequences in progress.
///
/// Once it exists, only its input can be wrong (an unknown token, too many or too
/// long sequences), and such a call changes nothing.
#[derive(Debug)]
pub struct Session<'w, 'a> {
    cpu: Cpu,
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
        buffers.targets.fill(Sequence::default());
        let batch = if model.plan().config().has_encoder() { 0 } else { model.plan().capacity().batch };
        Ok(Session { cpu, model, buffers, batch })
    }

    /// The model.
    pub fn model(&self) -> &Model<'w> {
        &self.model
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
        self.buffers.targets.fill(Sequence::default());
        Ok(())
    }

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

    fn encode_sources<'t>(
        &mut self,
        batch: usize,
        source: impl Fn(usize) -> (&'t [u32], usize),
        watch: &mut dyn Watch,
    ) -> Result<(), Error> {
        let plan = self.model.plan();
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
        self.buffers.targets.fill(Sequence::default());

        let transformer = self.model.transformer();
        let mut run = Run { cpu: self.cpu, plan, layer: 0, watch };
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
            for (i, layer) in transformer.decoder.layers(c).enumerate() {
                let (keys, values) = (&mut *self.buffers.cross_keys, &mut *self.buffers.cross_values);
                let mut theirs = layer_cache(plan, i, capacity.source, keys, values);
                layer.cross_attention.remember(&run, sources, x, &mut theirs, workspace.attention()?)?;
            }
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
        for token in self.encoded(sequence)?.chunks_exact(d_model).take(tokens) {
            self.cpu.add(out, token)?;
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
        self.check_targets(tokens)?;
        self.decode_tokens(|i| tokens.get(i).copied().unwrap_or(&[]), watch, |_, _, _| {})?;
        self.logits()
    }

    /// [`Session::decode`], with the scores after every new token:
    /// `each(sequence, position, logits)`.
    pub fn decode_each(
        &mut self,
        tokens: &[&[u32]],
        mut each: impl FnMut(usize, usize, &[f32]),
    ) -> Result<(), Error> {
        self.check_targets(tokens)?;
        let transformer = self.model.transformer();
        let (mut failed, plan, cpu) = (Ok(()), *self.model.plan(), self.cpu);
        let d_model = plan.config().d_model as usize;
        let show = |s: (usize, Sequence), x: &[f32], scratch: &mut [Line]| {
            let mut step = || {
                let run = Run { cpu, plan: &plan, layer: 0, watch: &mut () };
                let logits = Workspace::new(&plan, scratch)?.output()?.logits;
                let logits = logits.get_mut(..plan.config().target_vocab as usize).unwrap_or_default();
                for (i, x) in x.chunks_exact(d_model).enumerate() {
                    transformer.logits(&run, x, logits)?;
                    each(s.0, s.1.at as usize + i, logits);
                }
                Ok(())
            };
            if let Err(error) = step() {
                failed = Err(error);
            }
        };
        self.decode_tokens(|i| tokens.get(i).copied().unwrap_or(&[]), &mut (), show)?;
        failed
    }

    /// Continues every target greedily, from `begin` (or from what has been decoded),
    /// until each has given the `end` token, `limit` tokens, or is full; calls
    /// `each(sequence, token)` for every token but `end`. Returns whether all ended
    /// with `end`.
    ///
    /// Errors: [`Error::Missing`] without decoder or output.
    pub fn generate(&mut self, limit: usize, mut each: impl FnMut(usize, u32)) -> Result<bool, Error> {
        let c = *self.model.plan().config();
        let capacity = self.model.plan().capacity().target;
        if self.model.transformer().output_projection(&c).is_none() {
            return Err(Error::Missing("output projection"));
        }
        let fresh = |t: &Sequence| t.at == 0;
        let (begun, batch) = (!self.buffers.targets.iter().take(self.batch).any(fresh), self.batch);
        let mut ended = true;
        // A target that has ended holds no token: `u32::MAX` in `next_token`.
        let next_token = &mut *self.buffers.next_token;
        next_token.fill(u32::MAX);
        for (next, target) in next_token.iter_mut().zip(&*self.buffers.targets).take(batch) {
            if fresh(target) {
                *next = c.begin;
            }
        }
        if !begun {
            self.decode_next()?;
        }
        for round in 0..=limit {
            // Read the scores of all targets, then choose for those still going.
            let vocab = c.target_vocab as usize;
            let (logits, next_token, targets) = self.logits_and_targets()?;
            let mut going = false;
            for (i, (next, logits)) in next_token.iter_mut().zip(logits.chunks_exact(vocab)).enumerate() {
                if *next == u32::MAX && (round > 0 || !begun) {
                    continue;
                }
                let best = argmax(logits);
                let full = targets.get(i).is_none_or(|t| t.at as usize >= capacity);
                *next = u32::MAX;
                if best == c.end {
                    continue;
                }
                if round == limit {
                    ended = false;
                    continue;
                }
                each(i, best);
                if full {
                    ended = false;
                    continue;
                }
                (*next, going) = (best, true);
            }
            if !going {
                break;
            }
            self.decode_next()?;
        }
        Ok(ended)
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
        if !tokens.tied {
            return Ok(self.cpu.nearest(tokens.lines, tokens.rows, d_model, x)?.0);
        }
        let logits = Workspace::new(plan, self.buffers.scratch)?.output()?.logits;
        let logits = logits.get_mut(..tokens.rows).ok_or(Error::Shape { need: tokens.rows })?;
        let identity = crate::kernels::activation::Activation::Identity;
        self.cpu.matmul(x, d_model, tokens.lines, &[], identity, logits, tokens.rows)?;
        Ok(argmax(logits))
    }

    fn source(&self, sequence: usize) -> Result<Sequence, Error> {
        let sources = self.buffers.sources.get(..self.batch).unwrap_or(&[]);
        sources.get(sequence).copied().ok_or(Error::Batch { need: self.batch })
    }

    fn check_targets(&self, tokens: &[&[u32]]) -> Result<(), Error> {
        let plan = self.model.plan();
        let (c, capacity) = (plan.config(), plan.capacity().target);
        if self.model.transformer().output_projection(c).is_none() {
            return Err(Error::Missing("output projection"));
        }
        if tokens.len() != self.batch {
            return Err(Error::Batch { need: self.batch });
        }
        for (tokens, target) in tokens.iter().zip(&*self.buffers.targets) {
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
    /// keeps each target's last row; `each` sees every target's rows of a chunk.
    fn decode_tokens<'t>(
        &mut self,
        tokens: impl Fn(usize) -> &'t [u32],
        watch: &mut dyn Watch,
        mut each: impl FnMut((usize, Sequence), &[f32], &mut [Line]),
    ) -> Result<(), Error> {
        let plan = self.model.plan();
        let (c, capacity, batch) = (plan.config(), plan.capacity(), self.batch);
        let d_model = c.d_model as usize;
        let transformer = self.model.transformer();
        let longest = (0..batch).map(|i| tokens(i).len()).max().unwrap_or(0);
        let mut run = Run { cpu: self.cpu, plan, layer: 0, watch };
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
            for (i, layer) in transformer.decoder.layers(c).enumerate() {
                let own = (&mut *self.buffers.own_keys, &mut *self.buffers.own_values);
                let mut own = layer_cache(plan, i, capacity.target, own.0, own.1);
                let theirs = (&mut *self.buffers.cross_keys, &mut *self.buffers.cross_values);
                let mut theirs = layer_cache(plan, i, capacity.source, theirs.0, theirs.1);
                run.layer = i;
                layer.forward(&mut run, targets, sources, x, &mut own, &mut theirs, &mut workspace)?;
            }
            transformer.decoder.norm.forward(self.cpu, x, None)?;
            for (i, t) in targets.iter().enumerate() {
                let rows = rows(x, t, d_model);
                if let (Some(last), Some(row)) = (
                    rows.chunks_exact(d_model).next_back(),
                    self.buffers.last.chunks_exact_mut(d_model).nth(i),
                ) {
                    row.copy_from_slice(last);
                }
                each((i, *t), rows, self.buffers.scratch);
            }
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
        let run = Run { cpu: self.cpu, plan, layer: 0, watch: &mut () };
        let x = self.buffers.last.get(..self.batch * c.d_model as usize).unwrap_or(&[]);
        let logits = Workspace::new(plan, self.buffers.scratch)?.output()?.logits;
        let logits = logits.get_mut(..self.batch * c.target_vocab as usize).unwrap_or_default();
        self.model.transformer().logits(&run, x, logits)?;
        Ok((logits, self.buffers.next_token, self.buffers.targets))
    }
}

/// The scores after each target's last row, the tokens to go on with, and the targets.
type Scored<'s> = (&'s [f32], &'s mut [u32], &'s [Sequence]);

fn check_tokens(tokens: &[u32], vocab: u32) -> Result<(), Error> {
    match tokens.iter().find(|token| **token >= vocab) {
        Some(&token) => Err(Error::Token { token, vocab }),
        None => Ok(()),
    }
}

/// One layer's part of the caches.
fn layer_cache<'k>(
    plan: &Plan,
    layer: usize,
    capacity: usize,
    keys: &'k mut [Line],
    values: &'k mut [Line],
) -> KeyValues<'k> {
    let (heads, batch) = (plan.heads(), plan.capacity().batch);
    let (key, value) = (batch * heads.key_lines(capacity), batch * heads.value_lines(capacity));
    KeyValues {
        heads,
        capacity,
        keys: keys.get_mut(layer * key..(layer + 1) * key).unwrap_or_default(),
        values: values.get_mut(layer * value..(layer + 1) * value).unwrap_or_default(),
    }
}

fn rows<'x>(x: &'x [f32], s: &Sequence, d_model: usize) -> &'x [f32] {
    x.get(s.row as usize * d_model..(s.row + s.rows) as usize * d_model).unwrap_or(&[])
}

fn rows_mut<'x>(x: &'x mut [f32], s: &Sequence, d_model: usize) -> &'x mut [f32] {
    x.get_mut(s.row as usize * d_model..(s.row + s.rows) as usize * d_model).unwrap_or_default()
}
