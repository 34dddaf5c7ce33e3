//! Tokens that are letters, or short strings such as the names of phonemes.

use super::pieces::{BY_WORD, LOWER, Pieces, SPACED};
use super::sinks::{Text, Tokens};
use super::{Encoded, Unit, is_apostrophe};
use crate::error::Error;

/// Takes the longest piece at each place, or whole pieces between spaces
/// where the table says that pieces are spaced.
///
/// What has no piece becomes the unknown token, or is left out where the
/// vocabulary has none; either way it is counted.
#[derive(Clone, Copy, Debug)]
pub struct Characters<'t> {
    pub(super) pieces: Pieces<'t>,
}

impl Characters<'_> {
    pub(super) fn unit(&self) -> Unit {
        if self.pieces.has(BY_WORD) { Unit::Word } else { Unit::Text }
    }

    pub(super) fn encode(&self, text: &str, out: &mut [u32]) -> Result<Encoded, Error> {
        let mut tokens = Tokens::new(out);
        if let Some(id) = self.pieces.first() {
            tokens.push(id);
        }
        if self.pieces.has(SPACED) {
            for name in text.split(' ').filter(|name| !name.is_empty()) {
                self.encode_name(name, &mut tokens);
            }
        } else {
            self.encode_run(text, &mut tokens);
        }
        if let Some(id) = self.pieces.last() {
            tokens.push(id);
        }
        tokens.finish()
    }

    fn encode_name(&self, name: &str, tokens: &mut Tokens<'_>) {
        match self.pieces.find(self.prepared(name)) {
            Some(id) if !self.pieces.specials.contains(id) => tokens.push(id),
            _ => tokens.unknown(name.chars().next(), self.pieces.specials.unknown),
        }
    }

    fn encode_run(&self, text: &str, tokens: &mut Tokens<'_>) {
        let mut rest = self.prepared(text);
        loop {
            let start = rest.clone();
            let Some(first) = rest.next() else { break };
            match self.pieces.find_longest(start, usize::MAX) {
                Some((id, len)) => {
                    tokens.push(id);
                    // One was taken above.
                    rest.by_ref().take(len - 1).for_each(drop);
                }
                None => tokens.unknown(Some(first), self.pieces.specials.unknown),
            }
        }
    }

    /// The characters as they stand in the vocabulary.
    fn prepared<'s>(&self, text: &'s str) -> impl Iterator<Item = char> + Clone + use<'s> {
        let (lower, by_word) = (self.pieces.has(LOWER), self.pieces.has(BY_WORD));
        text.chars().flat_map(move |c| {
            let c = if by_word && is_apostrophe(c) { '\'' } else { c };
            // Most letters lower-case to one; those that do not are why this is not a map.
            let (same, lowered) = if lower { (None, Some(c.to_lowercase())) } else { (Some(c), None) };
            same.into_iter().chain(lowered.into_iter().flatten())
        })
    }

    pub(super) fn decode<'o>(&self, ids: &[u32], out: &'o mut [u8]) -> Result<&'o str, Error> {
        let mut text = Text::new(out);
        let mut separator = "";
        for &id in ids {
            let piece = self.pieces.expect(id)?;
            if !self.pieces.specials.contains(id) {
                text.push(separator);
                text.push(piece);
                separator = if self.pieces.has(SPACED) { " " } else { "" };
            }
        }
        text.finish()
    }
}
