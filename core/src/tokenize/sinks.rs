//! Where tokens and text are written: a caller's buffer that may turn out too small.
//!
//! Both go on counting when there is no more room, so that the error can name
//! the size that is needed.

use super::Encoded;
use crate::error::Error;

/// Tokens into a caller's slice.
pub(super) struct Tokens<'o> {
    out: &'o mut [u32],
    encoded: Encoded,
}

impl<'o> Tokens<'o> {
    pub(super) fn new(out: &'o mut [u32]) -> Self {
        Self { out, encoded: Encoded { len: 0, unknown: 0, first_unknown: None } }
    }

    pub(super) fn push(&mut self, id: u32) {
        if let Some(place) = self.out.get_mut(self.encoded.len) {
            *place = id;
        }
        self.encoded.len += 1;
    }

    /// Counts something that has no piece, and writes the unknown token if there is one.
    pub(super) fn unknown(&mut self, first: Option<char>, id: Option<u32>) {
        self.encoded.unknown += 1;
        self.encoded.first_unknown = self.encoded.first_unknown.or(first);
        if let Some(id) = id {
            self.push(id);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.encoded.len
    }

    /// Takes back what was pushed after there were `len` tokens.
    pub(super) fn take_back(&mut self, len: usize) {
        self.encoded.len = len;
    }

    pub(super) fn finish(self) -> Result<Encoded, Error> {
        let need = self.encoded.len;
        if need > self.out.len() { Err(Error::Buffer { need }) } else { Ok(self.encoded) }
    }
}

/// Text into a caller's bytes.
pub(super) struct Text<'o> {
    out: &'o mut [u8],
    len: usize,
}

impl<'o> Text<'o> {
    pub(super) fn new(out: &'o mut [u8]) -> Self {
        Self { out, len: 0 }
    }

    pub(super) fn push(&mut self, text: &str) {
        let room = self.out.get_mut(self.len..).and_then(|rest| rest.get_mut(..text.len()));
        if let Some(room) = room {
            room.copy_from_slice(text.as_bytes());
        }
        // One piece may be repeated so often that the sum does not fit a small target's usize.
        self.len = self.len.saturating_add(text.len());
    }

    pub(super) fn finish(self) -> Result<&'o str, Error> {
        let need = self.len;
        let written = self.out.get(..need).ok_or(Error::Buffer { need })?;
        core::str::from_utf8(written).map_err(|_| Error::Image("a tokenizer's text is not UTF-8"))
    }
}
