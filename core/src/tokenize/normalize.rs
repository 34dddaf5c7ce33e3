//! BERT's view of a character: what is removed, what separates, what is left without accents.

use super::unicode_tables::{BARRIERS, BASES, CLASSES, MARKS, PUNCTUATION, REMOVED, SEVERAL};

/// What a character contributes to a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stripped {
    /// These characters, up to the first NUL.
    Letters([char; 3]),
    /// Nothing.
    Mark,
    /// Nothing, but marks before it are not sorted among those after it.
    Barrier,
}

/// Whether cleaning removes it: controls, formats, private use and the replacement character.
pub(super) fn is_removed(c: char) -> bool {
    !matches!(c, ' '..='~' | '\t' | '\n' | '\r') && within(REMOVED, c)
}

/// Whether it is an ideograph, which is a word of its own.
pub(super) fn is_ideograph(c: char) -> bool {
    matches!(u32::from(c),
        0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x2A6DF
        | 0x2A700..=0x2B81F | 0x2B920..=0x2CEAF | 0x2F800..=0x2FA1F)
}

/// Whether it is a word of its own because it is punctuation; in ASCII every symbol is.
pub(super) fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || !c.is_ascii() && within(PUNCTUATION, c)
}

/// The character's canonical decomposition without its accents.
pub(super) fn strip(c: char) -> Stripped {
    if c.is_ascii() {
        return Stripped::Letters([c, '\0', '\0']);
    }
    if let Some(jamo) = hangul(c) {
        return Stripped::Letters(jamo);
    }
    if within(MARKS, c) {
        return Stripped::Mark;
    }
    if within(BARRIERS, c) {
        return Stripped::Barrier;
    }
    let several = SEVERAL.binary_search_by_key(&c, |entry| entry.0).ok().and_then(|at| SEVERAL.get(at));
    Stripped::Letters(several.map_or_else(|| [base(c), '\0', '\0'], |entry| entry.1))
}

/// By what the marks that follow one letter are sorted; zero is no mark.
pub(super) fn class(c: char) -> u8 {
    let at = CLASSES.binary_search_by_key(&u32::from(c), |entry| entry >> 8).ok();
    // The class is the low byte.
    at.and_then(|at| CLASSES.get(at)).map_or(0, |&entry| entry as u8)
}

/// The two halves of a character's number: its plane and its place there.
fn halves(c: char) -> (u32, u32) {
    (u32::from(c) >> 16, u32::from(c) & 0xFFFF)
}

fn within(table: &[(u32, &[u32])], c: char) -> bool {
    let (plane, place) = halves(c);
    let Some((_, ranges)) = table.iter().find(|entry| entry.0 == plane) else { return false };
    let after = ranges.partition_point(|range| range >> 16 <= place);
    let range = after.checked_sub(1).and_then(|at| ranges.get(at));
    range.is_some_and(|range| place <= range & 0xFFFF)
}

/// The one character that is left, which is mostly the character itself.
fn base(c: char) -> char {
    let (plane, place) = halves(c);
    let mut tables = BASES.iter().filter(|table| table.0 == plane);
    let found = tables.find_map(|(_, plane, pairs)| {
        let at = pairs.binary_search_by_key(&place, |pair| pair >> 16).ok()?;
        char::from_u32(plane << 16 | pairs.get(at)? & 0xFFFF)
    });
    found.unwrap_or(c)
}

/// A Korean syllable's letters, which the standard lays out as a number in mixed base.
fn hangul(c: char) -> Option<[char; 3]> {
    const VOWELS: u32 = 21;
    const FINALS: u32 = 28;
    let syllable = u32::from(c).checked_sub(0xAC00).filter(|&n| n < 19 * VOWELS * FINALS)?;
    let initial = char::from_u32(0x1100 + syllable / (VOWELS * FINALS))?;
    let vowel = char::from_u32(0x1161 + syllable / FINALS % VOWELS)?;
    let last = match syllable % FINALS {
        0 => '\0',
        n => char::from_u32(0x11A7 + n)?,
    };
    Some([initial, vowel, last])
}
