//! The paper ("Attention Is All You Need", Vaswani et al. 2017), in its own order.
//!
//! | module | section |
//! |---|---|
//! | [`embedding`]: tokens times `sqrt(d_model)`, plus positions | 3.4, 3.5 |
//! | [`attention`]: self- and cross-attention over any number of heads | 3.2 |
//! | [`feed_forward`]: two linear layers at every position | 3.3 |
//! | [`norm`]: the residual connection and its normalisation | 3.1 |
//! | [`encoder`], [`decoder`]: the layers and their stacks | 3.1 |
//! | [`transformer`]: everything, with the output projection | 3 |
//!
//! Activations are dense row-major `[rows × features]`; the sequences of a batch lie
//! one after another without padding between them. Dropout belongs to training: it
//! is the identity here, so there is none.

pub mod attention;
pub mod decoder;
pub mod embedding;
pub mod encoder;
pub mod feed_forward;
pub mod linear;
pub mod norm;
pub mod transformer;

pub use attention::{Caches, CrossAttention, KeyValues, SelfAttention};
pub use decoder::{Decoder, DecoderLayer};
pub use embedding::{Embedding, Table};
pub use encoder::{Encoder, EncoderLayer};
pub use feed_forward::FeedForward;
pub use linear::Linear;
pub use norm::Norm;
pub use transformer::Transformer;

use crate::{Error, Plan, Workers};

/// Which rows of a batch are one sequence's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Sequence {
    /// Its first row.
    pub row: u32,
    /// Its rows.
    pub rows: u32,
    /// The position of its first row: what the caches hold already.
    pub at: u32,
    /// How many of its positions, from the front, are attended to: all, or those
    /// before its padding.
    pub keep: u32,
}

impl Sequence {
    /// Where its rows lie in `[rows × width]`; what does not fit a number is beyond every slice.
    pub const fn range(&self, width: usize) -> core::ops::Range<usize> {
        let (row, rows) = (self.row as usize, self.rows as usize);
        row.saturating_mul(width)..row.saturating_add(rows).saturating_mul(width)
    }
}

/// Where attention weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Site {
    /// `encoder.self_attention`, `decoder.self_attention` or `decoder.cross_attention`.
    pub part: &'static str,
    /// The layer, from 0.
    pub layer: usize,
    /// The sequence of the batch, from 0.
    pub sequence: usize,
}

/// Whoever wants to see the steps of a run.
///
/// ```
/// # use picoformer_core::{Config, Cpu, Line, Model, Plan};
/// use picoformer_core::nn::{Site, Watch};
///
/// /// Keeps the weights of the encoder's first attention.
/// struct First([f32; 2 * 3 * 3]);
///
/// impl Watch for First {
///     fn weights(&mut self, site: Site, heads: usize, queries: usize, keys: usize) -> Option<&mut [f32]> {
///         assert_eq!((site.part, heads, queries, keys), ("encoder.self_attention", 2, 3, 3));
///         (site.layer == 0).then_some(&mut self.0)
///     }
/// }
/// # let plan = Plan::new(Config { d_model: 32, heads: 2, d_ff: 8, source_vocab: 9, target_vocab: 9, ..Config::PAPER })?;
/// # let (weights, mut arena) = (vec![Line::ZERO; plan.weights()], vec![Line::ZERO; plan.arena()]);
/// # let mut session = Model::new(plan, &weights)?.session(&mut arena, Cpu::detect())?;
/// let mut first = First([0.0; 18]);
/// session.encode_watched(&[&[3, 4, 5]], &mut first)?;
/// assert!((first.0[..3].iter().sum::<f32>() - 1.0).abs() < 1e-6);
/// # Ok::<(), picoformer_core::Error>(())
/// ```
pub trait Watch {
    /// The residual stream `x[rows × d_model]` after a step of a layer: `part` is
    /// `encoder` or `decoder`, then `.embedding`, `.self_attention`, `.cross_attention` or
    /// `.feed_forward`.
    fn step(&mut self, _part: &'static str, _layer: usize, _d_model: usize, _x: &[f32]) {}

    /// Memory for the attention weights `[heads × queries × keys]` that are about
    /// to be computed, from whoever wants them; they are there when the run returns. Too
    /// short a slice is none. A decoder asks once for every chunk of tokens and layer:
    /// its last query is at position `keys - 1`.
    fn weights(&mut self, _site: Site, _heads: usize, _queries: usize, _keys: usize) -> Option<&mut [f32]> {
        None
    }
}

/// Nobody watches.
impl Watch for () {}

/// What every module of a run needs.
pub struct Run<'r> {
    /// The kernels and their threads.
    pub workers: Workers<'r>,
    /// The sizes.
    pub plan: &'r Plan,
    /// The layer that runs.
    pub layer: usize,
    /// Who sees the steps.
    pub watch: &'r mut dyn Watch,
}

impl Run<'_> {
    fn site(&self, part: &'static str, sequence: usize) -> Site {
        Site { part, layer: self.layer, sequence }
    }

    fn show(&mut self, part: &'static str, x: &[f32]) {
        self.watch.step(part, self.layer, self.plan.config().d_model as usize, x);
    }
}

/// The first `need` floats of a buffer.
fn part(buffer: &mut [f32], need: usize) -> Result<&mut [f32], Error> {
    buffer.get_mut(..need).ok_or(Error::Shape { need })
}
