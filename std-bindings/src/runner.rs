//! Texts in, answers out: a model, its arena, and the way between text and tokens.

use crate::{Lines, ModelFile, Pool};
use anyhow::{Context, Result, bail};
use picoformer_core::nn::Watch;
use picoformer_core::tokenize::{Tokenizer, Unit, words};
use picoformer_core::{Capacity, Cpu, Error, Image, Model, Session, Threads};
use std::path::Path;

/// What a model made of a text.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answer {
    /// The text.
    pub text: String,
    /// Characters that the model does not know; they became its unknown token, or
    /// were left out where it has none.
    pub unknown: Vec<char>,
    /// Whether the answer was cut off at the model's longest target.
    pub cut: bool,
    /// Tokens generated.
    pub tokens: usize,
}

/// A model with an arena of its own.
#[derive(Debug)]
pub struct Runner {
    file: ModelFile,
    arena: Lines,
    cpu: Cpu,
    pool: Pool,
    batch: usize,
}

impl Runner {
    /// A runner of the embedded default model.
    pub fn open_default() -> Result<Self> {
        Self::new(ModelFile::embedded())
    }

    /// A runner of an image file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::new(ModelFile::open(path)?)
    }

    /// A runner of any image, on the fastest kernels of this CPU.
    pub fn new(file: ModelFile) -> Result<Self> {
        file.image()?;
        Ok(Runner { file, arena: Lines::zeroed(0), cpu: Cpu::detect(), pool: Pool::new(1)?, batch: 32 })
    }

    /// The same on other kernels.
    pub fn with_cpu(mut self, cpu: Cpu) -> Self {
        self.cpu = cpu;
        self
    }

    /// The same on so many threads; answers keep their bits.
    pub fn with_threads(mut self, threads: usize) -> Result<Self> {
        self.pool = Pool::new(threads)?;
        Ok(self)
    }

    /// The model's image.
    pub fn image(&self) -> Result<Image<'_>> {
        self.file.image()
    }

    /// Runs `f` with a session for `batch` sequences of up to `source` tokens.
    pub fn session<T>(
        &mut self,
        batch: usize,
        source: usize,
        f: impl FnOnce(&Image<'_>, &mut Session<'_, '_>) -> Result<T>,
    ) -> Result<T> {
        let image = self.file.image()?;
        let capacity = Capacity { batch, source: source.max(1), target: usize::MAX, chunk: 1 };
        let model: Model<'_> = image.model().with_threads(self.pool.count())?.with_capacity(capacity)?;
        let need = model.plan().arena();
        if self.arena.len() < need {
            self.arena = Lines::zeroed(need);
        }
        let mut session = model.session(&mut self.arena, self.cpu)?.on(&self.pool);
        f(&image, &mut session)
    }

    /// What an encoder–decoder makes of a text; word by word where its unit is a word.
    pub fn transform(&mut self, text: &str) -> Result<Answer> {
        let image = self.file.image()?;
        let tokenizer = image.source_tokenizer().context("this model has no tokenizer for its source")?;
        let units: Vec<String> = match tokenizer.unit() {
            Unit::Word => words(text).map(str::to_owned).collect(),
            Unit::Text => vec![text.to_owned()],
        };
        let join = if tokenizer.unit() == Unit::Word { "  " } else { " " };
        let units: Vec<&str> = units.iter().map(String::as_str).collect();
        let mut whole = Answer::default();
        // Punctuation only separates words; figures are something that the model cannot read.
        if tokenizer.unit() == Unit::Word {
            text.chars().filter(|c| c.is_numeric()).for_each(|c| whole.unknown.push(c));
            whole.unknown.sort_unstable();
            whole.unknown.dedup();
        }
        for (i, answer) in self.transform_units(&units)?.into_iter().enumerate() {
            if i > 0 {
                whole.text.push_str(join);
            }
            whole.text.push_str(&answer.text);
            for unknown in answer.unknown {
                if !whole.unknown.contains(&unknown) {
                    whole.unknown.push(unknown);
                }
            }
            whole.cut |= answer.cut;
            whole.tokens += answer.tokens;
        }
        Ok(whole)
    }

    /// What an encoder–decoder makes of each unit (a word, or a text), in batches.
    pub fn transform_units(&mut self, units: &[&str]) -> Result<Vec<Answer>> {
        let mut answers = Vec::with_capacity(units.len());
        for units in units.chunks(self.batch) {
            let (sources, mut batch) = {
                let image = self.file.image()?;
                let tokenizer =
                    image.source_tokenizer().context("this model has no tokenizer for its source")?;
                let context = image.model().plan().config().source_context as usize;
                encode_all(&tokenizer, units, context)?
            };
            let longest = sources.iter().map(Vec::len).max().unwrap_or(0);
            let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            self.session(sources.len(), longest, |image, session| {
                let target =
                    image.target_tokenizer().context("this model has no tokenizer for its target")?;
                session.encode(&sources)?;
                let mut tokens = vec![Vec::new(); sources.len()];
                let ended = session.generate(usize::MAX, |sequence, token| tokens[sequence].push(token))?;
                // The begin token and a cut answer fill the context.
                let full = image.model().plan().config().target_context as usize - 1;
                for (answer, tokens) in batch.iter_mut().zip(&tokens) {
                    (answer.text, answer.tokens) = (decode(&target, tokens)?, tokens.len());
                    answer.cut = !ended && tokens.len() >= full;
                }
                Ok(())
            })?;
            answers.append(&mut batch);
        }
        Ok(answers)
    }

    /// The vector of each text, from the encoder; texts of different lengths share a batch.
    pub fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(self.batch) {
            let sources = {
                let image = self.file.image()?;
                let tokenizer = image.source_tokenizer().context("this model has no tokenizer")?;
                encode_all(&tokenizer, texts, image.model().plan().config().source_context as usize)?.0
            };
            let longest = sources.iter().map(Vec::len).max().unwrap_or(0);
            let sources: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            self.session(sources.len(), longest, |image, session| {
                session.encode(&sources)?;
                for i in 0..sources.len() {
                    let mut vector = vec![0.0; image.model().plan().config().d_model as usize];
                    session.embedding(i, &mut vector)?;
                    vectors.push(vector);
                }
                Ok(())
            })?;
        }
        Ok(vectors)
    }

    /// Encodes and decodes one unit with every step shown to `watch`; gives the
    /// source's tokens and the answer's.
    pub fn watched(&mut self, unit: &str, watch: &mut dyn Watch) -> Result<(Vec<u32>, Vec<u32>)> {
        let source = {
            let image = self.file.image()?;
            let tokenizer = image.source_tokenizer().context("this model has no tokenizer for its source")?;
            let context = image.model().plan().config().source_context as usize;
            encode_all(&tokenizer, &[unit], context)?.0.remove(0)
        };
        let mut target = Vec::new();
        self.session(1, source.len(), |image, session| {
            let config = *image.model().plan().config();
            if config.has_decoder() {
                session.encode(&[&source])?;
                session.generate(usize::MAX, |_, token| target.push(token))?;
            }
            session.encode_watched(&[&source], watch)?;
            if config.has_decoder() {
                let mut next = config.begin;
                for token in target.iter().copied().chain([config.end]) {
                    session.decode_watched(&[&[next]], watch)?;
                    next = token;
                }
            }
            Ok(())
        })?;
        Ok((source, target))
    }
}

