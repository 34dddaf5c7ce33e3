//! What a sequence's bits do not depend on, all at once and at random: the batch and the place
//! in it, padding, threads, the fused backend, what the arena held and where it lies, the pieces
//! of the prefill, and which run it is. In floats and in eight bits.

use picoformer::Pool;
use picoformer_core::{Capacity, Cpu, Line, Model, Plan, Session};
use picoformer_tests::{numbers, small};
use proptest::prelude::*;
use std::cell::RefCell;

/// Tokens a sequence has at most.
const LONGEST: usize = 33;
const GUARD: Line = Line([1234.5; 16]);

/// How a sequence is run among others.
#[derive(Debug, Clone)]
struct Way {
    cpu: usize,
    batch: usize,
    room: usize,
    chunk: usize,
    threads: usize,
    padding: Option<usize>,
    garbage: u32,
    place: usize,
    pieces: Vec<usize>,
}

prop_compose! {
    fn ways()(
        (cpu, batch, room, chunk) in (0..8usize, 1..5usize, 0..3usize, 1..41usize),
        (threads, padding) in (1..4usize, prop::option::of(0..7usize)),
        (garbage, place) in (any::<u32>(), 0..70usize),
        pieces in prop::collection::vec(0..9usize, 1..6),
    ) -> Way {
        Way { cpu, batch, room, chunk, threads, padding, garbage, place, pieces }
    }
}

fn sequence(seed: u32) -> Vec<u32> {
    let length = 1 + seed as usize * 7 % LONGEST;
    numbers(seed, length).iter().map(|x| ((x + 1.0) * 18.0) as u32).collect()
}

/// What the model gives for each source and its target: vectors, and logits of every position.
fn results(
    session: &mut Session<'_, '_>,
    seeds: &[u32],
    way: &Way,
    sources: bool,
    targets: bool,
) -> Vec<Vec<u32>> {
    let tokens: Vec<Vec<u32>> = seeds.iter().map(|seed| sequence(*seed)).collect();
    let results = RefCell::new(vec![Vec::new(); seeds.len()]);
    let add = |i: usize, x: &[f32]| results.borrow_mut()[i].extend(x.iter().map(|x| x.to_bits()));
    match way.padding {
        _ if !sources => session.restart(seeds.len()).unwrap(),
        None => session.encode(&tokens.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap(),
        Some(more) => {
            let lengths: Vec<usize> = tokens.iter().map(Vec::len).collect();
            let width = lengths.iter().max().unwrap() + more;
            let padded: Vec<u32> =
                tokens.iter().flat_map(|t| t.iter().copied().chain([9; LONGEST + 7]).take(width)).collect();
            session.encode_padded(&padded, width, &lengths).unwrap();
        }
    }
    if sources {
        let d_model = session.model().plan().config().d_model as usize;
        for (i, tokens) in tokens.iter().enumerate() {
            // (Of a padded source, the vectors of the padding come after its own.)
            add(i, &session.encoded(i).unwrap()[..tokens.len() * d_model]);
        }
    }
    if targets {
        // Each target in pieces of its own, some of them empty, until all are through.
        let mut done = vec![0; seeds.len()];
        for step in 0.. {
            let pieces: Vec<&[u32]> = (0..seeds.len())
                .map(|i| {
                    let length = way.pieces[(step + i) % way.pieces.len()] + usize::from(step % 3 == 2);
                    let end = (done[i] + length).min(tokens[i].len());
                    &tokens[i][std::mem::replace(&mut done[i], end)..end]
                })
                .collect();
            session.decode_each(&pieces, |i, _, logits| add(i, logits)).unwrap();
            if done.iter().zip(&tokens).all(|(done, tokens)| *done == tokens.len()) {
                break;
            }
        }
    }
    results.into_inner()
}

/// Runs sequences the given way, twice in one arena between guards.
fn run(plan: Plan, blob: &[Line], seeds: &[u32], way: &Way) -> Vec<Vec<u32>> {
    let config = plan.config();
    let capacity = Capacity {
        batch: seeds.len() + way.room,
        source: LONGEST + 7,
        target: LONGEST + 7,
        chunk: way.chunk,
    };
    let model = Model::new(plan, blob).unwrap().with_threads(way.threads).unwrap();
    let model = model.with_capacity(capacity).unwrap();
    let garbage = f32::from_bits(way.garbage);
    let length = model.plan().arena();
    let mut room = vec![GUARD; length + way.place + 1];
    room[way.place..way.place + length].fill(Line([garbage; 16]));
    let pool = Pool::new(way.threads).unwrap();
    let all: Vec<Cpu> = Cpu::all().collect();
    let cpu = all[way.cpu % all.len()];
    let mut session = model.session(&mut room[way.place..way.place + length], cpu).unwrap().on(&pool);
    let once = results(&mut session, seeds, way, config.has_encoder(), config.has_decoder());
    let again = results(&mut session, seeds, way, config.has_encoder(), config.has_decoder());
    assert!(once == again, "a second run differs");
    assert!(room[..way.place].iter().chain(&room[way.place + length..]).all(|line| *line == GUARD));
    once
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_sequences_bits_depend_on_nothing_but_the_sequence(family in 0..small::families().len(), seed in 0..1000u32, way in ways()) {
        let (name, config) = small::families()[family];
        let plan = Plan::new(config).unwrap();
        let blob = small::weights(&plan, 11);
        // Alone, at once, on one thread, in an arena of zeros; on the baseline, or the first of
        // those with fused products.
        let fused = way.cpu % Cpu::all().count() > 0;
        let plain = Way {
            cpu: usize::from(fused), batch: 1, room: 0, chunk: 40, threads: 1, padding: None, garbage: 0,
            place: 0, pieces: vec![LONGEST],
        };
        let seeds: Vec<u32> = (seed..).take(way.batch).collect();
        let together = run(plan, &blob, &seeds, &way);
        for (seed, found) in seeds.iter().zip(&together) {
            let alone = run(plan, &blob, &[*seed], &plain);
            prop_assert!(!found.is_empty() && alone[0] == *found, "{} {:?}", name, way);
        }
    }
}
