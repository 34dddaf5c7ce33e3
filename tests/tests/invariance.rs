//! A sequence's result has the same bits alone, in a batch, padded, in pieces, on every
//! fused backend, and whatever the arena held before.

use picoformer_core::config::Elements;
use picoformer_core::{Capacity, Config, Cpu, Line, Model, Plan};
use picoformer_tests::{numbers, small};

struct Bench {
    plan: Plan,
    blob: Vec<Line>,
}

impl Bench {
    fn new(config: Config) -> Self {
        let plan = Plan::new(config).unwrap();
        Bench { plan, blob: small::weights(&plan, 11) }
    }

    /// What an encoder–decoder, encoder or decoder gives for each sequence.
    fn run(
        &self,
        cpu: Cpu,
        sources: &[Vec<u32>],
        targets: &[Vec<u32>],
        chunk: usize,
        fill: f32,
    ) -> Vec<Vec<f32>> {
        let c = self.plan.config();
        let capacity = Capacity { batch: sources.len(), source: 40, target: 40, chunk };
        let model = Model::new(self.plan, &self.blob).unwrap().with_capacity(capacity).unwrap();
        let mut arena = vec![Line([fill; 16]); model.plan().arena()];
        let mut session = model.session(&mut arena, cpu).unwrap();
        let mut results = vec![Vec::new(); sources.len()];
        if c.has_encoder() {
            session.encode(&sources.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap();
            for (i, result) in results.iter_mut().enumerate() {
                result.extend_from_slice(session.encoded(i).unwrap());
            }
        }
        if c.has_decoder() {
            let targets: Vec<&[u32]> = targets.iter().map(Vec::as_slice).collect();
            session.decode_each(&targets, |i, _, logits| results[i].extend_from_slice(logits)).unwrap();
        }
        results
    }
}

fn sequences(count: usize, seed: u32) -> Vec<Vec<u32>> {
    let length = |i: usize| 1 + (i * 7 + seed as usize) % 33;
    (0..count)
        .map(|i| numbers(seed + i as u32, length(i)).iter().map(|x| ((x + 1.0) * 18.0) as u32).collect())
        .collect()
}

fn bits(results: &[Vec<f32>]) -> Vec<Vec<u32>> {
    results.iter().map(|r| r.iter().map(|x| x.to_bits()).collect()).collect()
}

#[test]
fn a_sequence_has_the_same_bits_alone_in_any_batch_in_any_piece_and_in_any_arena() {
    for (name, config) in small::families() {
        let bench = Bench::new(config);
        let (sources, targets) = (sequences(9, 1), sequences(9, 5));
        for cpu in Cpu::all() {
            let batch = bits(&bench.run(cpu, &sources, &targets, 40, 0.0));
            for i in 0..sources.len() {
                let alone = bits(&bench.run(cpu, &sources[i..=i], &targets[i..=i], 1 + i % 3, f32::NAN));
                assert_eq!(alone[0], batch[i], "{name}, sequence {i} on {}", cpu.name());
            }
            let mut reversed = (sources.clone(), targets.clone());
            reversed.0.reverse();
            reversed.1.reverse();
            let mut back = bits(&bench.run(cpu, &reversed.0, &reversed.1, 7, f32::INFINITY));
            back.reverse();
            assert_eq!(back, batch, "{name}, reversed on {}", cpu.name());
        }
    }
}

#[test]
fn padding_changes_no_bits() {
    for (name, config) in small::families().into_iter().filter(|(_, c)| c.has_encoder()) {
        let bench = Bench::new(config);
        let sources = sequences(5, 3);
        let capacity = Capacity { batch: 5, source: 40, target: 8, chunk: 8 };
        let model = Model::new(bench.plan, &bench.blob).unwrap().with_capacity(capacity).unwrap();
        for cpu in Cpu::all() {
            let mut arena = vec![Line::ZERO; model.plan().arena()];
            let mut session = model.session(&mut arena, cpu).unwrap();
            let ragged: Vec<&[u32]> = sources.iter().map(Vec::as_slice).collect();
            session.encode(&ragged).unwrap();
            let expected: Vec<Vec<f32>> = (0..5).map(|i| session.encoded(i).unwrap().to_vec()).collect();
            let logits = |session: &mut picoformer_core::Session<'_, '_>| match config.has_decoder() {
                true => session.decode(&[&[1, 2, 3][..]; 5]).unwrap().to_vec(),
                false => Vec::new(),
            };
            let expected_logits = logits(&mut session);
            let width = 37;
            let padded: Vec<u32> =
                sources.iter().flat_map(|s| s.iter().copied().chain([9; 37]).take(width)).collect();
            let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
            session.encode_padded(&padded, width, &lengths).unwrap();
            for (i, expected) in expected.iter().enumerate() {
                assert_eq!(
                    &session.encoded(i).unwrap()[..expected.len()],
                    expected,
                    "{name} on {}",
                    cpu.name()
                );
            }
            assert_eq!(logits(&mut session), expected_logits, "{name} on {}", cpu.name());
        }
    }
}

#[test]
fn fused_backends_agree_to_the_bit_and_the_baseline_to_rounding() {
    for (name, config) in small::families() {
        let bench = Bench::new(config);
        let (sources, targets) = (sequences(4, 2), sequences(4, 9));
        let all: Vec<_> = Cpu::all().map(|cpu| bench.run(cpu, &sources, &targets, 4, 0.0)).collect();
        for pair in all.get(1..).unwrap_or(&[]).windows(2) {
            assert_eq!(bits(&pair[0]), bits(&pair[1]), "{name}");
        }
        // A number that the baseline rounds otherwise may become another code of eight bits.
        let bound = if config.elements == Elements::F32 { 1e-4 } else { 3e-2 };
        for other in &all[1..] {
            for (x, y) in all[0].iter().flatten().zip(other.iter().flatten()) {
                assert!((x - y).abs() <= bound * (1.0 + x.abs()), "{name}: {x} and {y}");
            }
        }
    }
}

#[test]
fn an_embedding_is_nearest_to_itself() {
    for (name, config) in small::families() {
        let bench = Bench::new(config);
        let model = Model::new(bench.plan, &bench.blob).unwrap();
        let mut arena = vec![Line::ZERO; model.plan().arena()];
        for cpu in Cpu::all() {
            let mut session = model.session(&mut arena, cpu).unwrap();
            let transformer = model.transformer();
            let (embedding, vocab) = match config.has_decoder() {
                true => (transformer.target_embedding(), config.target_vocab),
                false => (transformer.source_embedding(), config.source_vocab),
            };
            let row = |token: u32| {
                let mut row = vec![0.0; config.d_model as usize];
                embedding.tokens.vector(cpu.into(), token, 1.0, &mut row).unwrap();
                row
            };
            // The plain loop's answer, in f64.
            for token in 0..vocab {
                let x = row(token);
                let dot =
                    |t: u32| x.iter().zip(row(t)).map(|(a, b)| f64::from(*a) * f64::from(b)).sum::<f64>();
                let best = (0..vocab).max_by(|a, b| dot(*a).total_cmp(&dot(*b))).unwrap();
                assert_eq!(session.nearest(&x).unwrap(), best, "{name} on {}", cpu.name());
            }
        }
    }
}

#[test]
fn generation_goes_on_from_prompts_of_any_length_and_from_none() {
    for (name, config) in small::families().into_iter().filter(|(_, c)| c.has_decoder()) {
        let bench = Bench::new(config);
        let capacity = Capacity { batch: 3, source: 8, target: 12, chunk: 2 };
        let model = Model::new(bench.plan, &bench.blob).unwrap().with_capacity(capacity).unwrap();
        let mut arena = vec![Line([f32::NAN; 16]); model.plan().arena()];
        let prompts: [&[u32]; 3] = [&[], &[1, 5, 6], &[config.begin]];
        for cpu in Cpu::all() {
            let mut together = vec![Vec::new(); 3];
            let mut session = model.session(&mut arena, cpu).unwrap();
            let start =
                |session: &mut picoformer_core::Session<'_, '_>, batch: usize| match config.has_encoder() {
                    true => session.encode(&[&[3, 4, 5][..]; 3][..batch]).unwrap(),
                    false => session.restart(batch).unwrap(),
                };
            start(&mut session, 3);
            session.decode(&prompts).unwrap();
            session.generate(6, |i, token| together[i].push(token)).unwrap();
            for (i, prompt) in prompts.iter().enumerate() {
                // One target, one token at a time, by the plain loop.
                start(&mut session, 1);
                let mut next = if prompt.is_empty() { vec![config.begin] } else { prompt.to_vec() };
                let mut alone = Vec::new();
                while alone.len() < 6 {
                    let best = picoformer_core::kernels::embedding::argmax(session.decode(&[&next]).unwrap());
                    if best == config.end {
                        break;
                    }
                    alone.push(best);
                    next = vec![best];
                }
                assert_eq!(together[i], alone, "{name}, target {i} on {}", cpu.name());
            }
            // Nothing decoded, nothing in the arena that matters: the scores are finite.
            start(&mut session, 3);
            assert!(session.decode(&[&[][..]; 3]).unwrap().iter().all(|x| x.is_finite()));
        }
    }
}
