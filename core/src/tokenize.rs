//! Text to tokens and back, over tables that lie in the image.
//!
//! Nothing is copied and nothing is allocated: a tokenizer borrows the bytes of
//! its section, encodes into a slice of tokens and decodes into a slice of bytes.
//! Any bytes give a tokenizer or an error, any text and any tokens a result or an error.

mod characters;
mod normalize;
mod pieces;
mod sinks;
#[rustfmt::skip]
mod unicode_tables;
mod word_piece;

use crate::error::Error;

pub use characters::Characters;
use normalize::{is_punctuation, is_removed};
use pieces::Pieces;
pub use pieces::{
    ADD_BEGIN, ADD_END, BY_WORD, CHARACTERS, LONGEST, LOWER, NONE, SPACED, Specials, WORD_PIECE,
};
pub use word_piece::WordPiece;

/// A tokenizer of the image, of either kind.
///
/// A table of three letters, written by hand here; `picoformer::vocab` writes them for you.
///
/// ```
/// use picoformer_core::tokenize::{CHARACTERS, LOWER, NONE, Tokenizer};
///
/// let header = [CHARACTERS, 3, LOWER, NONE, NONE, NONE, NONE, NONE];
/// let (offsets, index) = ([0, 1, 2, 3], [0, 1, 2]);
/// let numbers = header.iter().chain(&offsets).chain(&index);
/// let table: Vec<u8> = numbers.flat_map(|n| n.to_le_bytes()).chain(*b"abc").collect();
///
/// let tokenizer = Tokenizer::from_bytes(&table)?;
/// let mut tokens = [0; 8];
/// let encoded = tokenizer.encode("Cab!", &mut tokens)?;
/// assert_eq!(tokens[..encoded.len], [2, 0, 1]);
/// assert_eq!((encoded.unknown, encoded.first_unknown), (1, Some('!')));
///
/// let mut text = [0; 8];
/// assert_eq!(tokenizer.decode(&tokens[..encoded.len], &mut text)?, "cab");
/// # Ok::<(), picoformer_core::error::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub enum Tokenizer<'t> {
    /// Letters, or names of phonemes.
    Characters(Characters<'t>),
    /// BERT's words and pieces of words.
    WordPiece(WordPiece<'t>),
}

/// What encoding did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Tokens written.
    pub len: usize,
    /// Characters (of [`Characters`]) or words (of [`WordPiece`]) that have no piece.
    pub unknown: usize,
    /// The first character for which there was no piece, or with which a word began that is too long.
    pub first_unknown: Option<char>,
}

/// What a model reads at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// The text as it is.
    Text,
    /// One word: the caller divides the text with [`words`] and runs them one by one.
    Word,
}

impl<'t> Tokenizer<'t> {
    /// Checks a section of the image; the tokenizer borrows it.
    ///
    /// # Errors
    /// [`Error::Image`], naming what is wrong with the bytes.
    pub fn from_bytes(bytes: &'t [u8]) -> Result<Self, Error> {
        match Pieces::from_bytes(bytes)? {
            (CHARACTERS, pieces) => Ok(Tokenizer::Characters(Characters { pieces })),
            (WORD_PIECE, pieces) => WordPiece::new(pieces).map(Tokenizer::WordPiece),
            _ => Err(Error::Image("the tokenizer is of an unknown kind")),
        }
    }

    fn pieces(&self) -> &Pieces<'t> {
        match self {
            Tokenizer::Characters(characters) => &characters.pieces,
            Tokenizer::WordPiece(word_piece) => &word_piece.pieces,
        }
    }

    /// Writes the text's tokens into `out`, with the begin and end tokens that the model expects.
    ///
    /// # Errors
    /// [`Error::Buffer`] with the number of tokens if `out` is shorter; what it then holds is of no use.
    pub fn encode(&self, text: &str, out: &mut [u32]) -> Result<Encoded, Error> {
        match self {
            Tokenizer::Characters(characters) => characters.encode(text, out),
            Tokenizer::WordPiece(word_piece) => word_piece.encode(text, out),
        }
    }

    /// Writes the tokens' text into `out` and returns it; special tokens have none.
    ///
    /// # Errors
    /// [`Error::Token`] for a token outside of the vocabulary, [`Error::Buffer`]
    /// with the number of bytes if `out` is shorter.
    pub fn decode<'o>(&self, ids: &[u32], out: &'o mut [u8]) -> Result<&'o str, Error> {
        match self {
            Tokenizer::Characters(characters) => characters.decode(ids, out),
            Tokenizer::WordPiece(word_piece) => word_piece.decode(ids, out),
        }
    }

    /// The piece of a token as it stands in the vocabulary, special ones included.
    pub fn token(&self, id: u32) -> Option<&'t str> {
        self.pieces().get(id)
    }

    /// The number of tokens.
    pub fn vocab(&self) -> usize {
        self.pieces().vocab()
    }

    /// The special tokens' ids.
    pub fn specials(&self) -> Specials {
        self.pieces().specials
    }

    /// What the model reads at a time.
    pub fn unit(&self) -> Unit {
        match self {
            Tokenizer::Characters(characters) => characters.unit(),
            Tokenizer::WordPiece(_) => Unit::Text,
        }
    }
}

/// Both the typewriter's apostrophe and the printer's.
fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

/// Whether it can stand in a word: a letter, or beyond ASCII what is no punctuation, symbol or
/// space. (The standard library's own table can panic.)
fn is_letter(c: char) -> bool {
    let symbol = matches!(c,
        '\u{80}'..='\u{A9}' | '\u{AB}'..='\u{B4}' | '\u{B6}'..='\u{B9}' | '\u{BB}'..='\u{BF}' | '×' | '÷'
        | '\u{2000}'..='\u{206F}' | '\u{20A0}'..='\u{20CF}' | '\u{2190}'..='\u{2BFF}' | '\u{3000}'..='\u{3004}'
        | '\u{1F000}'..='\u{1FAFF}');
    match c.is_ascii() {
        true => c.is_ascii_alphabetic(),
        false => !symbol && !c.is_whitespace() && !is_punctuation(c) && !is_removed(c),
    }
}

/// The words of a text: letters and apostrophes; everything else separates.
///
/// A word keeps an apostrophe at its edge only if it stands next to a letter.
///
/// ```
/// use picoformer_core::tokenize::words;
/// let found: Vec<_> = words("Don’t 'tis ''rock'' 2nd-rate -- '").collect();
/// assert_eq!(found, ["Don’t", "'tis", "'rock'", "nd", "rate"]);
/// ```
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_letter(c) && !is_apostrophe(c)).filter_map(|run| {
        let first = run.find(is_letter)?;
        let (last, letter) = run.char_indices().rfind(|(_, c)| is_letter(*c))?;
        let after = last + letter.len_utf8();
        // Outside of the letters there are only apostrophes: keep one at each side.
        let from = run.get(..first)?.char_indices().next_back().map_or(first, |(at, _)| at);
        let to = run.get(after..)?.chars().next().map_or(after, |c| after + c.len_utf8());
        run.get(from..to)
    })
}
