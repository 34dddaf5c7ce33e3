//! Tokenizers: any bytes as a table, any text to encode, any ids to decode.

use picoformer::vocab;
use picoformer_core::Error;
use picoformer_core::tokenize::{ADD_BEGIN, ADD_END, BY_WORD, LOWER, SPACED, Specials, Tokenizer, words};
use std::sync::LazyLock;

/// Sound tables of every kind, so that a text need not come with one.
static TABLES: LazyLock<[Vec<u8>; 4]> = LazyLock::new(|| {
    let letters =
        ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "c", "ab", "abc", "'", "ß", "é", "e\u{301}", "中"];
    let specials =
        Specials { pad: Some(0), begin: Some(1), end: Some(2), unknown: Some(3), ..Specials::default() };
    let none = Specials { end: Some(2), ..Specials::default() };
    let pieces = [
        "[PAD]",
        "[UNK]",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "a",
        "##a",
        "ab",
        "##b",
        "e",
        "##e",
        "中",
        "##中",
        ",",
        "\u{301}",
        "##\u{301}",
        "1",
    ];
    [
        vocab::characters(&letters, LOWER | ADD_BEGIN | ADD_END | BY_WORD, specials),
        vocab::characters(&letters, SPACED, none),
        vocab::wordpiece(&pieces, true),
        vocab::wordpiece(&pieces, false),
    ]
});

/// Two bytes tell the length of a table; what follows it is text.
pub fn tokenizers(bytes: &[u8]) {
    let Some((length, rest)) = bytes.split_first_chunk() else { return };
    let (table, text) = rest.split_at(usize::from(u16::from_le_bytes(*length)).min(rest.len()));
    let lossy = String::from_utf8_lossy(text);
    for table in TABLES.iter().map(Vec::as_slice).chain([table]) {
        let Ok(tokenizer) = Tokenizer::from_bytes(table) else { continue };
        check(&tokenizer, &lossy);
        // The same bytes as ids: far ones, and near ones.
        let far: Vec<u32> = text.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
        let near: Vec<u32> = text.iter().map(|b| u32::from(*b)).collect();
        for ids in [far, near] {
            decode(&tokenizer, &ids);
            assert!(
                ids.iter().all(|id| tokenizer.token(*id).is_some() == ((*id as usize) < tokenizer.vocab()))
            );
        }
    }
    for word in words(&lossy) {
        assert!(lossy.contains(word) && word.chars().any(|c| !matches!(c, '\'' | '’')));
    }
}

/// Encodes a text and decodes its tokens: a buffer of just the length that an error names does.
pub(crate) fn check(tokenizer: &Tokenizer<'_>, text: &str) {
    let need = match tokenizer.encode(text, &mut []) {
        Ok(encoded) => encoded.len,
        Err(Error::Buffer { need }) => need,
        Err(error) => panic!("{error}"),
    };
    let mut tokens = vec![u32::MAX; need];
    let encoded = tokenizer.encode(text, &mut tokens).expect("the length that was named");
    assert_eq!(encoded.len, need);
    assert_eq!(encoded.unknown == 0, encoded.first_unknown.is_none());
    assert!(tokens.iter().all(|token| (*token as usize) < tokenizer.vocab()));
    if need > 0 {
        let error = tokenizer.encode(text, &mut tokens[1..]);
        assert_eq!(error.map(|_| ()), Err(Error::Buffer { need }));
    }
    decode(tokenizer, &tokens);
}

fn decode(tokenizer: &Tokenizer<'_>, ids: &[u32]) {
    let need = match tokenizer.decode(ids, &mut []) {
        Ok(text) => text.len(),
        Err(Error::Buffer { need }) => need,
        Err(Error::Token { token, vocab }) => {
            assert!(ids.contains(&token) && token >= vocab && vocab as usize == tokenizer.vocab());
            return;
        }
        Err(error) => panic!("{error}"),
    };
    if need <= 1 << 20 {
        let mut text = vec![0; need];
        assert_eq!(tokenizer.decode(ids, &mut text).map(str::len), Ok(need));
    }
}
