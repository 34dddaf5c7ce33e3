//! Faults that users of other engines reported, each as a test of ours: batches, caches, pooling,
//! memory, lengths. (`reports_kernels.rs` and `reports_text.rs` have the others.)

use picoformer::Pool;
use picoformer_core::config::{Element, Elements, Pooling, Positions, Stack};
use picoformer_core::{Capacity, Config, Cpu, Error, Line, Model, Plan};
use picoformer_tests::small;

const CAPACITY: Capacity = Capacity { batch: 3, source: 12, target: 12, chunk: 4 };

fn family(name: &str) -> Config {
    small::families().into_iter().find(|(family, _)| *family == name).unwrap().1
}

/// Runs `f` with a session of a model of random weights.
fn with<T>(config: Config, f: impl FnOnce(&mut picoformer_core::Session<'_, '_>) -> T) -> T {
    let plan = Plan::new(config).unwrap().with_capacity(CAPACITY).unwrap();
    let blob = small::weights(&plan, 11);
    let mut arena = vec![Line([f32::NAN; 16]); plan.arena()];
    f(&mut Model::new(plan, &blob).unwrap().session(&mut arena, Cpu::detect()).unwrap())
}

/// The embedding of the first source of a batch.
fn embedding(config: Config, sources: &[&[u32]]) -> Vec<f32> {
    with(config, |session| {
        session.encode(sources).unwrap();
        let mut out = vec![0.0; config.d_model as usize];
        session.embedding(0, &mut out).unwrap();
        out
    })
}

// huggingface/candle #1798, huggingface/transformers #30096, huggingface/sentence-transformers
// #3278: a text's vector was another one beside a longer text.
#[test]
fn a_text_has_the_same_vector_alone_and_beside_longer_ones() {
    let bert = family("bert");
    let alone = embedding(bert, &[&[5, 6, 7]]);
    assert_eq!(alone, embedding(bert, &[&[5, 6, 7], &[1, 2, 3, 4, 5, 6, 7, 8, 9], &[3]]));
}

// Anush008/fastembed-rs #107: activations were quantized over the whole batch, so each text's
// vector depended on the others.
#[test]
fn so_it_has_in_eight_bits() {
    let bert = Config { elements: Elements::all(Element::Int8), ..family("bert") };
    let alone = embedding(bert, &[&[5, 6, 7]]);
    assert_eq!(alone, embedding(bert, &[&[5, 6, 7], &[39, 38, 37, 36, 35]]));
}

// lean-dojo/ReProver #34: the vector depended on how far the batch was padded.
#[test]
fn a_text_has_the_same_vector_however_far_it_is_padded() {
    let bert = family("bert");
    let alone = embedding(bert, &[&[5, 6, 7]]);
    for width in [3, 4, 12] {
        for pad in [0, 9] {
            let mut tokens = vec![pad; width];
            tokens[..3].copy_from_slice(&[5, 6, 7]);
            let padded = with(bert, |session| {
                session.encode_padded(&tokens, width, &[3]).unwrap();
                let mut out = vec![0.0; bert.d_model as usize];
                session.embedding(0, &mut out).unwrap();
                out
            });
            assert_eq!(padded, alone, "padded to {width} with {pad}");
        }
    }
}

// HKUDS/LightRAG #3675, jsboige/CoursIA #15045: the mean was taken over the padding too.
#[test]
fn the_mean_is_over_the_tokens_and_not_over_the_padding() {
    let bert = Config { pooling: Pooling::Mean, ..family("bert") };
    with(bert, |session| {
        session.encode_padded(&[5, 6, 0, 0, 0], 5, &[2]).unwrap();
        let d_model = bert.d_model as usize;
        let vectors = session.encoded(0).unwrap().to_vec();
        let mut out = vec![0.0; d_model];
        session.embedding(0, &mut out).unwrap();
        for (i, x) in out.iter().enumerate() {
            let mean = (vectors[i] + vectors[d_model + i]) / 2.0;
            assert!((x - mean).abs() <= 1e-6 * mean.abs().max(1.0), "feature {i}: {x} should be {mean}");
        }
    });
}

