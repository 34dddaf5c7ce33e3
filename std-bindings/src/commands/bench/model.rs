//! Passes of a model: encoder, encoder and decoder, greedy generation.

use anyhow::{Context, Result, ensure};
use picoformer::core::kernels::embedding::argmax;
use picoformer::core::{Capacity, Cpu, Session, Threads};
use picoformer::measure::{median, seconds};
use picoformer::{ModelFile, Pool};
use serde_json::{Value, json};
use std::io::{Write, stdout};
use std::time::Instant;

/// What passes run on.
pub(super) struct On<'p> {
    pub(super) cpu: Cpu,
    pub(super) pool: &'p Pool,
}

/// One pass over a batch of sequences of equal length.
#[derive(Clone, Copy)]
pub(super) struct Pass {
    batch: usize,
    source: usize,
    after: After,
}

/// What follows the encoder.
#[derive(Clone, Copy, PartialEq)]
enum After {
    Nothing,
    /// So many target tokens at once, with the scores after each.
    Forward(usize),
    /// So many tokens, one after another, each the best after those before.
    Generate(usize),
}

/// Interleaved: a slow moment of the machine falls on all passes alike.
pub(super) const ROUNDS: usize = 2;

/// Samples of a pass.
pub(super) struct Times {
    median: f64,
    minimum: f64,
    rounds: usize,
    /// The first numbers of the last sequence's last row: scores, or the encoder's vector.
    output: Vec<f32>,
    /// What was generated, a sequence after another.
    tokens: Vec<u32>,
}

impl Pass {
    /// The one pass that is asked for, if one is.
    pub(super) fn asked(
        batch: usize,
        source: Option<usize>,
        target: Option<usize>,
        generate: Option<usize>,
    ) -> Option<Pass> {
        let after = match (target, generate) {
            (Some(target), _) => After::Forward(target),
            (None, Some(tokens)) => After::Generate(tokens),
            (None, None) => After::Nothing,
        };
        let asked = source.is_some() || after != After::Nothing || batch != 1;
        asked.then_some(Pass { batch, source: source.unwrap_or(16), after })
    }

    /// Those that show a model, within its contexts.
    pub(super) fn usual(file: &ModelFile) -> Result<Vec<Pass>> {
        let image = file.image()?;
        let config = *image.model().plan().config();
        let (source, target) = (config.source_context as usize, config.target_context as usize);
        let pass = |batch, tokens, after| Pass { batch, source: tokens, after };
        let mut passes = Vec::new();
        if config.has_encoder() {
            passes = [(1, 8), (1, 32), (32, 32)]
                .map(|(batch, tokens)| pass(batch, tokens.min(source), After::Nothing))
                .into();
        }
        if config.has_decoder() {
            let (source, target) = (source.min(10), target.min(20));
            passes.push(pass(1, source, After::Forward(target)));
            passes.push(pass(1, source, After::Generate(target)));
            passes.push(pass(32, source, After::Generate(target)));
        }
        Ok(passes)
    }

    fn name(self) -> String {
        let (batch, source) = (self.batch, self.source);
        match self.after {
            After::Nothing => format!("encode {batch} × {source}"),
            After::Forward(target) => format!("forward {batch} × ({source}, {target})"),
            After::Generate(tokens) => format!("encode {batch} × {source}, generate {tokens}"),
        }
    }

    /// The tokens that a pass is about: generated, scored, or encoded.
    fn tokens(self) -> usize {
        self.batch
            * match self.after {
                After::Nothing => self.source,
                After::Forward(tokens) | After::Generate(tokens) => tokens,
            }
    }

