//! The `.pf` image: a whole model in one file, used in place.
//!
//! ```text
//! byte 0    "picoform"
//!      8    u32 version     12 u32 header bytes (256)
//!      16   u64 bytes of the file          24 u64 checksum of the bytes from 32 on
//!      32   u64 bytes of the weights, which follow the header
//!      40   u64 bytes of the source's tokenizer, which follows the weights
//!      48   u64 bytes of the target's tokenizer, which follows on the next multiple of 64
//!      56   the configuration, 29 words     172 zeros
//!      192  the model's name, UTF-8, padded with zeros
//!      256  weights, then tokenizers, each from a multiple of 64 on
//! ```
//!
//! Everything is little-endian. The bytes must lie on a multiple of 64, in flash, a
//! mapped file or a `static` ([`crate::include_image!`]). Parsing reads nothing
//! outside the slice and believes nothing it has not checked.

use crate::config::CONFIG_WORDS;
use crate::tokenize::Tokenizer;
use crate::{Config, Error, Line, Model, Plan};

/// The version of the format that this library reads and writes.
pub const VERSION: u32 = 1;

/// Bytes of the header.
pub const HEADER: usize = 256;

const MAGIC: [u8; 8] = *b"picoform";
const CHECKED_FROM: usize = 32;
const CONFIG_AT: usize = 56;
const NAME_AT: usize = 192;

/// The bytes of a file as a 64-byte aligned `&'static [u8]`, for [`Image::parse`].
///
/// ```
/// static MODEL: &[u8] = picoformer_core::include_image!(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
/// assert!(MODEL.as_ptr().addr() % 64 == 0);
/// assert!(picoformer_core::Image::parse(MODEL).is_err(), "aligned, but no model");
/// ```
#[macro_export]
macro_rules! include_image {
    ($path:expr) => {{
        #[repr(C, align(64))]
        struct Aligned<T: ?Sized>(T);
        static IMAGE: &Aligned<[u8]> = &Aligned(*include_bytes!($path));
        &IMAGE.0
    }};
}

/// A parsed image: views of its parts.
#[derive(Clone, Copy, Debug)]
pub struct Image<'w> {
    bytes: &'w [u8],
    name: &'w str,
    model: Model<'w>,
    source: Option<Tokenizer<'w>>,
    target: Option<Tokenizer<'w>>,
}

impl<'w> Image<'w> {
    /// The image that `bytes` are. The checksum is not read: see [`Image::verify`].
    ///
    /// Errors: [`Error::Image`] says what is wrong, [`Error::Version`] and
    /// [`Error::Config`] likewise.
    pub fn parse(bytes: &'w [u8]) -> Result<Self, Error> {
        let plan = plan(bytes)?;
        let config = *plan.config();
        let (header, mut rest) = bytes.split_at_checked(HEADER).ok_or(SHORT)?;

        let outside = Error::Image("a part lies outside the file");
        let mut part = |at: usize| -> Result<&'w [u8], Error> {
            let length = usize::try_from(long(header, at).ok_or(SHORT)?).map_err(|_| outside)?;
            let (part, _) = rest.split_at_checked(length).ok_or(outside)?;
            let padded = length.checked_next_multiple_of(64).ok_or(outside)?.min(rest.len());
            rest = rest.get(padded..).ok_or(outside)?;
            Ok(part)
        };
        let (weights, source, target) = (part(32)?, part(40)?, part(48)?);
        if weights.len() != plan.weights() * size_of::<Line>() {
            return Err(Error::Image("its weights are not as long as its configuration needs"));
        }
        let weights = Line::from_bytes(weights)
            .ok_or(Error::Image("it must lie on a multiple of 64 bytes, on a little-endian machine"))?;
        let tokenizer = |bytes: &'w [u8], vocab: u32| match bytes.is_empty() {
            true => Ok(None),
            false => match Tokenizer::from_bytes(bytes)? {
                t if t.vocab() > vocab as usize => {
                    Err(Error::Image("a tokenizer has more tokens than the model"))
                }
                t => Ok(Some(t)),
            },
        };
        let name = header.get(NAME_AT..).unwrap_or(&[]);
        let name = name.split(|b| *b == 0).next().unwrap_or(&[]);
        Ok(Image {
            bytes,
            name: core::str::from_utf8(name).map_err(|_| Error::Image("its name is not UTF-8"))?,
            model: Model::new(plan, weights)?,
            source: tokenizer(source, config.source_vocab)?,
            target: tokenizer(target, config.target_vocab)?,
        })
    }

    /// Reads every byte and compares the checksum.
    ///
    /// Errors: [`Error::Checksum`].
    pub fn verify(&self) -> Result<(), Error> {
        match long(self.bytes, 24) == Some(self.checksum()) {
            true => Ok(()),
            false => Err(Error::Checksum),
        }
    }

    /// The checksum of the bytes as they are.
    pub fn checksum(&self) -> u64 {
        checksum(self.bytes.get(CHECKED_FROM..).unwrap_or(&[]))
    }

    /// The model's name.
    pub fn name(&self) -> &'w str {
        self.name
    }

    /// The model, planned for one sequence of the full contexts.
    pub fn model(&self) -> Model<'w> {
        self.model
    }

    /// The tokenizer of the encoder's text.
    pub fn source_tokenizer(&self) -> Option<Tokenizer<'w>> {
        self.source
    }

    /// The tokenizer of the decoder's text.
    pub fn target_tokenizer(&self) -> Option<Tokenizer<'w>> {
        self.target
    }
}

