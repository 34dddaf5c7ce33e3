//! BERT's tokens, id for id: compared with recorded ids and with the `tokenizers` library.

use std::path::PathBuf;

use picoformer::vocab;
use picoformer_core::error::Error;
use picoformer_core::tokenize::Tokenizer;
use proptest::prelude::*;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::BertNormalizer;

/// A file that `tests/fetch-models.sh` brings; without it the test says so and passes.
fn fetched(name: &str) -> Option<String> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../models").join(name);
    let text = std::fs::read_to_string(&path);
    if text.is_err() {
        eprintln!("SKIPPED, RUN tests/fetch-models.sh: there is no {}", path.display());
    }
    text.ok()
}

/// BERT's tokenizer, over a table that is leaked for brevity, and the reference implementation of the same model.
struct Bert {
    tokenizer: Tokenizer<'static>,
    oracle: tokenizers::Tokenizer,
}

fn checked(table: Vec<u8>) -> Tokenizer<'static> {
    Tokenizer::from_bytes(table.leak()).unwrap()
}

impl Bert {
    fn load() -> Option<Self> {
        let (lines, json) = (fetched("minilm/vocab.txt")?, fetched("minilm/tokenizer.json")?);
        let table = vocab::wordpiece(&lines.lines().collect::<Vec<_>>(), true);
        let mut oracle: tokenizers::Tokenizer = json.parse().unwrap();
        oracle.with_truncation(None).unwrap().with_padding(None);
        Some(Self { tokenizer: checked(table), oracle })
    }

    /// A vocabulary in which no character is unknown, so that ids show every character and its place.
    fn of_all_characters() -> Self {
        // Planes without characters are sampled.
        let all = ('\0'..=char::MAX)
            .filter(|&c| matches!(u32::from(c) >> 16, 0..=3 | 14) || u32::from(c) % 251 < 2);
        let letters = all.filter(|c| !c.is_whitespace()).flat_map(|c| [c.to_string(), format!("##{c}")]);
        let lines: Vec<String> = ["[UNK]".to_string()].into_iter().chain(letters).collect();
        let pieces = WordPiece::read_bytes(lines.join("\n").as_bytes()).unwrap();
        let model = WordPiece::builder().vocab(pieces).unk_token("[UNK]".into()).build().unwrap();
        let mut oracle = tokenizers::Tokenizer::new(model);
        oracle.with_normalizer(Some(BertNormalizer::default()));
        oracle.with_pre_tokenizer(Some(tokenizers::pre_tokenizers::bert::BertPreTokenizer));
        oracle.with_decoder(Some(tokenizers::decoders::wordpiece::WordPiece::default()));
        oracle.add_special_tokens(&[tokenizers::AddedToken::from("[UNK]", true)]);
        Self { tokenizer: checked(vocab::wordpiece(&lines, true)), oracle }
    }

    /// Compares the ids of one text, and the text that they give back.
    fn assert_same(&self, text: &str) {
        let ids = encode(&self.tokenizer, text);
        let expected = self.oracle.encode_fast(text, true).unwrap();
        assert_eq!(ids, expected.get_ids(), "{text:?}");
        assert_eq!(decode(&self.tokenizer, &ids), self.oracle.decode(&ids, true).unwrap(), "{text:?}");
    }
}

fn encode(tokenizer: &Tokenizer<'_>, text: &str) -> Vec<u32> {
    // No character gives more tokens than it has bytes; two more stand at the ends.
    let mut ids = vec![0; text.len() + 2];
    let encoded = tokenizer.encode(text, &mut ids).unwrap();
    ids.truncate(encoded.len);
    ids
}

fn decode(tokenizer: &Tokenizer<'_>, ids: &[u32]) -> String {
    let need = match tokenizer.decode(ids, &mut []) {
        Ok(nothing) => return nothing.into(),
        Err(Error::Buffer { need }) => need,
        Err(other) => panic!("{other}"),
    };
    tokenizer.decode(ids, &mut vec![0; need]).unwrap().into()
}

