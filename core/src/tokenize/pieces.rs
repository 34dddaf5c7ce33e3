//! The table of a vocabulary as it lies in the image: read in place, never copied.
//!
//! All numbers are little-endian `u32`. In order: kind, pieces, flags, the five
//! special ids ([`NONE`] where there is none), the offset at which each piece
//! begins and a last one at which the text ends, the ids sorted by the pieces'
//! bytes (equal pieces by id), and the text of all pieces in UTF-8.

use crate::error::Error;

/// The kind of a [`Characters`](super::Characters) section.
pub const CHARACTERS: u32 = 1;
/// The kind of a [`WordPiece`](super::WordPiece) section.
pub const WORD_PIECE: u32 = 2;
/// Stands for a special id that the vocabulary does not have.
pub const NONE: u32 = u32::MAX;
/// The longest piece that a table may hold, in bytes; it bounds the work for each character.
pub const LONGEST: usize = 255;
/// Numbers before the first offset.
const HEADER: usize = 8;

/// Flag: the text is lower-cased before it is looked up.
pub const LOWER: u32 = 1;
/// Flag: encoding puts the begin token first.
pub const ADD_BEGIN: u32 = 2;
/// Flag: encoding puts the end token last.
pub const ADD_END: u32 = 4;
/// Flag: the pieces of a text are separated by spaces, as phonemes are.
pub const SPACED: u32 = 8;
/// Flag: the model reads one word at a time.
pub const BY_WORD: u32 = 16;

/// The ids that stand for no text of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Specials {
    /// Fills a sequence that is shorter than its batch.
    pub pad: Option<u32>,
    /// Begins a sequence (`<s>`, `[CLS]`).
    pub begin: Option<u32>,
    /// Ends a sequence (`</s>`, `[SEP]`).
    pub end: Option<u32>,
    /// Replaces what has no piece.
    pub unknown: Option<u32>,
    /// Hides a token that the model is to guess.
    pub mask: Option<u32>,
}

impl Specials {
    /// The five in the order of the table: pad, begin, end, unknown, mask.
    ///
    /// ```
    /// use picoformer_core::tokenize::Specials;
    /// let specials = Specials { end: Some(2), ..Specials::default() };
    /// assert_eq!(specials.all(), [None, None, Some(2), None, None]);
    /// ```
    pub fn all(&self) -> [Option<u32>; 5] {
        [self.pad, self.begin, self.end, self.unknown, self.mask]
    }

    /// Whether the id is one of the five.
    pub fn contains(&self, id: u32) -> bool {
        self.all().contains(&Some(id))
    }
}

/// A checked table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pieces<'t> {
    offsets: &'t [u8],
    index: &'t [u8],
    text: &'t str,
    pub(super) flags: u32,
    pub(super) specials: Specials,
    /// Characters in the longest piece.
    pub(super) longest: usize,
    vocab: usize,
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at.checked_mul(4)?..)?.first_chunk()?;
    Some(u32::from_le_bytes(*bytes))
}

impl<'t> Pieces<'t> {
    /// Checks the whole table, so that reading it later can only miss, never fail.
    pub(super) fn from_bytes(bytes: &'t [u8]) -> Result<(u32, Self), Error> {
        let cut = Error::Image("the tokenizer is cut short");
        let (header, rest) = bytes.split_at_checked(HEADER * 4).ok_or(cut)?;
        let field = |at| number(header, at).ok_or(cut);
        let (kind, count, flags) = (field(0)?, field(1)?, field(2)?);
        if flags & !(LOWER | ADD_BEGIN | ADD_END | SPACED | BY_WORD) != 0 {
            return Err(Error::Image("the tokenizer has unknown flags"));
        }
        let special = |at| match field(at)? {
            NONE => Ok(None),
            id if id < count => Ok(Some(id)),
            _ => Err(Error::Image("a special token is outside of the vocabulary")),
        };
        let specials = Specials {
            pad: special(3)?,
            begin: special(4)?,
            end: special(5)?,
            unknown: special(6)?,
            mask: special(7)?,
        };
        if flags & ADD_BEGIN != 0 && specials.begin.is_none()
            || flags & ADD_END != 0 && specials.end.is_none()
        {
            return Err(Error::Image("the tokenizer adds a token that it does not have"));
        }

        let vocab = count as usize;
        let index_len = vocab.checked_mul(4).ok_or(cut)?;
        let offsets_len = index_len.checked_add(4).ok_or(cut)?;
        let (offsets, rest) = rest.split_at_checked(offsets_len).ok_or(cut)?;
        let (index, text) = rest.split_at_checked(index_len).ok_or(cut)?;
        let text = core::str::from_utf8(text).map_err(|_| Error::Image("a tokenizer's text is not UTF-8"))?;
        let mut pieces = Self { offsets, index, text, flags, specials, longest: 0, vocab };
        pieces.check()?;
        Ok((kind, pieces))
    }