const SHORT: Error = Error::Image("it is cut off within its header");

/// The plan of an image, from its header alone, at compile time too: what sizes an arena that
/// is a `static`.
///
/// Errors: as [`Image::parse`].
pub const fn plan(bytes: &[u8]) -> Result<Plan, Error> {
    match bytes.first_chunk() {
        Some(magic) if u64::from_le_bytes(*magic) == u64::from_le_bytes(MAGIC) => {}
        _ => return Err(Error::Image("it does not begin with \"picoform\"")),
    }
    match word(bytes, 8) {
        Some(VERSION) => {}
        Some(found) => return Err(Error::Version { found }),
        None => return Err(SHORT),
    }
    let Some((header, _)) = bytes.split_at_checked(HEADER) else { return Err(SHORT) };
    if !matches!(word(header, 12), Some(length) if length == HEADER as u32) {
        return Err(Error::Image("its header has another length"));
    }
    if !matches!(long(header, 16), Some(length) if length == bytes.len() as u64) {
        return Err(Error::Image("it is not as long as it says: cut off or appended to"));
    }
    let mut words = [0; CONFIG_WORDS];
    let mut i = 0;
    while i < CONFIG_WORDS {
        match word(header, CONFIG_AT + 4 * i) {
            Some(word) => words[i] = word,
            None => return Err(SHORT),
        }
        i += 1;
    }
    match Config::from_words(&words) {
        Some(config) => Plan::new(config),
        None => Err(Error::Image("its configuration has an unknown choice")),
    }
}

/// The header of an image whose parts have these lengths, still without checksum;
/// the name is cut to 64 bytes. For those who write images: header, weights, then the
/// tokenizers, each from a multiple of 64 on, then [`seal`].
pub fn header(config: &Config, name: &str, weights: u64, source: u64, target: u64) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    let mut put = |at: usize, bytes: &[u8]| {
        if let Some(to) = header.get_mut(at..at + bytes.len()) {
            to.copy_from_slice(bytes);
        }
    };
    let total = match target {
        0 => (HEADER as u64).saturating_add(weights).saturating_add(source),
        _ => (HEADER as u64)
            .saturating_add(weights)
            .saturating_add(source.div_ceil(64).saturating_mul(64))
            .saturating_add(target),
    };
    put(0, &MAGIC);
    put(8, &VERSION.to_le_bytes());
    put(12, &(HEADER as u32).to_le_bytes());
    put(16, &total.to_le_bytes());
    put(32, &weights.to_le_bytes());
    put(40, &source.to_le_bytes());
    put(48, &target.to_le_bytes());
    for (i, word) in config.to_words().iter().enumerate() {
        put(CONFIG_AT + 4 * i, &word.to_le_bytes());
    }
    let end =
        (0..=name.len().min(HEADER - NAME_AT)).rev().find(|end| name.is_char_boundary(*end)).unwrap_or(0);
    put(NAME_AT, name.as_bytes().get(..end).unwrap_or(&[]));
    header
}

/// Writes the checksum into a finished image.
pub fn seal(image: &mut [u8]) {
    let sum = checksum(image.get(CHECKED_FROM..).unwrap_or(&[]));
    if let Some(to) = image.get_mut(24..CHECKED_FROM) {
        to.copy_from_slice(&sum.to_le_bytes());
    }
}

/// Eight interleaved multiply-and-add sums over words of eight bytes, then mixed: not
/// for secrets, only against damage.
fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut lanes = [PRIME; 8];
    let (lines, tail) = bytes.as_chunks::<64>();
    let mut mix = |line: &[u8; 64]| {
        let (words, _) = line.as_chunks::<8>();
        for (lane, word) in lanes.iter_mut().zip(words) {
            *lane = (*lane ^ u64::from_le_bytes(*word)).wrapping_mul(PRIME).rotate_left(23);
        }
    };
    lines.iter().for_each(&mut mix);
    let mut last = [0; 64];
    last.iter_mut().zip(tail).for_each(|(to, from)| *to = *from);
    mix(&last);
    lanes.iter().fold(bytes.len() as u64, |sum, lane| (sum ^ lane).wrapping_mul(PRIME).rotate_left(31))
}

const fn word(bytes: &[u8], at: usize) -> Option<u32> {
    match bytes.split_at_checked(at) {
        Some((_, [a, b, c, d, ..])) => Some(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => None,
    }
}

const fn long(bytes: &[u8], at: usize) -> Option<u64> {
    match (word(bytes, at), word(bytes, at + 4)) {
        (Some(low), Some(high)) => Some(low as u64 | (high as u64) << 32),
        _ => None,
    }
}
