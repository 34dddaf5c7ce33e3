//! Published models against PyTorch's results, on every backend. Those that are fetched
//! (`tests/fetch-models.sh`) are skipped loudly when absent.

use picoformer::families::Family;
use picoformer::{ModelFile, Runner};
use picoformer_core::config::Elements;
use picoformer_core::{Capacity, Cpu, Image, Line, Session};
use picoformer_tests::{downloaded, fixture};
use serde_json::Value;

fn json(name: &str) -> Value {
    serde_json::from_str(&std::fs::read_to_string(fixture(name)).unwrap()).unwrap()
}

fn floats(value: &Value) -> Vec<f32> {
    value.as_array().unwrap().iter().map(|x| x.as_f64().unwrap() as f32).collect()
}

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
}

#[track_caller]
fn assert_within(what: &str, found: &[f32], expected: &[f32], bound: f32) {
    for (i, (x, y)) in found.iter().zip(expected).enumerate() {
        assert!((x - y).abs() <= bound, "{what}[{i}]: {x} should be {y} within {bound:e}");
    }
}

/// A session of a model with room for `capacity`.
fn with_session(
    file: &ModelFile,
    capacity: Capacity,
    cpu: Cpu,
    f: impl FnOnce(&Image<'_>, &mut Session<'_, '_>),
) {
    let image = file.image().unwrap();
    let model = image.model().with_capacity(capacity).unwrap();
    let mut arena = vec![Line([f32::NAN; 16]); model.plan().arena()];
    f(&image, &mut model.session(&mut arena, cpu).unwrap());
}

fn one(source: usize) -> Capacity {
    Capacity { batch: 1, source, target: usize::MAX, chunk: 1 }
}

fn generate(session: &mut Session<'_, '_>) -> Vec<u32> {
    let mut tokens = Vec::new();
    assert!(session.generate(1000, |_, token| tokens.push(token)).unwrap(), "no end");
    tokens
}

fn minilm() -> Option<ModelFile> {
    let path = downloaded("minilm/model.safetensors")?;
    Some(ModelFile::from_bytes(&Family::Bert.convert(&path, Elements::F32).unwrap()).unwrap())
}

#[test]
fn minilm_gives_pytorchs_sentence_vectors_alone_and_to_the_same_bits_in_a_padded_batch() {
    let Some(file) = minilm() else { return };
    let reference = json("minilm_ref.json");
    let runs = reference["runs"].as_array().unwrap();
    let sources: Vec<Vec<u32>> = runs.iter().map(|run| ids(&run["ids"])).collect();
    let width = 16;
    let mut fused = Vec::new();
    for cpu in Cpu::all() {
        let mut alone = Vec::new();
        for (run, source) in runs.iter().zip(&sources) {
            let text = run["text"].as_str().unwrap();
            with_session(&file, one(source.len()), cpu, |image, session| {
                let mut tokens = [0; 32];
                let encoded = image.source_tokenizer().unwrap().encode(text, &mut tokens).unwrap();
                assert_eq!(&tokens[..encoded.len], source, "{text}");
                session.encode(&[source]).unwrap();
                let mut vector = vec![0.0; 384];
                session.embedding(0, &mut vector).unwrap();
                let what = format!("{text:?} on {}", cpu.name());
                assert_within(&what, &vector, &floats(&run["sentence_embedding"]), 2e-5);
                assert_within(&what, session.encoded(0).unwrap(), &floats(&run["last_tok0_8"]), 2e-5);
                alone.push(vector);
            });
        }
        let padded: Vec<u32> =
            sources.iter().flat_map(|s| s.iter().copied().chain([0; 16]).take(width)).collect();
        let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
        let batch = Capacity { batch: sources.len(), source: width, target: 0, chunk: 0 };
        with_session(&file, batch, cpu, |_, session| {
            session.encode_padded(&padded, width, &lengths).unwrap();
            for (i, alone) in alone.iter().enumerate() {
                let mut vector = vec![0.0; 384];
                session.embedding(i, &mut vector).unwrap();
                assert_eq!(&vector, alone, "padded, {i} on {}", cpu.name());
            }
            let ragged: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            session.encode(&ragged).unwrap();
            for (i, alone) in alone.iter().enumerate() {
                let mut vector = vec![0.0; 384];
                session.embedding(i, &mut vector).unwrap();
                assert_eq!(&vector, alone, "ragged, {i} on {}", cpu.name());
            }
        });
        if cpu.name() != "baseline" {
            fused.push(alone);
        }
    }
    assert!(fused.windows(2).all(|pair| pair[0] == pair[1]), "fused backends agree to the bit");
}

#[test]
fn ruaccent_gives_pytorchs_letters_unpadded_and_padded() {
    let Some(path) = downloaded("ruaccent/acc_model.pt") else { return };
    let file = ModelFile::from_bytes(&Family::Ruaccent.convert(&path, Elements::F32).unwrap()).unwrap();
    let reference = json("ruaccent_ref.json");
    for cpu in Cpu::all() {
        for run in reference.as_array().unwrap() {
            let (text, padded) = (run["input"].as_str().unwrap(), run["padded_to_256"].as_bool().unwrap());
            with_session(&file, one(256), cpu, |image, session| {
                let mut source = vec![0; 256];
                let length = image.source_tokenizer().unwrap().encode(text, &mut source).unwrap().len;
                if !padded {
                    assert_eq!(source[..length], ids(&run["src_ids"]));
                    source.truncate(length);
                }
                // Padding is attended to: the package that the weights come from does that.
                session.encode(&[&source]).unwrap();
                let what = format!("{text:?}, padded {padded}, on {}", cpu.name());
                let memory = session.encoded(0).unwrap();
                assert_within(&what, memory, &floats(&run["memory_row0_8"]), 1e-4);
                assert_within(&what, &memory[256..], &floats(&run["memory_row1_8"]), 1e-4);
                let logits = session.decode(&[&[1]]).unwrap().to_vec();
                assert_within(&what, &logits, &floats(&run["first_step_logits_8"]), 2e-4);
                session.restart(1).unwrap();
                let tokens = generate(session);
                assert!(run["min_logit_gap"].as_f64().unwrap() >= 0.1);
                let expected = ids(&run["out_ids"]);
                assert_eq!(tokens, expected[1..expected.len() - 1], "{what}");
                let mut bytes = [0; 1024];
                let found = image.target_tokenizer().unwrap().decode(&tokens, &mut bytes).unwrap();
                assert_eq!(found, run["out"].as_str().unwrap(), "{what}");
            });
        }
    }
}

#[test]
fn the_embedded_model_gives_pytorchs_phonemes_and_stays_near_its_vectors_and_logits() {
    // Its weights are of eight bits, PyTorch's of floats: a word is sure where the best score is
    // always farther from the second than they are apart.
    const APART: f32 = 0.3;
    let (file, reference) = (ModelFile::embedded(), json("g2p_reference.json"));
    file.image().unwrap().verify().unwrap();
    for cpu in Cpu::all() {
        for word in reference["named"].as_array().unwrap() {
            let name = word["word"].as_str().unwrap();
            with_session(&file, one(64), cpu, |image, session| {
                let mut source = [0; 64];
                let length = image.source_tokenizer().unwrap().encode(name, &mut source).unwrap().len;
                session.encode(&[&source[..length]]).unwrap();
                assert_within(name, session.encoded(0).unwrap(), &floats(&word["memory_row0_8"]), APART);
                let logits = session.decode(&[&[1]]).unwrap();
                assert_within(name, logits, &floats(&word["first_logits_8"]), APART);
            });
        }
        let mut runner = Runner::open_default().unwrap().with_cpu(cpu);
        let words =
            reference["named"].as_array().unwrap().iter().chain(reference["words"].as_array().unwrap());
        let sure: Vec<&Value> =
            words.filter(|w| w["min_gap"].as_f64().unwrap() >= f64::from(APART)).collect();
        assert!(sure.len() > 150, "most words are sure");
        let spellings: Vec<&str> = sure.iter().map(|w| w["word"].as_str().unwrap()).collect();
        for (word, answer) in sure.iter().zip(runner.transform_units(&spellings).unwrap()) {
            let phonemes: Vec<&str> =
                word["phonemes"].as_array().unwrap().iter().map(|p| p.as_str().unwrap()).collect();
            assert_eq!(answer.text, phonemes.join(" "), "{} on {}", word["word"], cpu.name());
            assert!(!answer.cut && answer.unknown.is_empty());
        }
    }
}