    fn check(&mut self) -> Result<(), Error> {
        let ends = (number(self.offsets, 0), number(self.offsets, self.vocab));
        if ends != (Some(0), u32::try_from(self.text.len()).ok()) {
            return Err(Error::Image("the pieces do not fill the tokenizer's text"));
        }
        for id in 0..self.vocab {
            // `get` has already looked that the offsets ascend and keep characters whole.
            let piece =
                self.get(id as u32).ok_or(Error::Image("a piece lies outside of the tokenizer's text"))?;
            if piece.len() > LONGEST {
                return Err(Error::Image("a piece is longer than 255 bytes"));
            }
            self.longest = self.longest.max(piece.chars().count());
        }
        let mut before = None;
        for at in 0..self.vocab {
            let here = number(self.index, at).and_then(|id| Some((self.get(id)?, id)));
            // Strictly ascending and as many as there are pieces: so every piece is there once.
            if here <= before {
                return Err(Error::Image("the tokenizer's index is not sorted"));
            }
            before = here;
        }
        Ok(())
    }

    pub(super) fn vocab(&self) -> usize {
        self.vocab
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// The token to put first, if there is one.
    pub(super) fn first(&self) -> Option<u32> {
        self.specials.begin.filter(|_| self.has(ADD_BEGIN))
    }

    /// The token to put last, if there is one.
    pub(super) fn last(&self) -> Option<u32> {
        self.specials.end.filter(|_| self.has(ADD_END))
    }

    pub(super) fn get(&self, id: u32) -> Option<&'t str> {
        let id = id as usize;
        let (from, to) = (number(self.offsets, id)?, number(self.offsets, id.checked_add(1)?)?);
        self.text.get(from as usize..to as usize)
    }

    /// The piece, or the error that names the token.
    pub(super) fn expect(&self, id: u32) -> Result<&'t str, Error> {
        self.get(id).ok_or(Error::Token { token: id, vocab: self.vocab as u32 })
    }

    /// The id of the piece of exactly these characters; the last of equal ones.
    ///
    /// Characters compare as their UTF-8 does, so the key need not be put together in memory.
    pub(super) fn find(&self, key: impl Iterator<Item = char> + Clone) -> Option<u32> {
        let (mut low, mut high) = (0, self.vocab);
        let mut found = None;
        while low < high {
            let middle = low + (high - low) / 2;
            let id = number(self.index, middle)?;
            let order = self.get(id)?.chars().cmp(key.clone());
            if order.is_eq() {
                found = Some(id);
            }
            if order.is_gt() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        found
    }

    /// The id of the longest piece that these characters begin with, and its length in characters.
    pub(super) fn find_longest(
        &self,
        key: impl Iterator<Item = char> + Clone,
        most: usize,
    ) -> Option<(u32, usize)> {
        let most = key.clone().take(most.min(self.longest)).count();
        (1..=most).rev().find_map(|len| {
            let id = self.find(key.clone().take(len))?;
            (!self.specials.contains(id)).then_some((id, len))
        })
    }
}
