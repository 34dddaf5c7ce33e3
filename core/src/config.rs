//! What a model is, as numbers: one description for every family.

use crate::kernels::activation::Activation;
use crate::kernels::half::Format;

/// Enums whose numbers are pinned: an image stores them.
macro_rules! choices {
    ($($(#[$doc:meta])* $name:ident { $($(#[$choice_doc:meta])* $choice:ident = $number:literal,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        pub enum $name { $($(#[$choice_doc])* $choice = $number,)* }
        impl $name {
            const fn from_u32(number: u32) -> Option<Self> {
                match number { $($number => Some($name::$choice),)* _ => None }
            }
        }
    )* };
}

choices! {
    /// Which of the paper's two stacks the model has.
    Stack {
        /// An encoder: text to vectors (BERT).
        Encoder = 0,
        /// A decoder without cross-attention: text continued (GPT-2).
        Decoder = 1,
        /// Both, joined by cross-attention: text to text (the paper).
        EncoderDecoder = 2,
    }
    /// The normalisation of each sublayer.
    NormKind {
        /// `(x - mean) / sqrt(variance + eps) * gamma + beta` (Ba et al. 2016).
        Layer = 0,
        /// `x / sqrt(mean(x^2) + eps) * gamma` (Zhang and Sennrich 2019).
        Rms = 1,
    }
    /// Where the normalisation stands.
    NormPlace {
        /// `x = norm(x + sublayer(x))`, as in the paper, section 3.1.
        Post = 0,
        /// `x = x + sublayer(norm(x))` (Xiong et al. 2020).
        Pre = 1,
    }
    /// What tells the positions apart.
    Positions {
        /// Nothing.
        None = 0,
        /// Sines in the even features, cosines in the odd ones (the paper, section 3.5).
        SinusoidalInterleaved = 1,
        /// Sines in the first half, cosines in the second.
        SinusoidalHalves = 2,
        /// A learned vector a position.
        Learned = 3,
    }
    /// What turns the decoder's vectors into scores of tokens.
    Output {
        /// Nothing: the model ends with its vectors.
        None = 0,
        /// The target's embedding table, transposed (the paper, section 3.4).
        Tied = 1,
        /// A linear layer of its own.
        Separate = 2,
    }
    /// How weights are stored.
    Element {
        /// As 32-bit floats.
        F32 = 0,
        /// In eight bits, with a scale for each output row; products are of whole numbers.
        Int8 = 1,
        /// In eight bits, with a scale for each output row and 64 steps of its depth: closer, and
        /// a sixteenth larger.
        Int8By64 = 2,
        /// In sixteen bits, IEEE 754's binary16; products are of floats.
        F16 = 3,
        /// In sixteen bits, the upper half of a float; products are of floats.
        Bf16 = 4,
    }
    /// What makes one vector of a text from its tokens' vectors.
    Pooling {
        /// Nothing: the vectors stay one a token.
        None = 0,
        /// The mean over the tokens.
        Mean = 1,
        /// The first token's vector.
        First = 2,
    }
}

/// How the weights of each kind of tensor are stored. Biases, norms and learned positions
/// are always 32-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elements {
    /// The tables of tokens (and the output projection that is tied to one).
    pub tokens: Element,
    /// The projections of attention.
    pub attention: Element,
    /// The feed-forward layers.
    pub feed_forward: Element,
    /// The output projection of its own.
    pub output: Element,
}

impl Elements {
    /// Floats everywhere.
    pub const F32: Self = Elements::all(Element::F32);

    /// The same for all.
    pub const fn all(element: Element) -> Self {
        Elements { tokens: element, attention: element, feed_forward: element, output: element }
    }

    const fn to_word(self) -> u32 {
        self.tokens as u32
            | (self.attention as u32) << 4
            | (self.feed_forward as u32) << 8
            | (self.output as u32) << 12
    }

    const fn from_word(word: u32) -> Option<Self> {
        let [tokens, attention, feed_forward, output] =
            [word & 15, word >> 4 & 15, word >> 8 & 15, word >> 12];
        let (tokens, attention) = (Element::from_u32(tokens), Element::from_u32(attention));
        match (tokens, attention, Element::from_u32(feed_forward), Element::from_u32(output)) {
            (Some(tokens), Some(attention), Some(feed_forward), Some(output)) => {
                Some(Elements { tokens, attention, feed_forward, output })
            }
            _ => None,
        }
    }
}

