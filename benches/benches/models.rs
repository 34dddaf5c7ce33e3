//! Whole models on every backend, from tokens to answer, each checked before it is timed.
//!
//! The embedded model is always there; the others are `models/*.pf`, or are converted from
//! what `tests/fetch-models.sh` fetches, or are skipped, loudly. Criterion's `elem/s` is
//! tokens a second: of the answer, or of the text for an encoder.

use criterion::{Criterion, Throughput};
use picoformer::ModelFile;
use picoformer::families::Family;
use picoformer_benches::assert_near;
use picoformer_core::config::Elements;
use picoformer_core::{Capacity, Cpu, Line, Session};
use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

/// The image `models/NAME.pf`, or what the weights convert to.
fn fetched(name: &str, weights: &str, family: Family) -> Option<ModelFile> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../models");
    let (image, weights) = (folder.join(format!("{name}.pf")), folder.join(name).join(weights));
    if image.exists() {
        match ModelFile::open(&image) {
            Ok(file) => return Some(file),
            Err(error) => eprintln!("{} is not used: {error:#}", image.display()),
        }
    }
    if weights.exists() {
        return Some(ModelFile::from_bytes(&family.convert(&weights, Elements::F32).unwrap()).unwrap());
    }
    eprintln!("\n!!! SKIPPED: {name} is NOT benched: neither {image:?} nor {weights:?} is there\n");
    None
}

/// The tokens of a text.
fn tokens(file: &ModelFile, text: &str) -> Vec<u32> {
    let mut tokens = vec![0; 512];
    let image = file.image().unwrap();
    let length = image.source_tokenizer().unwrap().encode(text, &mut tokens).unwrap().len;
    tokens.truncate(length);
    tokens
}

/// Runs `f` with a session for `batch` sequences of `source` tokens.
fn with_session(
    file: &ModelFile,
    cpu: Cpu,
    batch: usize,
    source: usize,
    f: impl FnOnce(&mut Session<'_, '_>),
) {
    let capacity = Capacity { batch, source, target: usize::MAX, chunk: 1 };
    let image = file.image().unwrap();
    let model = image.model().with_capacity(capacity).unwrap();
    let mut arena = vec![Line::ZERO; model.plan().arena()];
    f(&mut model.session(&mut arena, cpu).unwrap());
}

/// One benchmark `models/what__how` of `work` tokens.
fn bench(c: &mut Criterion, what: &str, cpu: Cpu, work: usize, mut f: impl FnMut()) {
    let mut group = c.benchmark_group("models");
    group.throughput(Throughput::Elements(work as u64));
    group.bench_function(format!("{what}__{}", cpu.name()), |b| b.iter(&mut f));
}

/// Encodes `text` and generates `answer`, for a batch of the same.
fn transform(c: &mut Criterion, name: &str, file: &ModelFile, text: &str, answer: &str, batch: usize) {
    let source = tokens(file, text);
    let sources = vec![&source[..]; batch];
    for cpu in Cpu::all() {
        with_session(file, cpu, batch, source.len(), |session| {
            let mut answers = vec![Vec::new(); batch];
            session.encode(&sources).unwrap();
            assert!(session.generate(1000, |i, token| answers[i].push(token)).unwrap(), "{name}: no end");
            let image = file.image().unwrap();
            let mut bytes = [0; 2048];
            for tokens in &answers {
                let found = image.target_tokenizer().unwrap().decode(tokens, &mut bytes).unwrap();
                assert_eq!(found, answer, "{name} on {}", cpu.name());
            }
            bench(c, &format!("{name}_batch{batch}"), cpu, answers.iter().map(Vec::len).sum(), || {
                session.encode(black_box(&sources)).unwrap();
                session.generate(1000, |_, token| _ = black_box(token)).unwrap();
            });
        });
    }
}

fn g2p(c: &mut Criterion) {
    let file = ModelFile::embedded();
    for batch in [1, 32] {
        transform(c, "g2p_transformer", &file, "transformer", "T R AE0 N S F AO1 R M ER0", batch);
    }
}

fn ruaccent(c: &mut Criterion) {
    let Some(file) = fetched("ruaccent", "acc_model.pt", Family::Ruaccent) else { return };
    for (text, answer) in [
        ("привет мир", "приве'т мир"),
        (
            "Хотел я зайти в замок, но ключ в замок не подошёл.",
            "Хоте'л я зайти' в за'мок, но ключ в за'мок не подошёл.",
        ),
    ] {
        let name = format!("ruaccent_letters{}", text.chars().count());
        transform(c, &name, &file, text, answer, 1);
    }
}

fn minilm(c: &mut Criterion) {
    let Some(file) = fetched("minilm", "model.safetensors", Family::Bert) else { return };
    // PyTorch's sentence vector of "hello world" starts so.
    const HELLO: [f64; 4] = [-0.034_477_271, 0.031_023_167, 0.006_734_999, 0.026_108_969];
    let (hello, long) = (tokens(&file, "hello world"), tokens(&file, &"hello world ".repeat(63)));
    for cpu in Cpu::all() {
        let mut vector = vec![0.0; 384];
        for (name, batch, source) in [("4", 1, &hello), ("128", 1, &long), ("4_batch32", 32, &hello)] {
            let sources = vec![&source[..]; batch];
            with_session(&file, cpu, batch, source.len(), |session| {
                let what = format!("minilm_tokens{name}");
                session.encode(&[&hello]).unwrap();
                session.embedding(0, &mut vector).unwrap();
                for (found, expected) in vector.iter().zip(HELLO) {
                    assert_near(&format!("{what} on {}", cpu.name()), *found, expected, 2e-5);
                }
                session.encode(&sources).unwrap();
                session.embedding(batch - 1, &mut vector).unwrap();
                let length = vector.iter().map(|x| x * x).sum::<f32>();
                assert_near(&format!("{what}: length"), length, 1.0, 1e-4);
                bench(c, &what, cpu, batch * source.len(), || {
                    session.encode(black_box(&sources)).unwrap();
                    session.embedding(batch - 1, black_box(&mut vector)).unwrap();
                });
            });
        }
    }
}

fn main() {
    let mut c = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(600))
        .nresamples(2000)
        .without_plots()
        .configure_from_args();
    g2p(&mut c);
    minilm(&mut c);
    ruaccent(&mut c);
    c.final_summary();
}