// StarlightSearch/EmbedAnything #213: the first row of a padded batch is not always the first token.
#[test]
fn pooling_the_first_takes_the_first_token_of_each_sequence() {
    let bert = Config { pooling: Pooling::First, ..family("bert") };
    let d_model = bert.d_model as usize;
    with(bert, |session| {
        session.encode(&[&[5, 6, 7, 8], &[9, 10]]).unwrap();
        for i in 0..2 {
            let mut out = vec![0.0; d_model];
            session.embedding(i, &mut out).unwrap();
            assert_eq!(out, session.encoded(i).unwrap()[..d_model]);
        }
    });
}

// allenai/allennlp #4612, koaning/whatlies #290: the vector of an empty text was NaN.
#[test]
fn an_empty_text_has_a_vector_of_zeros_and_disturbs_nobody() {
    let bert = family("bert");
    assert_eq!(embedding(bert, &[&[]]), vec![0.0; bert.d_model as usize]);
    let unit = Config { unit_length: true, ..bert };
    assert_eq!(embedding(unit, &[&[]]), vec![0.0; bert.d_model as usize]);
    assert_eq!(embedding(bert, &[&[5, 6], &[]]), embedding(bert, &[&[5, 6]]));
}

/// What each target of a batch generates.
fn generated(config: Config, sources: &[&[u32]], prompts: &[&[u32]]) -> Vec<Vec<u32>> {
    with(config, |session| {
        match config.has_encoder() {
            true => session.encode(sources).unwrap(),
            false => session.restart(prompts.len()).unwrap(),
        }
        if !prompts.is_empty() {
            session.decode(prompts).unwrap();
        }
        let mut all = vec![Vec::new(); session.batch()];
        session.generate(6, |i, token| all[i].push(token)).unwrap();
        all
    })
}

// huggingface/transformers #22707 and #28385, unslothai/unsloth #3699, vllm-project/vllm #1761:
// what was generated depended on who else was in the batch.
#[test]
fn generation_is_the_same_alone_and_in_a_batch() {
    let gpt = family("gpt");
    let prompts: [&[u32]; 3] = [&[3, 4, 5, 6, 7], &[8], &[9, 10]];
    let together = generated(gpt, &[], &prompts);
    for (prompt, together) in prompts.iter().zip(&together) {
        assert_eq!(&generated(gpt, &[], &[prompt])[0], together);
    }
    let sources: [&[u32]; 2] = [&[3, 4, 5, 6, 7, 8, 9], &[10]];
    let together = generated(small::PAPER, &sources, &[]);
    assert_eq!(generated(small::PAPER, &sources[1..], &[])[0], together[1]);
}

// meta-pytorch/torchtune #959, lucidrains/x-transformers #322, rasbt/LLMs-from-scratch #697: with
// the cache other tokens came than without.
#[test]
fn the_cache_changes_nothing() {
    for name in ["gpt", "gpt in eight bits", "rms, pre-norm"] {
        let config = Config {
            stack: Stack::Decoder,
            encoder_layers: 0,
            source_vocab: 0,
            source_context: 0,
            ..family(name)
        };
        let tokens = [3, 9, 4, 1, 7, 7, 2, 5];
        let each = |pieces: &[&[u32]]| {
            with(config, |session| {
                session.restart(1).unwrap();
                let mut last = Vec::new();
                for piece in pieces {
                    last = session.decode(&[piece]).unwrap().to_vec();
                }
                last
            })
        };
        let whole = each(&[&tokens]);
        assert_eq!(each(&tokens.chunks(1).collect::<Vec<_>>()), whole, "{name}, one by one");
        assert_eq!(each(&[&tokens[..3], &tokens[3..]]), whole, "{name}, in two pieces");
    }
}