#[test]
fn berts_recorded_ids_are_met() {
    let Some(bert) = Bert::load() else { return };
    let vectors: serde_json::Value =
        serde_json::from_str(include_str!("../fixtures/bert_uncased_vectors.json")).unwrap();
    let tokenizer = bert.tokenizer;
    for vector in vectors.as_array().unwrap() {
        let text = vector["text"].as_str().unwrap();
        let ids = encode(&tokenizer, text);
        assert_eq!(serde_json::json!(ids), vector["ids"], "{text:?}");
        let pieces: Vec<_> = ids.iter().map(|&id| tokenizer.token(id).unwrap()).collect();
        assert_eq!(serde_json::json!(pieces), vector["tokens"], "{text:?}");
    }
}

#[test]
fn real_text_of_a_hundred_languages_is_as_the_reference_has_it() {
    let (Some(bert), Some(text)) = (Bert::load(), fetched("text/lines.txt")) else { return };
    assert!(text.lines().count() >= 10_000, "models/text/lines.txt is too short");
    text.lines().for_each(|line| bert.assert_same(line));
}

#[test]
fn special_tokens_in_a_text_are_as_the_reference_has_them() {
    let Some(bert) = Bert::load() else { return };
    for text in [
        "[MASK]",
        "a[MASK]b",
        "[CLS][SEP] [PAD]x[UNK]",
        "[mask] [[MASK]]",
        "[MA SK] [MASK",
        "é[SEP]\u{301}",
        "[MA\u{ad}SK]",
    ] {
        bert.assert_same(text);
    }
    for len in [99, 100, 101, 102] {
        for letter in ["a", "é", "한", "क्षि", "a\u{301}"] {
            bert.assert_same(&letter.repeat(len));
        }
    }
}

#[test]
fn every_character_is_as_the_reference_has_it() {
    let bert = Bert::of_all_characters();
    let all: Vec<char> = ('\0'..=char::MAX).collect();
    for chars in all.chunks(32) {
        let text: String = chars.iter().map(|c| format!("{c} a{c}b ")).collect();
        bert.assert_same(&text);
    }
}

#[test]
fn any_tokens_decode_as_the_reference_has_it() {
    let Some(bert) = Bert::load() else { return };
    let tokenizer = bert.tokenizer;
    let all: Vec<u32> = (0..tokenizer.vocab() as u32).collect();
    for step in [1, 7, 4099] {
        let mixed: Vec<u32> = all.iter().map(|id| id * step % tokenizer.vocab() as u32).collect();
        for ids in mixed.chunks(13) {
            assert_eq!(decode(&tokenizer, ids), bert.oracle.decode(ids, true).unwrap(), "{ids:?}");
        }
    }
}

#[test]
fn any_mixture_of_marks_and_letters_is_as_the_reference_has_it() {
    let bert = Bert::of_all_characters();
    let mark = prop_oneof![
        proptest::char::range('\u{300}', '\u{36f}'),
        proptest::char::range('\u{8d4}', '\u{903}'),
        proptest::char::range('\u{1d15e}', '\u{1d172}'),
        proptest::char::range('\u{ac00}', '\u{d7a3}'),
        prop::sample::select("\u{1b44}\u{1baa}\u{1bf2}\u{1dfb}\u{302e}\u{302f}\u{a953}\u{cca}\u{ccb}\u{344}\u{f73}\u{34f}\u{941}\u{ad}aÉ 中.İǅ".chars().collect::<Vec<_>>()),
        any::<char>(),
    ];
    let text = prop::collection::vec(mark, 0..24).prop_map(String::from_iter);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(4096));
    runner
        .run(&text, |text| {
            bert.assert_same(&text);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_cased_model_keeps_case_and_accents_as_the_reference_does() {
    let (Some(bert), Some(lines), Some(text)) =
        (Bert::load(), fetched("minilm/vocab.txt"), fetched("text/lines.txt"))
    else {
        return;
    };
    let table = vocab::wordpiece(&lines.lines().collect::<Vec<_>>(), false);
    let tokenizer = checked(table);
    let mut oracle = bert.oracle.clone();
    oracle.with_normalizer(Some(BertNormalizer::new(true, true, None, false)));
    for line in text.lines().take(10_000) {
        assert_eq!(encode(&tokenizer, line), oracle.encode_fast(line, true).unwrap().get_ids(), "{line:?}");
    }
}
