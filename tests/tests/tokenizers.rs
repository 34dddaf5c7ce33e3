//! The tokenizers' own promises: letters, phonemes and pieces of words, and no bytes or text that make them fail.

use picoformer::vocab;
use picoformer_core::error::Error;
use picoformer_core::tokenize::{
    ADD_BEGIN, ADD_END, BY_WORD, Encoded, LOWER, SPACED, Specials, Tokenizer, Unit, words,
};
use proptest::prelude::*;

fn encode(tokenizer: &Tokenizer<'_>, text: &str) -> (Vec<u32>, Encoded) {
    // No character gives more tokens than it has bytes; two more stand at the ends.
    let mut ids = vec![0; text.len() + 2];
    let encoded = tokenizer.encode(text, &mut ids).unwrap();
    ids.truncate(encoded.len);
    (ids, encoded)
}

fn decode(tokenizer: &Tokenizer<'_>, ids: &[u32]) -> String {
    let need = match tokenizer.decode(ids, &mut []) {
        Ok(nothing) => return nothing.into(),
        Err(Error::Buffer { need }) => need,
        Err(other) => panic!("{other}"),
    };
    tokenizer.decode(ids, &mut vec![0; need]).unwrap().into()
}

fn spelling() -> Vec<u8> {
    let mut pieces = vec!["<pad>".to_string(), "<bos>".into(), "<eos>".into(), "'".into()];
    pieces.extend(('a'..='z').map(String::from));
    let specials = Specials { pad: Some(0), begin: Some(1), end: Some(2), ..Specials::default() };
    vocab::characters(&pieces, LOWER | ADD_END | BY_WORD, specials)
}

fn phonemes() -> Vec<u8> {
    let specials = Specials { pad: Some(0), begin: Some(1), end: Some(2), ..Specials::default() };
    vocab::characters(&["<pad>", "<bos>", "<eos>", "T", "R", "AE0", "N"], SPACED, specials)
}

fn russian() -> Vec<u8> {
    let specials = Specials { pad: Some(0), begin: Some(1), end: Some(2), unknown: Some(3), mask: None };
    vocab::characters(
        &["<pad>", "<s>", "</s>", "<unk>", " ", "м", "и", "р", "<", "s", ">"],
        ADD_BEGIN | ADD_END,
        specials,
    )
}

fn small_bert() -> Vec<u8> {
    let lines = [
        "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "un", "##aff", "##able", "a", ".", "中", "it", "'",
        "##'s",
    ];
    vocab::wordpiece(&lines, true)
}

#[test]
fn spelling_is_lower_cased_and_ends_but_does_not_begin() {
    let table = spelling();
    let tokenizer = Tokenizer::from_bytes(&table).unwrap();
    assert_eq!(encode(&tokenizer, "Don’t").0, [7, 18, 17, 3, 23, 2]);
    assert_eq!(tokenizer.unit(), Unit::Word);
    assert_eq!((tokenizer.vocab(), tokenizer.token(29), tokenizer.token(30)), (30, Some("z"), None));
}

#[test]
fn a_letter_without_a_token_is_left_out_and_counted() {
    let table = spelling();
    let (ids, encoded) = encode(&Tokenizer::from_bytes(&table).unwrap(), "çaÉb");
    assert_eq!(ids, [4, 5, 2]);
    assert_eq!(encoded, Encoded { len: 3, unknown: 2, first_unknown: Some('ç') });
}

#[test]
fn phonemes_are_joined_and_parted_by_spaces() {
    let table = phonemes();
    let tokenizer = Tokenizer::from_bytes(&table).unwrap();
    assert_eq!(decode(&tokenizer, &[1, 3, 4, 5, 6, 2, 0]), "T R AE0 N");
    let (ids, encoded) = encode(&tokenizer, "T R  ZZ AE0 N <pad>");
    assert_eq!(ids, [3, 4, 5, 6]);
    assert_eq!((encoded.unknown, encoded.first_unknown), (2, Some('Z')));
}

#[test]
fn the_name_of_a_special_token_is_only_letters_to_a_tokenizer_of_letters() {
    let table = russian();
    let tokenizer = Tokenizer::from_bytes(&table).unwrap();
    assert_eq!(encode(&tokenizer, "мир <s>М").0, [1, 5, 6, 7, 4, 8, 9, 10, 3, 2]);
    assert_eq!(decode(&tokenizer, &[1, 5, 6, 7, 3, 2]), "мир");
}

#[test]
fn the_longest_piece_wins() {
    let table = vocab::characters(&["a", "ab", "abc", "b"], 0, Specials::default());
    assert_eq!(encode(&Tokenizer::from_bytes(&table).unwrap(), "abcababb").0, [2, 1, 1, 3]);
}

#[test]
fn of_equal_pieces_the_last_is_meant() {
    let table = vocab::characters(&["a", "b", "a", "a", "b"], 0, Specials::default());
    assert_eq!(encode(&Tokenizer::from_bytes(&table).unwrap(), "ab").0, [3, 4]);
}