impl Element {
    /// The format of sixteen bits, if it is one.
    pub const fn half(self) -> Option<Format> {
        match self {
            Element::F16 => Some(Format::F16),
            Element::Bf16 => Some(Format::Bf16),
            Element::F32 | Element::Int8 | Element::Int8By64 => None,
        }
    }

    /// Of eight bits, the steps of the depth that share a scale: 0 is all of them.
    pub const fn group(self) -> Option<usize> {
        match self {
            Element::F32 | Element::F16 | Element::Bf16 => None,
            Element::Int8 => Some(0),
            Element::Int8By64 => Some(64),
        }
    }
}

/// The numbers of a model, unchecked; [`crate::plan::Plan::new`] checks them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Encoder, decoder, or both.
    pub stack: Stack,
    /// Width of the residual stream, in features.
    pub d_model: u32,
    /// Attention heads; they divide `d_model`.
    pub heads: u32,
    /// Width of the feed-forward layer's middle, in features.
    pub d_ff: u32,
    /// Layers of the encoder.
    pub encoder_layers: u32,
    /// Layers of the decoder.
    pub decoder_layers: u32,
    /// Tokens that the encoder knows.
    pub source_vocab: u32,
    /// Tokens that the decoder knows.
    pub target_vocab: u32,
    /// The longest source, in tokens.
    pub source_context: u32,
    /// The longest target, in tokens.
    pub target_context: u32,
    /// Whether source and target share one embedding table.
    pub shared_embedding: bool,
    /// Whether embeddings are multiplied by `sqrt(d_model)` (the paper, section 3.4).
    pub scaled_embedding: bool,
    /// How positions are told apart.
    pub positions: Positions,
    /// Rows of a learned position table that come before position 0.
    pub position_offset: u32,
    /// Kind of normalisation.
    pub norm: NormKind,
    /// Where the normalisation stands.
    pub norm_place: NormPlace,
    /// The `eps` of the normalisation.
    pub norm_eps: f32,
    /// Whether each stack ends with a normalisation.
    pub final_norm: bool,
    /// Whether the embedding is normalised.
    pub embedding_norm: bool,
    /// Activation of the feed-forward layers.
    pub activation: Activation,
    /// Whether the attention's projections have biases.
    pub attention_bias: bool,
    /// Whether the feed-forward layers have biases.
    pub feed_forward_bias: bool,
    /// What scores the next token.
    pub output: Output,
    /// Whether the output projection has a bias.
    pub output_bias: bool,
    /// How a text becomes one vector.
    pub pooling: Pooling,
    /// Whether that vector is scaled to length 1.
    pub unit_length: bool,
    /// The token that generation starts with.
    pub begin: u32,
    /// The token that ends a generated text.
    pub end: u32,
    /// How the weights are stored.
    pub elements: Elements,
}

/// Words of a configuration in an image.
pub(crate) const CONFIG_WORDS: usize = 29;

impl Config {
    /// The paper's model: post-norm, ReLU, interleaved sinusoidal positions,
    /// embeddings times `sqrt(d_model)`, biases everywhere; but tables and output
    /// projection each of its own, as most trained models have them, where the paper
    /// shares one matrix (`shared_embedding: true, output: Output::Tied`). Sizes are those of its base model; change what differs:
    ///
    /// ```
    /// use picoformer_core::Config;
    /// let small = Config { d_model: 128, heads: 4, d_ff: 512, ..Config::PAPER };
    /// ```
    pub const PAPER: Config = Config {
        stack: Stack::EncoderDecoder,
        d_model: 512,
        heads: 8,
        d_ff: 2048,
        encoder_layers: 6,
        decoder_layers: 6,
        source_vocab: 37000,
        target_vocab: 37000,
        source_context: 512,
        target_context: 512,
        shared_embedding: false,
        scaled_embedding: true,
        positions: Positions::SinusoidalInterleaved,
        position_offset: 0,
        norm: NormKind::Layer,
        norm_place: NormPlace::Post,
        norm_eps: 1e-5,
        final_norm: false,
        embedding_norm: false,
        activation: Activation::Relu,
        attention_bias: true,
        feed_forward_bias: true,
        output: Output::Separate,
        output_bias: true,
        pooling: Pooling::None,
        unit_length: false,
        begin: 1,
        end: 2,
        elements: Elements::F32,
    };

