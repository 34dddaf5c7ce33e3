//! Writes the tokenizer sections of an image.

use picoformer_core::tokenize::{ADD_BEGIN, ADD_END, CHARACTERS, LOWER, NONE, Specials, WORD_PIECE};

/// A tokenizer whose pieces are letters or names, each piece's id its place in the list.
///
/// `flags` is a sum of those in [`picoformer_core::tokenize`].
///
/// ```
/// use picoformer_core::tokenize::{ADD_END, LOWER, Specials, Tokenizer};
///
/// let specials = Specials { end: Some(0), ..Specials::default() };
/// let table = picoformer::vocab::characters(&["</s>", "a", "b"], LOWER | ADD_END, specials);
/// let mut tokens = [0; 4];
/// Tokenizer::from_bytes(&table)?.encode("BAB", &mut tokens)?;
/// assert_eq!(tokens, [2, 1, 2, 0]);
/// # Ok::<(), picoformer_core::error::Error>(())
/// ```
pub fn characters<S: AsRef<str>>(pieces: &[S], flags: u32, specials: Specials) -> Vec<u8> {
    section(CHARACTERS, pieces, flags, specials)
}

/// BERT's tokenizer of a `vocab.txt`, a piece to a line; `lower` for the uncased models.
///
/// The special tokens are found by their names, `[PAD]`, `[CLS]`, `[SEP]`,
/// `[UNK]` and `[MASK]`. Encoding adds `[CLS]` and `[SEP]` if the list has them.
///
/// ```
/// use picoformer_core::tokenize::Tokenizer;
///
/// let table = picoformer::vocab::wordpiece(&["[UNK]", "play", "##ing"], true);
/// let mut tokens = [0; 3];
/// Tokenizer::from_bytes(&table)?.encode("Playing chess", &mut tokens)?;
/// assert_eq!(tokens, [1, 2, 0]);
/// # Ok::<(), picoformer_core::error::Error>(())
/// ```
pub fn wordpiece<S: AsRef<str>>(lines: &[S], lower: bool) -> Vec<u8> {
    let id = |name| lines.iter().rposition(|line| line.as_ref() == name).map(|at| at as u32);
    let specials = Specials {
        pad: id("[PAD]"),
        begin: id("[CLS]"),
        end: id("[SEP]"),
        unknown: id("[UNK]"),
        mask: id("[MASK]"),
    };
    let flag = |on, flag| if on { flag } else { 0 };
    let flags = flag(lower, LOWER)
        | flag(specials.begin.is_some(), ADD_BEGIN)
        | flag(specials.end.is_some(), ADD_END);
    section(WORD_PIECE, lines, flags, specials)
}

/// The bytes that [`Tokenizer::from_bytes`](picoformer_core::tokenize::Tokenizer::from_bytes)
/// reads. It also checks them, so there is no check here.
fn section<S: AsRef<str>>(kind: u32, pieces: &[S], flags: u32, specials: Specials) -> Vec<u8> {
    let mut numbers = vec![kind, pieces.len() as u32, flags];
    numbers.extend(specials.all().map(|id| id.unwrap_or(NONE)));
    let mut end = 0;
    numbers.push(end);
    for piece in pieces {
        end += piece.as_ref().len() as u32;
        numbers.push(end);
    }
    let mut index: Vec<u32> = (0..pieces.len() as u32).collect();
    // A stable sort leaves equal pieces in the order of their ids.
    index.sort_by_key(|&id| pieces[id as usize].as_ref());
    numbers.extend(index);
    let text = pieces.iter().flat_map(|piece| piece.as_ref().bytes());
    numbers.iter().flat_map(|number| number.to_le_bytes()).chain(text).collect()
}
