//! A checked configuration: everything about it is arithmetic, so it is `const`.
//!
//! `Config` (numbers) → [`Plan`] (they divide and do not overflow) → [`crate::Model`]
//! (the weights have the length) → [`crate::Session`] (the arena is big enough).

use crate::arena::{AttentionBuffers, Buffers, FeedForwardBuffers, OutputBuffers};
use crate::config::{Element, NormKind, Output, Positions, Stack};
use crate::kernels::activation::Activation;
use crate::kernels::attention::Heads;
use crate::kernels::int8::DEEPEST;
use crate::nn::Transformer;
use crate::nn::linear::{Panels, attention_width, heads};
use crate::{Config, Error, Line};

/// Rows that the feed-forward layer and the projections work on at a time.
const BLOCK: usize = 128;

/// What a session must have room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Sequences that run together.
    pub batch: usize,
    /// Tokens of the longest source.
    pub source: usize,
    /// Tokens of the longest target.
    pub target: usize,
    /// Target tokens of a sequence that are worked on at once; a longer prompt is
    /// taken in pieces of this length, to the same result.
    pub chunk: usize,
}

/// A checked configuration with a checked capacity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    config: Config,
    capacity: Capacity,
    threads: usize,
    weights: usize,
    arena: usize,
}

/// One buffer of the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// What it holds.
    pub name: &'static str,
    /// `session` buffers live as long as the session; those of the other groups
    /// (`attention`, `feed_forward`, `output`) take turns in one span.
    pub group: &'static str,
    /// Its first line.
    pub offset: usize,
    /// Its lines.
    pub lines: usize,
}

impl Plan {
    /// Checks a configuration, for one sequence of up to the configuration's contexts.
    ///
    /// Errors: [`Error::Config`] names what is wrong.
    ///
    /// ```
    /// use picoformer_core::{Config, Plan};
    /// const PLAN: Plan = match Plan::new(Config::PAPER) { Ok(plan) => plan, Err(_) => panic!() };
    /// assert_eq!(PLAN.config().d_model, 512);
    /// ```
    pub const fn new(config: Config) -> Result<Plan, Error> {
        let c = &config;
        let largest = 1 << 24;
        macro_rules! check {
            ($($ok:expr, $why:literal;)*) => { $(if !($ok) { return Err(Error::Config($why)); })* };
        }
        check! {
            c.d_model >= 1 && c.d_model <= largest, "d_model must be 1 to 2^24";
            c.heads >= 1 && c.heads <= c.d_model, "heads must be 1 to d_model";
            c.d_model.is_multiple_of(c.heads), "heads must divide d_model";
            c.d_ff >= 1 && c.d_ff <= largest, "d_ff must be 1 to 2^24";
            !c.has_encoder() || c.encoder_layers >= 1, "an encoder needs encoder_layers";
            !c.has_decoder() || c.decoder_layers >= 1, "a decoder needs decoder_layers";
            c.encoder_layers <= largest && c.decoder_layers <= largest, "layers must be at most 2^24";
            !c.has_encoder() || (c.source_vocab >= 1 && c.source_vocab <= largest), "source_vocab must be 1 to 2^24";
            !c.has_decoder() || (c.target_vocab >= 1 && c.target_vocab <= largest), "target_vocab must be 1 to 2^24";
            !c.has_encoder() || (c.source_context >= 1 && c.source_context <= largest), "source_context must be 1 to 2^24";
            !c.has_decoder() || (c.target_context >= 1 && c.target_context <= largest), "target_context must be 1 to 2^24";
            c.position_offset <= largest, "position_offset must be at most 2^24";
            c.position_offset == 0 || matches!(c.positions, Positions::Learned), "position_offset goes with learned positions";
            c.norm_eps >= 0.0 && c.norm_eps <= 1.0, "norm_eps must be 0 to 1";
            !matches!(c.activation, Activation::Tanh | Activation::Sigmoid | Activation::Exp), "activation must be relu, gelu_erf, gelu_tanh, silu or none";
            !c.shared_embedding || matches!(c.stack, Stack::EncoderDecoder), "a shared embedding needs encoder and decoder";
            !c.shared_embedding || c.source_vocab == c.target_vocab, "a shared embedding needs equal vocabularies";
            c.has_decoder() || matches!(c.output, Output::None), "an output projection needs a decoder: an encoder has Output::None";
            !c.has_decoder() || (c.begin < c.target_vocab && c.end < c.target_vocab), "begin and end must be tokens of the target";
            matches!(c.norm, NormKind::Layer | NormKind::Rms), "norm";
            deep_enough(c.elements.attention, larger(c.d_model as u64, attention_width(c) as u64)), "eight-bit attention needs a d_model of at most 2^15";
            deep_enough(c.elements.feed_forward, larger(c.d_model as u64, c.d_ff as u64)), "eight-bit feed-forward layers need a d_model and d_ff of at most 2^15";
            deep_enough(c.elements.output, c.d_model as u64) && deep_enough(c.elements.tokens, c.d_model as u64), "eight-bit tokens and output need a d_model of at most 2^15";
        }
        let weights = Transformer::lines(c);
        check! { weights <= LARGEST, "the weights are larger than the address space"; }
        let plan = Plan {
            config,
            capacity: Capacity { batch: 1, source: 0, target: 0, chunk: 0 },
            threads: 1,
            weights: weights as usize,
            arena: 0,
        };
        plan.with_capacity(Capacity { batch: 1, source: usize::MAX, target: usize::MAX, chunk: 1 })
    }