// ggml-org/llama.cpp #95, openvinotoolkit/openvino #30482: other numbers of threads, other text.
#[test]
fn the_number_of_threads_changes_nothing() {
    let config = Config { d_model: 64, d_ff: 256, target_vocab: 1000, ..small::PAPER };
    let run = |threads: usize| {
        let plan = Plan::new(config).unwrap().with_threads(threads).unwrap().with_capacity(CAPACITY).unwrap();
        let blob = small::weights(&plan, 2);
        let (mut arena, pool) = (vec![Line::ZERO; plan.arena()], Pool::new(threads).unwrap());
        let model = Model::new(plan, &blob).unwrap();
        let mut session = model.session(&mut arena, Cpu::detect()).unwrap().on(&pool);
        session.encode(&[&[1, 2, 3, 4, 5, 6, 7, 8]]).unwrap();
        session.decode(&[&[1, 2, 3]]).unwrap().to_vec()
    };
    assert_eq!(run(1), run(2));
    assert_eq!(run(1), run(3));
}

// ggml-org/llama.cpp #3817 and #10157, sqliteai/sqlite-ai #25: a text longer than the positions of
// the model ended the whole process.
#[test]
fn a_text_longer_than_the_positions_is_an_error_after_which_all_goes_on() {
    let bert = Config { positions: Positions::Learned, source_context: 8, ..family("bert") };
    with(bert, |session| {
        assert_eq!(session.model().plan().capacity().source, 8, "never more than the model has");
        assert_eq!(session.encode(&[&[1; 9]]), Err(Error::Full { capacity: 8 }));
        session.encode(&[&[1; 8]]).unwrap();
    });
    with(family("gpt"), |session| {
        session.restart(1).unwrap();
        session.decode(&[&[1; 11]]).unwrap();
        assert_eq!(session.decode(&[&[1, 2]]).map(|_| ()), Err(Error::Full { capacity: 12 }));
        session.decode(&[&[1]]).unwrap();
    });
}

// tensorflow/tflite-micro #2686 and #2037, tensorflow/tensorflow #27156 and #35070: how much memory
// is needed was found by trial, and too little of it was a null pointer.
#[test]
fn the_arena_is_known_before_and_any_less_of_it_is_refused_with_the_number() {
    for (name, config) in small::families() {
        let plan = Plan::new(config).unwrap().with_capacity(CAPACITY).unwrap();
        let blob = small::weights(&plan, 1);
        let model = Model::new(plan, &blob).unwrap();
        let need = plan.arena();
        for lines in [0, 1, need / 2, need - 1] {
            let mut arena = vec![Line::ZERO; lines];
            let refused = model.session(&mut arena, Cpu::detect()).map(|_| ());
            assert_eq!(refused, Err(Error::Arena { need }), "{name}");
        }
        assert!(model.session(&mut vec![Line::ZERO; need], Cpu::detect()).is_ok());
    }
}

// tensorflow/tflite-micro #438: the size that was said to be needed had wrapped around.
#[test]
fn sizes_beyond_all_memory_are_refused_and_never_wrap() {
    let huge = 1 << 24;
    let config = Config { d_model: huge, heads: 1, d_ff: huge, encoder_layers: huge, ..Config::PAPER };
    assert!(matches!(Plan::new(config), Err(Error::Config(_))));
    let plan = Plan::new(small::PAPER).unwrap();
    for batch in [1 << 32, usize::MAX / 2, usize::MAX] {
        assert!(matches!(plan.with_capacity(Capacity { batch, ..CAPACITY }), Err(Error::Config(_))));
    }
}

// ggml-org/ggml #1517, ggml-org/whisper.cpp #3864: a dimension of 0 was a division by zero.
#[test]
fn a_size_of_zero_is_refused_by_name() {
    let zeros: [(&str, Config); 6] = [
        ("d_model", Config { d_model: 0, ..small::PAPER }),
        ("heads", Config { heads: 0, ..small::PAPER }),
        ("d_ff", Config { d_ff: 0, ..small::PAPER }),
        ("layers", Config { encoder_layers: 0, ..small::PAPER }),
        ("vocab", Config { target_vocab: 0, ..small::PAPER }),
        ("context", Config { source_context: 0, ..small::PAPER }),
    ];
    for (name, config) in zeros {
        match Plan::new(config) {
            Err(Error::Config(why)) => assert!(why.contains(name), "{name}: {why}"),
            other => panic!("{name}: {other:?}"),
        }
    }
}