/// The tokens of every text, and answers that know which characters were unknown.
fn encode_all(
    tokenizer: &Tokenizer<'_>,
    texts: &[&str],
    context: usize,
) -> Result<(Vec<Vec<u32>>, Vec<Answer>)> {
    let mut sources = Vec::with_capacity(texts.len());
    let mut answers = Vec::with_capacity(texts.len());
    for text in texts {
        let mut tokens = vec![0; context];
        let encoded = match tokenizer.encode(text, &mut tokens) {
            Err(Error::Buffer { need }) => {
                let start: String = text.chars().take(30).collect();
                bail!(
                    "the text {start:?}… is {need} tokens long, the model reads at most {context}: shorten or divide it"
                );
            }
            encoded => encoded?,
        };
        tokens.truncate(encoded.len);
        let unknown = encoded.first_unknown.into_iter().collect();
        sources.push(tokens);
        answers.push(Answer { unknown, ..Answer::default() });
    }
    Ok((sources, answers))
}

/// The text of tokens.
fn decode(tokenizer: &Tokenizer<'_>, tokens: &[u32]) -> Result<String> {
    // Asked for the size first: nothing has no room.
    let need = match tokenizer.decode(tokens, &mut []) {
        Err(Error::Buffer { need }) => need,
        empty => return Ok(empty?.to_owned()),
    };
    let mut bytes = vec![0; need];
    Ok(tokenizer.decode(tokens, &mut bytes)?.to_owned())
}
