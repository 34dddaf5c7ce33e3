//! BERT's tokens: words, or pieces of words of which all but the first begin with `##`.

use super::Encoded;
use super::normalize::{Stripped, class, is_ideograph, is_punctuation, is_removed, strip};
use super::pieces::{LOWER, Pieces};
use super::sinks::{Text, Tokens};
use crate::error::Error;

/// The longest word that is looked up; a longer one is unknown. BERT's number.
const LONGEST_WORD: usize = 100;
/// What marks a piece that does not begin its word.
const INSIDE: &str = "##";

/// The tokenizer of `bert-base-uncased`, id for id; without the flag
/// [`LOWER`] letters keep their case and accents, as in `bert-base-cased`.
#[derive(Clone, Copy, Debug)]
pub struct WordPiece<'t> {
    pub(super) pieces: Pieces<'t>,
    unknown: u32,
}

impl<'t> WordPiece<'t> {
    pub(super) fn new(pieces: Pieces<'t>) -> Result<Self, Error> {
        let unknown =
            pieces.specials.unknown.ok_or(Error::Image("a WordPiece tokenizer needs an unknown token"))?;
        Ok(Self { pieces, unknown })
    }

    pub(super) fn encode(&self, text: &str, out: &mut [u32]) -> Result<Encoded, Error> {
        let mut tokens = Tokens::new(out);
        if let Some(id) = self.pieces.first() {
            tokens.push(id);
        }
        let lower = self.pieces.has(LOWER);
        let mut word = Word::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some((id, name)) = self.special_at(rest) {
                self.flush(&mut word, &mut tokens);
                tokens.push(id);
                rest = rest.get(name.len()..).unwrap_or_default();
                continue;
            }
            rest = rest.get(c.len_utf8()..).unwrap_or_default();
            if is_removed(c) {
                continue;
            }
            if c.is_whitespace() {
                self.flush(&mut word, &mut tokens);
                continue;
            }
            let alone = is_ideograph(c);
            if alone {
                self.flush(&mut word, &mut tokens);
            }
            if lower {
                self.add_plain(c, &mut word, &mut tokens);
            } else {
                self.add(c, &mut word, &mut tokens);
            }
            if alone {
                self.flush(&mut word, &mut tokens);
            }
        }
        self.flush(&mut word, &mut tokens);
        if let Some(id) = self.pieces.last() {
            tokens.push(id);
        }
        tokens.finish()
    }

    /// The special token whose name stands at the start of the text, the longest of several.
    fn special_at(&self, text: &str) -> Option<(u32, &'t str)> {
        let named = self
            .pieces
            .specials
            .all()
            .into_iter()
            .flatten()
            .filter_map(|id| Some((id, self.pieces.get(id)?)));
        named
            .filter(|(_, name)| !name.is_empty() && text.starts_with(name))
            .max_by_key(|(_, name)| name.len())
    }

    /// Adds what is left of a character without its accents, in lower case.
    fn add_plain(&self, c: char, word: &mut Word, tokens: &mut Tokens<'_>) {
        match strip(c) {
            Stripped::Mark => {}
            Stripped::Barrier => word.close_marks(),
            Stripped::Letters(letters) => {
                for letter in letters.into_iter().take_while(|&letter| letter != '\0') {
                    letter.to_lowercase().for_each(|c| self.add(c, word, tokens));
                }
            }
        }
    }

    fn add(&self, c: char, word: &mut Word, tokens: &mut Tokens<'_>) {
        let alone = is_punctuation(c);
        if alone {
            self.flush(word, tokens);
        }
        word.push(c, if self.pieces.has(LOWER) { class(c) } else { 0 });
        if alone {
            self.flush(word, tokens);
        }
    }

    /// Writes the word's pieces, the longest possible first; all of it is unknown if a part is.
    fn flush(&self, word: &mut Word, tokens: &mut Tokens<'_>) {
        let before = tokens.len();
        let mut rest = word.letters.as_slice();
        let mut prefix = "";
        let mut unknown = if word.too_long { rest.first().copied() } else { None };
        while let (Some(&first), None) = (rest.first(), unknown) {
            match self.longest(prefix, rest) {
                Some((id, len)) => {
                    tokens.push(id);
                    rest = rest.get(len..).unwrap_or_default();
                    prefix = INSIDE;
                }
                None => unknown = Some(first),
            }
        }
        if unknown.is_some() {
            tokens.take_back(before);
            tokens.unknown(unknown, Some(self.unknown));
        }
        *word = Word::default();
    }

    /// The longest piece of prefix and letters, and how many of the letters it takes.
    fn longest(&self, prefix: &str, letters: &[char]) -> Option<(u32, usize)> {
        let most = letters.len().min(self.pieces.longest);
        (1..=most).rev().find_map(|len| {
            let key = prefix.chars().chain(letters.iter().copied().take(len));
            Some((self.pieces.find(key)?, len))
        })
    }

    /// Words are joined by spaces, except before what English writes without: `.`, `'s` and their like.
    pub(super) fn decode<'o>(&self, ids: &[u32], out: &'o mut [u8]) -> Result<&'o str, Error> {
        const CLOSE: [&str; 9] = [".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"];
        let mut text = Text::new(out);
        let mut first = true;
        for &id in ids {
            let piece = self.pieces.expect(id)?;
            if self.pieces.specials.contains(id) {
                continue;
            }
            match piece.strip_prefix(INSIDE).filter(|_| !first) {
                Some(inside) => text.push(inside),
                None => {
                    if !first && !CLOSE.iter().any(|close| piece.starts_with(close)) {
                        text.push(" ");
                    }
                    text.push(piece);
                }
            }
            first = false;
        }
        text.finish()
    }
}

/// The word that is being read.
#[derive(Default)]
struct Word {
    letters: heapless::Vec<char, LONGEST_WORD>,
    /// Where the marks begin that are still being sorted.
    marks: usize,
    too_long: bool,
}

impl Word {
    /// Adds a letter, or puts a mark (of a class other than zero) in its place among the last marks.
    fn push(&mut self, c: char, order: u8) {
        // A word that is too long is unknown whatever its letters are.
        if self.letters.push(c).is_err() {
            self.too_long = true;
            return;
        }
        if order == 0 {
            self.close_marks();
            return;
        }
        let mut last = self.letters.get_mut(self.marks..).unwrap_or_default().iter_mut().rev();
        let Some(mut place) = last.next() else { return };
        for mark in last.take_while(|mark| class(**mark) > order) {
            core::mem::swap(mark, place);
            place = mark;
        }
    }

    fn close_marks(&mut self) {
        self.marks = self.letters.len();
    }
}
