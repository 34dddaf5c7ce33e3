//! Threads change no bits, whatever their number, and no half of the work is lost.

use picoformer::Pool;
use picoformer_core::config::{Element, Elements};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::{Capacity, Config, Cpu, Error, Line, Model, Plan, Threads, Workers};
use picoformer_tests::small;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Threads that are started for each half, and counted; the second half comes first.
struct Counted(usize, AtomicUsize);

impl Threads for Counted {
    fn count(&self) -> usize {
        self.0
    }
    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        self.1.fetch_add(1, Ordering::Relaxed);
        b();
        std::thread::scope(|scope| scope.spawn(a).join().unwrap());
    }
}

/// Large enough for every kernel to be divided.
fn model(elements: Elements) -> (Plan, Vec<Line>) {
    let config = Config { d_model: 128, heads: 4, d_ff: 256, target_vocab: 3001, elements, ..small::PAPER };
    let plan = Plan::new(config).unwrap();
    (plan, small::weights(&plan, 3))
}

/// Everything that a session gives: vectors, scores in a piece and one by one, and tokens.
fn run(model: &Model<'_>, cpu: Cpu, threads: &dyn Threads) -> Vec<u32> {
    let capacity = Capacity { batch: 2, source: 40, target: 20, chunk: 9 };
    let model = model.with_threads(threads.count()).unwrap().with_capacity(capacity).unwrap();
    let mut arena = vec![Line([f32::NAN; 16]); model.plan().arena()];
    let mut session = model.session(&mut arena, cpu).unwrap().on(threads);
    let tokens: Vec<u32> = (0..40).map(|i| i * 7 % 37).collect();
    let mut bits = Vec::new();
    let mut add = |x: &[f32]| bits.extend(x.iter().map(|x| x.to_bits()));
    session.encode(&[&tokens, &tokens[..31]]).unwrap();
    (0..2).for_each(|i| add(session.encoded(i).unwrap()));
    session.decode_each(&[&tokens[..17], &tokens[..3]], |_, _, logits| add(logits)).unwrap();
    session.encode(&[&tokens]).unwrap();
    for token in &tokens[..3] {
        add(session.decode(&[&[*token]]).unwrap());
    }
    session.restart(1).unwrap();
    session.generate(12, |_, token| bits.push(token)).unwrap();
    bits
}

#[test]
fn a_session_has_the_same_bits_on_any_number_of_threads() {
    for elements in [Elements::F32, Elements::all(Element::Int8)] {
        let (plan, blob) = model(elements);
        let model = Model::new(plan, &blob).unwrap();
        for cpu in Cpu::all() {
            let alone = run(&model, cpu, &());
            for count in [1, 2, 3, 5] {
                let counted = Counted(count, AtomicUsize::new(0));
                assert!(run(&model, cpu, &counted) == alone, "{count} threads on {}", cpu.name());
                assert_eq!(counted.1.into_inner() > 20, count > 1, "{count} threads on {}", cpu.name());
                assert!(run(&model, cpu, &Pool::new(count).unwrap()) == alone, "a pool of {count}");
            }
        }
    }
}

#[test]
fn more_threads_than_the_plan_has_room_for_are_not_used() {
    let (plan, blob) = model(Elements::F32);
    let mut arena = vec![Line::ZERO; plan.arena()];
    let counted = Counted(4, AtomicUsize::new(0));
    let model = Model::new(plan, &blob).unwrap();
    let mut session = model.session(&mut arena, Cpu::detect()).unwrap().on(&counted);
    session.encode(&[&[1; 40]]).unwrap();
    assert_eq!(counted.1.load(Ordering::Relaxed), 0);
    assert!(plan.with_threads(4).unwrap().arena() > plan.arena());
    assert_eq!(plan.with_threads(0).unwrap().threads(), 1);
}

#[test]
fn a_pool_runs_both_halves_and_passes_a_panic_on() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..1000 {
        let (mut a, mut b) = (0, 0);
        pool.join(&mut || a = 1, &mut || b = 2);
        assert_eq!((a, b), (1, 2));
    }
    for first in [true, false] {
        let halves = AssertUnwindSafe(|| {
            pool.join(&mut || assert!(!first, "the first half"), &mut || assert!(first, "the second half"));
        });
        assert!(catch_unwind(halves).is_err());
    }
    pool.join(&mut || (), &mut || ());
    assert!(Pool::new(0).is_err());
}

#[test]
fn what_is_wrong_is_refused_before_any_half_is_written() {
    let (rows, cols, depth) = (64, 64, 64);
    let counted = Counted(2, AtomicUsize::new(0));
    let (x, panels) = (vec![1.0; rows * depth], vec![Line([1.0; 16]); cols / 16 * depth]);
    for cpu in Cpu::all() {
        let workers = Workers::new(cpu, &counted, 2);
        let mut out = vec![7.0; rows * cols];
        let identity = Activation::Identity;
        let short = workers.matmul(&x[1..], depth, &panels, &[], identity, &mut out, cols);
        assert_eq!(short, Err(Error::Shape { need: rows * depth }));
        let short = workers.layer_norm(&mut out, cols, Some(&x[1..]), &panels, &[], 1e-5);
        assert_eq!(short, Err(Error::Shape { need: rows * cols }));
        assert!(out.iter().all(|x| *x == 7.0) && counted.1.load(Ordering::Relaxed) == 0);
        workers.matmul(&x, depth, &panels, &[], identity, &mut out, cols).unwrap();
        assert!(out.iter().all(|x| *x == 64.0) && counted.1.swap(0, Ordering::Relaxed) == 1);
    }
}