    /// The same model for sessions of another capacity. Lengths beyond the contexts
    /// are cut to them, and `chunk` to the target.
    ///
    /// Errors: [`Error::Config`] where a number is zero or the arena would be larger
    /// than the address space.
    pub const fn with_capacity(mut self, capacity: Capacity) -> Result<Plan, Error> {
        const fn cut(length: usize, context: u32, present: bool) -> usize {
            match present {
                true if length > context as usize => context as usize,
                true => length,
                false => 0,
            }
        }
        let c = &self.config;
        let source = cut(capacity.source, c.source_context, c.has_encoder());
        let target = cut(capacity.target, c.target_context, c.has_decoder());
        let chunk = if capacity.chunk > target { target } else { capacity.chunk };
        if capacity.batch == 0 {
            return Err(Error::Config("the capacity's batch must be at least 1"));
        }
        if c.has_encoder() && source == 0 {
            return Err(Error::Config("the capacity's source must be at least 1 token"));
        }
        if c.has_decoder() && (target == 0 || chunk == 0) {
            return Err(Error::Config("the capacity's target and chunk must be at least 1 token"));
        }
        self.capacity = Capacity { batch: capacity.batch, source, target, chunk };
        let longest = (if source > target { source } else { target }) as u64;
        if longest.saturating_mul(capacity.batch as u64) > u32::MAX as u64 {
            return Err(Error::Config("a batch must be less than 2^32 positions"));
        }
        let arena = Buffers::size(&self);
        if arena > LARGEST {
            return Err(Error::Config("the arena is larger than the address space"));
        }
        self.arena = arena as usize;
        Ok(self)
    }

    /// The same model for sessions on up to so many threads: attention has scratch for each.
    ///
    /// Errors: [`Error::Config`] as [`Plan::with_capacity`].
    pub const fn with_threads(mut self, threads: usize) -> Result<Plan, Error> {
        self.threads = if threads == 0 { 1 } else { threads };
        self.with_capacity(self.capacity)
    }

    /// Threads that a session has room for.
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// The configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// What a session has room for.
    pub const fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// Lines of arena that a session needs: exactly; one less is refused.
    pub const fn arena(&self) -> usize {
        self.arena
    }

    /// Lines of weights.
    pub const fn weights(&self) -> usize {
        self.weights
    }

    /// The heads of every attention.
    pub const fn heads(&self) -> Heads {
        heads(&self.config)
    }

    /// Rows that are worked on at a time.
    pub const fn block(&self) -> usize {
        BLOCK
    }

    /// The arena, buffer by buffer.
    pub fn map(&self) -> heapless::Vec<Region, 24> {
        let mut map = heapless::Vec::new();
        let mut add = |group, name, offset, lines| {
            // The table below is shorter than the vector.
            let _ = map.push(Region { name, group, offset, lines });
        };
        let mut scratch = 0;
        Buffers::regions(self, 0, &mut |name, offset, lines| match name {
            "scratch" => scratch = offset,
            _ => add("session", name, offset, lines),
        });
        AttentionBuffers::regions(self, scratch, &mut |name, at, lines| add("attention", name, at, lines));
        FeedForwardBuffers::regions(self, scratch, &mut |name, at, lines| {
            add("feed_forward", name, at, lines)
        });
        OutputBuffers::regions(self, scratch, &mut |name, at, lines| add("output", name, at, lines));
        map
    }