    /// Runs `f` with what one run of this pass is: it gives the last row and what was generated.
    fn ready<T>(
        self,
        file: &ModelFile,
        on: &On<'_>,
        f: impl FnOnce(&mut Ready<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let image = file.image()?;
        let c = *image.model().plan().config();
        let (target, chunk) = match self.after {
            After::Nothing => (1, 1),
            After::Forward(tokens) => (tokens, tokens),
            After::Generate(tokens) => (tokens, 1),
        };
        for (asked, context, what) in [
            (self.source, c.source_context, "--source"),
            (target, c.target_context, "--target or --generate"),
        ] {
            ensure!(
                context == 0 || asked <= context as usize,
                "{what} {asked}: the model has {context} positions"
            );
        }
        ensure!(
            self.after == After::Nothing || c.has_decoder(),
            "this model has no decoder: leave out --target and --generate"
        );
        ensure!(
            self.after != After::Nothing || c.has_encoder(),
            "this model has no encoder: --target or --generate"
        );
        let capacity = Capacity { batch: self.batch, source: self.source, target, chunk };
        let model = image.model().with_threads(on.pool.count())?.with_capacity(capacity)?;
        let mut arena = picoformer::arena(model.plan().arena());
        let sequences = |vocab: u32, length: usize| -> Vec<Vec<u32>> {
            (0..self.batch).map(|i| (0..length).map(|j| token(i, j, vocab)).collect()).collect()
        };
        let session = model.session(&mut arena, on.cpu)?.on(on.pool);
        f(&mut Ready {
            pass: self,
            session,
            sources: sequences(c.source_vocab, self.source),
            targets: sequences(c.target_vocab, target),
            output: Vec::new(),
            tokens: Vec::new(),
        })
    }
}

/// Token `at` of a sequence: any tokens cost the same, and others can make the same ones.
fn token(sequence: usize, at: usize, vocab: u32) -> u32 {
    let (sequence, at) = (sequence as u64, at as u64);
    let low = u64::from(vocab.min(5) - 1);
    (low + (sequence * 131 + at * 7919) % (u64::from(vocab) - low)) as u32
}

/// A pass with everything that it needs.
struct Ready<'w, 'a> {
    pass: Pass,
    session: Session<'w, 'a>,
    sources: Vec<Vec<u32>>,
    targets: Vec<Vec<u32>>,
    output: Vec<f32>,
    tokens: Vec<u32>,
}

impl Ready<'_, '_> {
    fn run(&mut self) -> Result<()> {
        let batch = self.pass.batch;
        let c = *self.session.model().plan().config();
        if c.has_encoder() {
            let sources: Vec<&[u32]> = self.sources.iter().map(Vec::as_slice).collect();
            self.session.encode(&sources)?;
        } else {
            self.session.restart(batch)?;
        }
        let output = &mut self.output;
        let mut keep = |row: &[f32]| {
            output.clear();
            output.extend_from_slice(&row[..row.len().min(64)]);
        };
        match self.pass.after {
            After::Nothing => {
                let rows = self.session.encoded(batch - 1)?;
                keep(&rows[rows.len() - c.d_model as usize..]);
            }
            After::Forward(length) => {
                let targets: Vec<&[u32]> = self.targets.iter().map(Vec::as_slice).collect();
                self.session.decode_each(&targets, |sequence, at, logits| {
                    if (sequence, at) == (batch - 1, length - 1) {
                        keep(logits);
                    }
                })?;
            }
            After::Generate(tokens) => {
                // As `Session::generate`, which ends at the end token.
                self.tokens.clear();
                let mut next = vec![c.begin; batch];
                for _ in 0..tokens {
                    let targets: Vec<&[u32]> = next.chunks(1).collect();
                    let logits = self.session.decode(&targets)?;
                    next = logits.chunks_exact(c.target_vocab as usize).map(argmax).collect();
                    self.tokens.extend_from_slice(&next);
                }
            }
        }
        Ok(())
    }
}

/// Times of all passes, in interleaved rounds of so many samples each.
pub(super) fn measure(file: &ModelFile, on: &On<'_>, passes: &[Pass], rounds: usize) -> Result<Vec<Times>> {
    const SAMPLES: usize = 5;
    let mut samples = vec![Vec::new(); passes.len()];
    let mut results = vec![Default::default(); passes.len()];
    for _ in 0..rounds {
        for ((pass, samples), result) in passes.iter().zip(&mut samples).zip(&mut results) {
            pass.ready(file, on, |ready| {
                // The first run warms the caches and may fail; the second says how many fill 5 ms.
                ready.run()?;
                let mut run = || ready.run().expect("it ran before");
                let times = ((5e-3 / seconds(1, &mut run)) as u64).max(1);
                // A slow pass has fewer samples: nobody waits long.
                let started = Instant::now();
                for _ in (0..SAMPLES).take_while(|_| started.elapsed().as_secs_f64() < 0.7) {
                    samples.push(seconds(times, &mut run));
                }
                *result = (ready.output.clone(), ready.tokens.clone());
                Ok(())
            })?;
        }
    }
    let times = |(samples, (output, tokens)): (Vec<f64>, (Vec<f32>, Vec<u32>))| Times {
        minimum: samples.iter().copied().fold(f64::INFINITY, f64::min),
        rounds: samples.len(),
        median: median(samples),
        output,
        tokens,
    };
    Ok(samples.into_iter().zip(results).map(times).collect())
}

impl Times {
    pub(super) fn json(&self, on: &On<'_>, pass: Pass) -> Value {
        json!({
            "pass": pass.name(), "cpu": on.cpu.name(), "threads": on.pool.count(), "seconds": self.median,
            "minimum": self.minimum, "rounds": self.rounds,
            "tokens_per_second": pass.tokens() as f64 / self.median,
            "output": self.output, "tokens": self.tokens,
        })
    }
}

/// One pass, as a line.
pub(super) fn one(file: &ModelFile, on: &On<'_>, pass: Pass, json: bool) -> Result<()> {
    if !json {
        return table(file, on, &[pass]);
    }
    let times = measure(file, on, &[pass], 1)?;
    let times = times.first().context("one pass has one time")?;
    writeln!(stdout(), "{}", times.json(on, pass))?;
    Ok(())
}

/// Passes as a table; the bars are tokens a second.
pub(super) fn table(file: &ModelFile, on: &On<'_>, passes: &[Pass]) -> Result<()> {
    let all = measure(file, on, passes, ROUNDS)?;
    let speeds: Vec<f64> = passes.iter().zip(&all).map(|(p, t)| p.tokens() as f64 / t.median).collect();
    let fastest = speeds.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut out = stdout().lock();
    writeln!(out, "{}, {}:", file.image()?.name(), on.cpu.name())?;
    for ((pass, times), speed) in passes.iter().zip(&all).zip(speeds) {
        let (name, bar) = (pass.name(), super::bar(speed, fastest, 20));
        let ms = times.median * 1e3;
        writeln!(out, "  {name:32} {ms:9.3} ms  {bar} {speed:9.0} tokens/s")?;
    }
    let threads = on.pool.count();
    writeln!(out, "medians of samples in {ROUNDS} interleaved rounds, threads: {threads}")?;
    Ok(())
}
