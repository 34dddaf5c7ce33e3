//! `pf_text_`: text to tokens and back.

use super::memory::{Out, apart, slice, slice_mut, span};
use super::{Code, PfModel, model, run};
use crate::Error;
use crate::tokenize::{Encoded, Tokenizer, words};
use core::ffi::{c_char, c_int};

/// What encoding found: see the header.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the header has them")]
pub struct PfEncoded {
    pub tokens: usize,
    pub unknown: usize,
    pub first_unknown: u32,
}

/// One of a model's tokenizers.
///
/// # Safety
/// `model` is null, or the caller's to read.
unsafe fn tokenizer(model: *const PfModel, side: c_int) -> Result<Tokenizer<'static>, Code> {
    // SAFETY: promised.
    let image = unsafe { model::image(model) }?;
    let tokenizer = match side {
        0 => image.source_tokenizer(),
        1 => image.target_tokenizer(),
        _ => return Err(Code::Choice),
    };
    tokenizer.ok_or(Code::Missing)
}

/// # Safety
/// As for [`slice`].
unsafe fn utf8<'a>(text: *const c_char, length: usize) -> Result<&'a str, Code> {
    // SAFETY: promised.
    let bytes = unsafe { slice(text.cast(), length) }?;
    core::str::from_utf8(bytes).map_err(|_| Code::Text)
}

/// Text to tokens.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_text_encode(
    model: *const PfModel,
    side: c_int,
    text: *const c_char,
    length: usize,
    tokens: *mut u32,
    capacity: usize,
    encoded: *mut PfEncoded,
) -> c_int {
    run(|| {
        apart(&[span(tokens, capacity), span(encoded, 1)], &[span(text, length)])?;
        // SAFETY: the caller's promise.
        let (tokenizer, text) = unsafe { (tokenizer(model, side)?, utf8(text, length)?) };
        // SAFETY: the caller's promise; apart from the text and from each other.
        let (tokens, out) = unsafe { (slice_mut(tokens, capacity)?, Out::new(encoded)?) };
        // Counted first: a buffer that is too small is not touched.
        let need = match tokenizer.encode(text, &mut []) {
            Ok(Encoded { len, .. }) => len,
            Err(Error::Buffer { need }) => need,
            Err(error) => return Err(error.into()),
        };
        if tokens.is_empty() {
            out.set(PfEncoded { tokens: need, unknown: 0, first_unknown: 0 });
            return Ok(());
        }
        if tokens.len() < need {
            return Err(Code::Buffer);
        }
        let encoded = tokenizer.encode(text, tokens)?;
        out.set(PfEncoded {
            tokens: encoded.len,
            unknown: encoded.unknown,
            first_unknown: encoded.first_unknown.map_or(0, u32::from),
        });
        Ok(())
    })
}

/// Tokens to text.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_text_decode(
    model: *const PfModel,
    side: c_int,
    tokens: *const u32,
    count: usize,
    text: *mut c_char,
    capacity: usize,
    length: *mut usize,
) -> c_int {
    run(|| {
        apart(&[span(text, capacity), span(length, 1)], &[span(tokens, count)])?;
        // SAFETY: the caller's promise.
        let (tokenizer, tokens) = unsafe { (tokenizer(model, side)?, slice(tokens, count)?) };
        // SAFETY: the caller's promise; apart from the tokens and from each other.
        let (text, length) = unsafe { (slice_mut(text.cast::<u8>(), capacity)?, Out::new(length)?) };
        let need = match tokenizer.decode(tokens, &mut []) {
            Ok(text) => text.len(),
            Err(Error::Buffer { need }) => need,
            Err(error) => return Err(error.into()),
        };
        if !text.is_empty() {
            let (text, end) = text.split_at_mut_checked(need).ok_or(Code::Buffer)?;
            *end.first_mut().ok_or(Code::Buffer)? = 0;
            tokenizer.decode(tokens, text)?;
        }
        length.set(need);
        Ok(())
    })
}

/// One token of the vocabulary.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_text_token(
    model: *const PfModel,
    side: c_int,
    token: u32,
    text: *mut *const c_char,
    length: *mut usize,
) -> c_int {
    run(|| {
        apart(&[span(text, 1), span(length, 1)], &[])?;
        // SAFETY: the caller's promise.
        let (tokenizer, text, length) =
            unsafe { (tokenizer(model, side)?, Out::new(text)?, Out::new(length)?) };
        let piece = tokenizer.token(token).ok_or(Code::Token)?;
        text.set(piece.as_ptr().cast());
        length.set(piece.len());
        Ok(())
    })
}

/// The next word of a text.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_text_word(
    text: *const c_char,
    length: usize,
    from: usize,
    start: *mut usize,
    end: *mut usize,
) -> c_int {
    run(|| {
        apart(&[span(start, 1), span(end, 1)], &[span(text, length)])?;
        // SAFETY: the caller's promise.
        let (text, start, end) = unsafe { (utf8(text, length)?, Out::new(start)?, Out::new(end)?) };
        if from > length {
            return Err(Code::Shape);
        }
        let rest = text.get(from..).ok_or(Code::Text)?;
        let word = words(rest).next().map_or(length..length, |word| {
            let at = word.as_ptr().addr() - text.as_ptr().addr();
            at..at + word.len()
        });
        start.set(word.start);
        end.set(word.end);
        Ok(())
    })
}
