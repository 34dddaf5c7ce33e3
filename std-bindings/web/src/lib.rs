//! The embedded model as a WebAssembly module: no imports, no allocator, memory from the caller.
//!
//! ```text
//! arena_bytes()                            how large the arena must be
//! transform(arena, arena_length,           the answer's bytes, or a negative code:
//!           text, text_length,              -1  the text is not UTF-8
//!           answer, answer_length)          -2  the arena is short or not on a multiple of 64
//!                                           -3  the answer is short
//!                                           -4  a word is longer than the model reads
//!                                           -5  the embedded file is no such model
//! ```
//!
//! Texts are UTF-8. The caller grows the memory by what it needs: new pages are aligned, and
//! nothing else is there. `picoformer.js` does that.

#![no_std]

use core::slice::{from_raw_parts, from_raw_parts_mut};
use picoformer_core::tokenize::{Unit, words};
use picoformer_core::{Capacity, Cpu, Error, Image, Line, Model};

static MODEL: &[u8] = picoformer_core::include_image!("../../models/g2p-en/g2p-en.pf");

/// Tokens of the longest text (or word, where the model reads words) and of its answer.
const TOKENS: usize = 256;

const NOT_UTF8: i32 = -1;
const ARENA: i32 = -2;
const ANSWER: i32 = -3;
const TOO_LONG: i32 = -4;
const NO_MODEL: i32 = -5;

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::arch::wasm32::unreachable()
}

fn model() -> Result<(Image<'static>, Model<'static>), Error> {
    let image = Image::parse(MODEL)?;
    let capacity = Capacity { batch: 1, source: TOKENS, target: TOKENS, chunk: 1 };
    Ok((image, image.model().with_capacity(capacity)?))
}

/// Bytes of the arena that [`transform`] needs.
#[unsafe(no_mangle)]
pub extern "C" fn arena_bytes() -> usize {
    model().map_or(0, |(_, model)| model.plan().arena() * size_of::<Line>())
}

/// Writes what the model makes of `text` into `answer`; gives its length, or a negative code.
///
/// # Safety
/// Each pointer is to as many bytes as its length says, and the three do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn transform(
    arena: *mut u8,
    arena_length: usize,
    text: *const u8,
    text_length: usize,
    answer: *mut u8,
    answer_length: usize,
) -> i32 {
    // SAFETY: the caller's promise.
    let (arena, text, answer) = unsafe {
        (
            from_raw_parts_mut(arena, arena_length),
            from_raw_parts(text, text_length),
            from_raw_parts_mut(answer, answer_length),
        )
    };
    let Ok(text) = core::str::from_utf8(text) else { return NOT_UTF8 };
    let Some(arena) = Line::from_bytes_mut(arena) else { return ARENA };
    match whole(arena, text, answer) {
        Ok(length) => length as i32,
        Err(code) => code,
    }
}

/// The answer to a whole text; word by word, two spaces apart, where the model reads words.
fn whole(arena: &mut [Line], text: &str, answer: &mut [u8]) -> Result<usize, i32> {
    let (image, _) = model().map_err(|_| NO_MODEL)?;
    if image.source_tokenizer().is_none_or(|tokenizer| tokenizer.unit() == Unit::Text) {
        return one(arena, text, answer);
    }
    let mut length = 0;
    for word in words(text) {
        let between: &[u8] = if length == 0 { b"" } else { b"  " };
        let rest = answer.get_mut(length..).ok_or(ANSWER)?;
        let (gap, rest) = rest.split_at_mut_checked(between.len()).ok_or(ANSWER)?;
        gap.copy_from_slice(between);
        length += between.len() + one(arena, word, rest)?;
    }
    Ok(length)
}

/// The answer to what the model reads at a time.
fn one(arena: &mut [Line], text: &str, answer: &mut [u8]) -> Result<usize, i32> {
    let (image, model) = model().map_err(|_| NO_MODEL)?;
    let (Some(source), Some(target)) = (image.source_tokenizer(), image.target_tokenizer()) else {
        return Err(NO_MODEL);
    };
    let mut session = model.session(arena, Cpu::detect()).map_err(|_| ARENA)?;
    let (mut tokens, mut generated, mut count) = ([0; TOKENS], [0; TOKENS], 0);
    let encoded = source.encode(text, &mut tokens).map_err(|_| TOO_LONG)?;
    let tokens = tokens.get(..encoded.len).ok_or(TOO_LONG)?;
    session.encode(&[tokens]).map_err(|_| TOO_LONG)?;
    let all = session.generate(TOKENS, |_, token| {
        if let Some(next) = generated.get_mut(count) {
            (*next, count) = (token, count + 1);
        }
    });
    all.map_err(|_| NO_MODEL)?;
    let generated = generated.get(..count).unwrap_or(&[]);
    target.decode(generated, answer).map(str::len).map_err(|_| ANSWER)
}