    /// Whether there is an encoder.
    pub const fn has_encoder(&self) -> bool {
        !matches!(self.stack, Stack::Decoder)
    }

    /// Whether there is a decoder.
    pub const fn has_decoder(&self) -> bool {
        !matches!(self.stack, Stack::Encoder)
    }

    /// The configuration as an image stores it: one word a field, in the order of the fields.
    pub fn to_words(&self) -> [u32; CONFIG_WORDS] {
        let c = *self;
        [
            c.stack as u32,
            c.d_model,
            c.heads,
            c.d_ff,
            c.encoder_layers,
            c.decoder_layers,
            c.source_vocab,
            c.target_vocab,
            c.source_context,
            c.target_context,
            c.shared_embedding as u32,
            c.scaled_embedding as u32,
            c.positions as u32,
            c.position_offset,
            c.norm as u32,
            c.norm_place as u32,
            c.norm_eps.to_bits(),
            c.final_norm as u32,
            c.embedding_norm as u32,
            c.activation as u32,
            c.attention_bias as u32,
            c.feed_forward_bias as u32,
            c.output as u32,
            c.output_bias as u32,
            c.pooling as u32,
            c.unit_length as u32,
            c.begin,
            c.end,
            c.elements.to_word(),
        ]
    }

    /// The configuration that an image's words are; `None` where a word has no meaning.
    pub const fn from_words(words: &[u32; CONFIG_WORDS]) -> Option<Config> {
        const fn flag(word: u32) -> Option<bool> {
            match word {
                0 => Some(false),
                1 => Some(true),
                _ => None,
            }
        }
        const fn activation(word: u32) -> Option<Activation> {
            use Activation::*;
            Some(match word {
                n if n == Identity as u32 => Identity,
                n if n == Relu as u32 => Relu,
                n if n == GeluErf as u32 => GeluErf,
                n if n == GeluTanh as u32 => GeluTanh,
                n if n == Silu as u32 => Silu,
                _ => return None,
            })
        }
        // `?`, which a `const fn` does not have yet.
        macro_rules! known {
            ($choice:expr) => {
                match $choice {
                    Some(choice) => choice,
                    None => return None,
                }
            };
        }
        let [stack, d_model, heads, d_ff, encoder_layers, decoder_layers, words @ ..] = *words;
        let [source_vocab, target_vocab, source_context, target_context, words @ ..] = words;
        let [shared_embedding, scaled_embedding, positions, position_offset, words @ ..] = words;
        let [norm, norm_place, norm_eps, final_norm, embedding_norm, words @ ..] = words;
        let [function, attention_bias, feed_forward_bias, output, output_bias, words @ ..] = words;
        let [pooling, unit_length, begin, end, elements] = words;
        Some(Config {
            stack: known!(Stack::from_u32(stack)),
            d_model,
            heads,
            d_ff,
            encoder_layers,
            decoder_layers,
            source_vocab,
            target_vocab,
            source_context,
            target_context,
            shared_embedding: known!(flag(shared_embedding)),
            scaled_embedding: known!(flag(scaled_embedding)),
            positions: known!(Positions::from_u32(positions)),
            position_offset,
            norm: known!(NormKind::from_u32(norm)),
            norm_place: known!(NormPlace::from_u32(norm_place)),
            norm_eps: f32::from_bits(norm_eps),
            final_norm: known!(flag(final_norm)),
            embedding_norm: known!(flag(embedding_norm)),
            activation: known!(activation(function)),
            attention_bias: known!(flag(attention_bias)),
            feed_forward_bias: known!(flag(feed_forward_bias)),
            output: known!(Output::from_u32(output)),
            output_bias: known!(flag(output_bias)),
            pooling: known!(Pooling::from_u32(pooling)),
            unit_length: known!(flag(unit_length)),
            begin,
            end,
            elements: known!(Elements::from_word(elements)),
        })
    }
}
