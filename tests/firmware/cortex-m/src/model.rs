//! Spelling to phonemes on a microcontroller: the model stays in flash, the arena is where the
//! caller says.

use picoformer_core::{Capacity, Cpu, Error, Image, Line, Plan, Session, image, include_image};

/// The longest word and the longest answer, in tokens.
const LONGEST: usize = 32;

/// 64-byte aligned, read where it lies.
pub static MODEL: &[u8] = include_image!(env!("MODEL"));

const CAPACITY: Capacity = Capacity { batch: 1, source: LONGEST, target: LONGEST, chunk: 1 };

/// Known when this is compiled: an arena that is too large for the board does not link.
pub const PLAN: Plan = match image::plan(MODEL) {
    Ok(plan) => match plan.with_capacity(CAPACITY) {
        Ok(plan) => plan,
        Err(_) => panic!("the capacity"),
    },
    Err(_) => panic!("the image"),
};

/// The model's image.
pub fn open() -> Result<Image<'static>, Error> {
    Image::parse(MODEL)
}

/// A session in `arena`, `PLAN.arena()` lines.
pub fn session<'a>(image: &Image<'static>, arena: &'a mut [Line]) -> Result<Session<'static, 'a>, Error> {
    image.model().with_capacity(CAPACITY)?.session(arena, Cpu::detect())
}

/// The phonemes of a word, in `text`.
pub fn spell<'t>(
    image: &Image<'static>,
    session: &mut Session<'_, '_>,
    word: &str,
    text: &'t mut [u8],
) -> Result<&'t str, Error> {
    let source = image.source_tokenizer().ok_or(Error::Missing("tokenizer"))?;
    let target = image.target_tokenizer().ok_or(Error::Missing("tokenizer"))?;
    let (mut tokens, mut answer, mut length) = ([0; LONGEST], [0; LONGEST], 0);
    let encoded = source.encode(word, &mut tokens)?;
    session.encode(&[tokens.get(..encoded.len).unwrap_or_default()])?;
    session.generate(LONGEST, |_, token| {
        if let Some(to) = answer.get_mut(length) {
            (*to, length) = (token, length + 1);
        }
    })?;
    target.decode(answer.get(..length).unwrap_or_default(), text)
}