    /// Multiply-adds of the weights' products for one source token and for one target token.
    pub fn multiply_adds(&self) -> (u64, u64) {
        let c = &self.config;
        let (d, ff, width) = (c.d_model as u64, c.d_ff as u64, attention_width(c) as u64);
        let (attention, feed_forward) = (4 * d * width, 2 * d * ff);
        let cross = if matches!(c.stack, Stack::EncoderDecoder) { 2 * d * width } else { 0 };
        let output = if matches!(c.output, Output::None) { 0 } else { d * c.target_vocab as u64 };
        let source = match c.has_encoder() {
            true => c.encoder_layers as u64 * (attention + feed_forward) + c.decoder_layers as u64 * cross,
            false => 0,
        };
        let target = match c.has_decoder() {
            true => c.decoder_layers as u64 * (attention + cross + feed_forward) + output,
            false => 0,
        };
        (source, target)
    }

    pub(crate) const fn d_model(&self) -> u64 {
        self.config.d_model as u64
    }
    pub(crate) const fn source_rows(&self) -> u64 {
        (self.capacity.batch as u64).saturating_mul(self.capacity.source as u64)
    }
    pub(crate) const fn target_rows(&self) -> u64 {
        (self.capacity.batch as u64).saturating_mul(self.capacity.chunk as u64)
    }
    /// Rows of the largest pass.
    pub(crate) const fn rows(&self) -> u64 {
        let (source, target) = (self.source_rows(), self.target_rows());
        if source > target { source } else { target }
    }
    pub(crate) const fn block_rows(&self) -> u64 {
        if self.rows() < BLOCK as u64 { self.rows() } else { BLOCK as u64 }
    }
    /// Features of all heads, padded.
    pub(crate) const fn width(&self) -> u64 {
        attention_width(&self.config) as u64
    }
    /// Slots of a decoder's cache: a sequence and a layer each.
    pub(crate) const fn slots(&self, present: bool) -> u64 {
        match present && self.config.has_decoder() {
            true => (self.capacity.batch as u64).saturating_mul(self.config.decoder_layers as u64),
            false => 0,
        }
    }
    pub(crate) const fn key_lines(&self, positions: usize) -> u64 {
        let heads = self.heads();
        (heads.heads as u64 * heads.head_size as u64).saturating_mul(positions.div_ceil(16) as u64)
    }
    pub(crate) const fn value_lines(&self, positions: usize) -> u64 {
        (self.width() / 16).saturating_mul(positions as u64)
    }
    pub(crate) const fn crosses(&self) -> bool {
        matches!(self.config.stack, Stack::EncoderDecoder)
    }
    pub(crate) const fn scratch(&self) -> u64 {
        let layers = larger(AttentionBuffers::size(self), FeedForwardBuffers::size(self));
        larger(layers, OutputBuffers::size(self))
    }
    /// Lines of a block's rows in eight bits (or of widened weights), for the projections of attention.
    pub(crate) const fn quantized_attention(&self) -> u64 {
        let element = self.config.elements.attention;
        let deepest = larger(self.d_model(), self.width()) as usize;
        Panels::quantized(self.block_rows(), deepest, element, self.threads)
    }
    /// The same for the feed-forward layer.
    pub(crate) const fn quantized_feed_forward(&self) -> u64 {
        let element = self.config.elements.feed_forward;
        let deepest = larger(self.d_model(), self.config.d_ff as u64) as usize;
        Panels::quantized(self.block_rows(), deepest, element, self.threads)
    }
    /// The same for the rows whose scores are there at once.
    pub(crate) const fn quantized_output(&self) -> u64 {
        let element = match self.config.output {
            Output::None => return 0,
            Output::Tied => self.config.elements.tokens,
            Output::Separate => self.config.elements.output,
        };
        Panels::quantized(self.logits_rows(), self.config.d_model as usize, element, self.threads)
    }
    /// Rows whose scores are there at once: a batch's, or some of a chunk's, for which the
    /// output projection is read together.
    const fn logits_rows(&self) -> u64 {
        const TOGETHER: u64 = 32;
        let (batch, rows) = (self.capacity.batch as u64, self.target_rows());
        let some = if rows < TOGETHER { rows } else { TOGETHER };
        if batch > some { batch } else { some }
    }
    pub(crate) const fn logits(&self) -> u64 {
        match self.config.output {
            Output::None => 0,
            _ => self.logits_rows().saturating_mul(self.config.target_vocab as u64),
        }
    }
}

const fn larger(a: u64, b: u64) -> u64 {
    if a > b { a } else { b }
}

/// Whether a product of this depth is possible.
const fn deep_enough(element: Element, depth: u64) -> bool {
    matches!(element, Element::F32) || depth <= DEEPEST as u64
}

/// Lines that fit in the address space.
const LARGEST: u64 = isize::MAX as u64 / size_of::<Line>() as u64;