#[test]
fn a_text_falls_into_words_of_letters_and_apostrophes() {
    let found: Vec<_> = words("L'été, ''rock 'n' roll''—3rd день's ' ’").collect();
    assert_eq!(found, ["L'été", "'rock", "'n'", "roll'", "rd", "день's"]);
    assert_eq!(words("").chain(words("12 '' ...")).count(), 0);
}

#[test]
fn an_unknown_word_is_counted_once_and_names_its_letter() {
    let table = small_bert();
    let tokenizer = Tokenizer::from_bytes(&table).unwrap();
    let (ids, encoded) = encode(&tokenizer, "Unaffable unzable q中a [UNK]");
    assert_eq!(ids, [2, 5, 6, 7, 1, 1, 10, 8, 1, 3]);
    assert_eq!((encoded.unknown, encoded.first_unknown), (2, Some('z')));
    assert_eq!(decode(&tokenizer, &[2, 11, 13, 8, 9, 3]), "it's a.");
}

#[test]
fn a_buffer_that_is_too_small_is_told_the_exact_size() {
    for table in [spelling(), phonemes(), russian(), small_bert()] {
        let tokenizer = Tokenizer::from_bytes(&table).unwrap();
        for text in ["", "unaffable мир T R", "unaffablezzz a."] {
            let (ids, encoded) = encode(&tokenizer, text);
            for room in 0..ids.len() {
                assert_eq!(
                    tokenizer.encode(text, &mut vec![0; room]),
                    Err(Error::Buffer { need: ids.len() })
                );
            }
            assert_eq!(tokenizer.encode(text, &mut vec![0; ids.len()]), Ok(encoded));
            let back = decode(&tokenizer, &ids);
            for room in 0..back.len() {
                assert_eq!(
                    tokenizer.decode(&ids, &mut vec![0; room]),
                    Err(Error::Buffer { need: back.len() })
                );
            }
        }
    }
}

#[test]
fn a_token_outside_of_the_vocabulary_is_an_error() {
    for (table, vocab) in [(phonemes(), 7), (small_bert(), 14)] {
        let tokenizer = Tokenizer::from_bytes(&table).unwrap();
        for token in [vocab, u32::MAX - 1, u32::MAX] {
            assert_eq!(tokenizer.decode(&[token], &mut [0; 64]), Err(Error::Token { token, vocab }));
            assert_eq!(tokenizer.token(token), None);
        }
    }
}

#[test]
fn every_truncation_of_a_table_is_refused() {
    for table in [spelling(), phonemes(), russian(), small_bert()] {
        for len in 0..table.len() {
            assert!(matches!(Tokenizer::from_bytes(&table[..len]), Err(Error::Image(_))), "{len}");
        }
    }
}

#[test]
fn a_table_that_contradicts_itself_is_refused() {
    // Numbers before the offsets: kind, pieces, flags, pad, begin, end, unknown, mask. Then 8 offsets, 7 ids.
    let sorted = [16, 17, 18, 19, 20, 21, 22];
    let table = phonemes();
    let number = |at: usize| u32::from_le_bytes(table[at * 4..][..4].try_into().unwrap());
    let mut wrong = vec![(0, 3), (2, 32), (2, ADD_BEGIN | 64), (3, 7), (8, 1), (9, 200), (15, 3)];
    wrong.extend(sorted.windows(2).map(|pair| (pair[0], number(pair[1]))));
    wrong.extend(sorted.map(|at| (at, 7)));
    for (at, value) in wrong {
        let mut changed = table.clone();
        changed[at * 4..][..4].copy_from_slice(&value.to_le_bytes());
        assert!(matches!(Tokenizer::from_bytes(&changed), Err(Error::Image(_))), "{at} {value}");
    }
    let long = vocab::characters(&["a".repeat(256)], 0, Specials::default());
    assert!(matches!(Tokenizer::from_bytes(&long), Err(Error::Image(_))));
}

/// Uses whatever the bytes give; that is the whole test.
fn survive(bytes: &[u8], text: &str, ids: &[u32]) {
    if let Ok(tokenizer) = Tokenizer::from_bytes(bytes) {
        let _ = tokenizer.encode(text, &mut [0; 16]);
        let _ = tokenizer.decode(ids, &mut [0; 16]);
    }
}

#[test]
fn every_changed_byte_of_a_table_is_survived() {
    for table in [spelling(), phonemes(), russian(), small_bert()] {
        for at in 0..table.len() {
            for value in [0, 1, 3, 0x7F, 0x80, 0xFF] {
                let mut changed = table.clone();
                changed[at] = value;
                survive(&changed, "Unaffable мир [MASK]", &[0, 1, 5, 13, 200]);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_text_and_tokens_are_survived(
        bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0u32..4, count in 0u32..12,
        text in any::<String>(), ids in prop::collection::vec(any::<u32>(), 0..20),
    ) {
        survive(&bytes, &text, &ids);
        let headed: Vec<u8> = kind.to_le_bytes().into_iter().chain(count.to_le_bytes()).chain(bytes).collect();
        survive(&headed, &text, &ids);
        for table in [spelling(), phonemes(), russian(), small_bert()] {
            survive(&table, &text, &ids);
        }
    }
}
