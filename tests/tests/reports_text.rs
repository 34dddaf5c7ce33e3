//! Faults that users of other engines reported, each as a test of ours: tokenizers and model
//! files. (`reports_kernels.rs` and `reports_models.rs` have the others.)

use picoformer::source::Source;
use picoformer::{convert, vocab};
use picoformer_core::tokenize::{SPACED, Specials, Tokenizer};
use picoformer_core::{Error, Image, Line, Plan, image};
use picoformer_tests::small;

const PIECES: [&str; 15] = [
    "[UNK]", "[CLS]", "[SEP]", "kanto", "lus", "##hi", "un", "##want", "##ed", "a", "中", "文", "na", "##p",
    "!",
];

/// The pieces of a text, without those around it.
fn pieces(text: &str, lower: bool) -> Vec<&'static str> {
    let table = vocab::wordpiece(&PIECES, lower);
    let mut ids = [0; 256];
    let encoded = Tokenizer::from_bytes(&table).unwrap().encode(text, &mut ids).unwrap();
    ids[1..encoded.len - 1].iter().map(|id| PIECES[*id as usize]).collect()
}

// ggml-org/llama.cpp #5496: letters with accents were dropped with them.
#[test]
fn accents_are_taken_off_their_letters_and_the_letters_stay() {
    assert_eq!(pieces("Kantō", true), ["kanto"]);
    assert_eq!(pieces("lǜshi", true), ["lus", "##hi"], "two accents on one letter");
    assert_eq!(pieces("Kanto\u{304}", true), ["kanto"], "the accent as a character of its own");
    // huggingface/tokenizers #399: where accents matter, they are not taken off.
    assert_eq!(pieces("kantō", false), ["[UNK]"]);
}

// google-research/bert #763: a word of which some part has no piece is unknown as a whole.
#[test]
fn a_word_with_one_unknown_part_is_one_unknown_word() {
    assert_eq!(pieces("unwanted", true), ["un", "##want", "##ed"]);
    assert_eq!(pieces("unwantedX a", true), ["[UNK]", "a"]);
    // tensorflow/text #73: punctuation is a word of its own, so it does not make its neighbours unknown.
    assert_eq!(pieces("nap!😀", true), ["na", "##p", "!", "[UNK]"]);
}

// huggingface/tokenizers #576: characters of no meaning are removed, and are not unknown words.
#[test]
fn private_and_control_characters_leave_no_trace() {
    assert_eq!(pieces("\u{f059} una\u{0}p\u{fffd}", true), pieces("unap", true));
    assert_eq!(pieces("\u{f059}", true), [""; 0]);
}

// google/sentencepiece #854: two unknown words beside each other became one token.
#[test]
fn unknown_words_beside_each_other_stay_as_many() {
    assert_eq!(pieces("xyz xyz  xyz", true), ["[UNK]"; 3]);
    let specials = Specials { unknown: Some(0), ..Specials::default() };
    let table = vocab::characters(&["<unk>", "AE1"], SPACED, specials);
    let mut ids = [9; 4];
    let encoded = Tokenizer::from_bytes(&table).unwrap().encode("B B AE1", &mut ids).unwrap();
    assert_eq!((&ids[..encoded.len], encoded.unknown), (&[0, 0, 1][..], 2));
}

// huggingface/transformers #3809: an empty text was an index out of range.
#[test]
fn an_empty_text_is_its_begin_and_end() {
    for text in ["", " ", "\t\n", "\u{301}"] {
        assert_eq!(pieces(text, true), [""; 0], "{text:?}");
    }
}

// openai/tiktoken #47, google/sentencepiece #614 and #798, keras-team/keras-hub #1036: a token
// outside of the vocabulary was a panic, an exception, or some text.
#[test]
fn a_token_outside_of_the_vocabulary_is_an_error_that_names_it() {
    let table = vocab::wordpiece(&PIECES, true);
    let tokenizer = Tokenizer::from_bytes(&table).unwrap();
    for token in [15, 16, 1 << 31, u32::MAX] {
        assert_eq!(tokenizer.decode(&[9, token], &mut [0; 64]), Err(Error::Token { token, vocab: 15 }));
        assert_eq!(tokenizer.token(token), None);
    }
}

fn image() -> (Vec<Line>, usize) {
    let config = picoformer_core::Config { d_model: 4, heads: 1, d_ff: 2, ..small::PAPER };
    let blob = small::weights(&Plan::new(config).unwrap(), 1);
    let bytes = convert::image(&config, "small", &blob, &[], &[]);
    let mut lines = vec![Line::ZERO; bytes.len().div_ceil(64) + 1];
    Line::bytes_mut(&mut lines)[..bytes.len()].copy_from_slice(&bytes);
    (lines, bytes.len())
}

// ggml-org/llama.cpp #15711, #18674 and #27203: products of dimensions wrapped around, and a
// tensor larger than the file was believed.
#[test]
fn dimensions_whose_product_wraps_are_refused() {
    let (mut lines, length) = image();
    // d_model, heads, d_ff, layers, vocabularies and contexts, in turn, and all.
    for words in [1..2, 3..4, 4..5, 6..7, 7..8, 1..10] {
        for value in [1 << 16, 1 << 24, (1 << 24) + 1, u32::MAX] {
            let before = lines.clone();
            for word in words.clone() {
                let at = 56 + 4 * word;
                Line::bytes_mut(&mut lines)[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
            }
            let parsed = Image::parse(&Line::bytes(&lines)[..length]);
            assert!(matches!(parsed, Err(Error::Config(_) | Error::Image(_))), "{words:?} = {value}");
            lines = before;
        }
    }
}

// google/flatbuffers #8207, tensorflow/tensorflow #39661: a model at an odd address was a fault,
// or wrong numbers.
#[test]
fn an_image_at_an_odd_address_is_refused() {
    let (mut lines, length) = image();
    assert!(Image::parse(&Line::bytes(&lines)[..length]).is_ok());
    let bytes = Line::bytes_mut(&mut lines);
    bytes.copy_within(..length, 1);
    assert!(matches!(Image::parse(&bytes[1..=length]), Err(Error::Image(_))));
}

// ggml-org/llama.cpp #25378: a number of dimensions was believed, and memory taken for them.
#[test]
fn a_weight_file_that_claims_more_than_it_has_is_refused_without_taking_memory() {
    let folder = std::env::temp_dir().join(format!("picoformer-reports-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("weights");
    for header in [
        r#"{"w":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8]}}"#,
        r#"{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}"#,
        r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,18446744073709551615]}}"#,
    ] {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.bytes());
        bytes.extend([0; 8]);
        std::fs::write(&path, bytes).unwrap();
        assert!(Source::open(&path).is_err(), "{header}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

// ggml-org/llama.cpp #14595: the sum of the parts' sizes wrapped around.
#[test]
fn parts_whose_sizes_wrap_in_sum_are_refused() {
    let (mut lines, length) = image();
    for at in [32, 40, 48] {
        for size in [u64::MAX, u64::MAX - 63, u64::MAX - image::HEADER as u64, 1 << 63] {
            let before = lines.clone();
            Line::bytes_mut(&mut lines)[at..at + 8].copy_from_slice(&size.to_le_bytes());
            assert!(matches!(Image::parse(&Line::bytes(&lines)[..length]), Err(Error::Image(_))));
            lines = before;
        }
    }
}
