//! The one error type.

/// What can go wrong; each variant carries the number that is needed to mend it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A number of the configuration is zero, too large, does not divide, or is
    /// of a combination that is not supported; the text names it.
    Config(&'static str),
    /// The weights are not as long as the plan says.
    Weights {
        /// Lines that the plan needs.
        need: usize,
    },
    /// The arena is smaller than the plan says.
    Arena {
        /// Lines that the plan needs.
        need: usize,
    },
    /// A buffer given to a kernel is shorter than its shape.
    Shape {
        /// Floats (or lines, for panels) that the shape needs.
        need: usize,
    },
    /// The token is not in the vocabulary.
    Token {
        /// The token that was given.
        token: u32,
        /// Tokens in the vocabulary.
        vocab: u32,
    },
    /// More sequences than the session was planned for, or another number than it runs.
    Batch {
        /// Sequences that would be right.
        need: usize,
    },
    /// The sequence is longer than the session was planned for.
    Full {
        /// Positions that were planned.
        capacity: usize,
    },
    /// The model has no such part (a decoder, a tokenizer, an output projection).
    Missing(&'static str),
    /// The bytes are not an image; the text says why.
    Image(&'static str),
    /// The image is of another version of the format.
    Version {
        /// The version in the image.
        found: u32,
    },
    /// The image's bytes are not those that were written.
    Checksum,
    /// A text buffer is too small.
    Buffer {
        /// Bytes or tokens that are needed, as far as is known.
        need: usize,
    },
    /// The kernel gives wrong results on this CPU: [`selftest`](crate::selftest) found it.
    Kernel(crate::selftest::Kernel),
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Error::Config(why) => write!(f, "the configuration is not supported: {why}"),
            Error::Weights { need } => write!(f, "the weights must be {need} lines of 64 bytes"),
            Error::Arena { need } => write!(f, "the arena needs {need} lines of 64 bytes"),
            Error::Shape { need } => {
                write!(f, "a buffer does not fit its shape: {need} elements would")
            }
            Error::Token { token, vocab } => write!(f, "token {token} is not in the vocabulary of {vocab}"),
            Error::Batch { need } => {
                write!(f, "this session has {need} sequences: encode no more, decode as many")
            }
            Error::Full { capacity } => {
                write!(f, "a sequence is longer than the {capacity} positions planned")
            }
            Error::Missing(what) => write!(f, "this model has no {what}"),
            Error::Image(why) => write!(f, "not a usable .pf image: {why}"),
            Error::Version { found } => {
                write!(
                    f,
                    "the image is of format version {found}, this library reads version {}",
                    crate::image::VERSION
                )
            }
            Error::Checksum => write!(f, "the image is damaged: its checksum does not match its bytes"),
            Error::Buffer { need } => {
                write!(f, "the text needs room for {need} tokens (or bytes, when decoding)")
            }
            Error::Kernel(kernel) => {
                write!(f, "the kernel {} gives wrong results on this CPU", kernel.name())
            }
        }
    }
}

impl core::error::Error for Error {}
