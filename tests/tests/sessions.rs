//! Sessions share nothing but the weights: in turn or at the same time, each gives the bits
//! that it gives alone. And the core has nothing that they could share.

use picoformer_core::{Cpu, Line, Model, Plan, Session};
use picoformer_tests::small;
use std::path::Path;

const SOURCES: [&[u32]; 2] = [&[3, 4, 5, 6, 7], &[30, 2, 11]];
const TARGETS: [[u32; 4]; 2] = [[1, 9, 20, 3], [1, 36, 5, 5]];

fn model() -> (Plan, Vec<Line>) {
    let plan = Plan::new(small::PAPER).unwrap();
    (plan, small::weights(&plan, 5))
}

fn arena(plan: &Plan) -> Vec<Line> {
    vec![Line([f32::NAN; 16]); plan.arena()]
}

/// The bits of a session's scores after one more token.
fn step(session: &mut Session<'_, '_>, token: u32) -> Vec<u32> {
    session.decode(&[&[token]]).unwrap().iter().map(|x| x.to_bits()).collect()
}

/// What a session gives that runs alone.
fn alone(model: &Model<'_>, which: usize) -> Vec<Vec<u32>> {
    let mut arena = arena(model.plan());
    let mut session = model.session(&mut arena, Cpu::detect()).unwrap();
    session.encode(&[SOURCES[which]]).unwrap();
    TARGETS[which].iter().map(|&token| step(&mut session, token)).collect()
}

#[test]
fn two_sessions_of_one_model_in_turn_give_what_each_gives_alone() {
    let (plan, blob) = model();
    let model = Model::new(plan, &blob).unwrap();
    let expected = [alone(&model, 0), alone(&model, 1)];
    assert_ne!(expected[0], expected[1]);

    let (mut one, mut two) = (arena(&plan), arena(&plan));
    let mut sessions = [&mut one, &mut two].map(|arena| model.session(arena, Cpu::detect()).unwrap());
    for (session, source) in sessions.iter_mut().zip(SOURCES) {
        session.encode(&[source]).unwrap();
    }
    for i in 0..TARGETS[0].len() {
        for (which, session) in sessions.iter_mut().enumerate() {
            assert_eq!(step(session, TARGETS[which][i]), expected[which][i], "session {which}, token {i}");
        }
    }
}

#[test]
fn two_threads_with_an_arena_each_give_what_each_gives_alone() {
    let (plan, blob) = model();
    let model = Model::new(plan, &blob).unwrap();
    let expected = [alone(&model, 0), alone(&model, 1)];
    let (model, expected) = (&model, &expected);
    std::thread::scope(|scope| {
        #[allow(clippy::needless_range_loop, reason = "it indexes both")]
        for which in 0..2 {
            scope.spawn(move || {
                for _ in 0..20 {
                    assert_eq!(alone(model, which), expected[which]);
                }
            });
        }
    });
}

/// The lines of the core's source that are code.
fn code(folder: &Path, see: &mut dyn FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            code(&path, see);
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            see(&path, line.split("//").next().unwrap_or_default());
        }
    }
}

#[test]
fn the_core_has_no_heap_and_no_state_of_its_own() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/src");
    let (mut lines, mut no_std) = (0, false);
    code(&source, &mut |path, line| {
        lines += 1;
        no_std |= line.contains("#![no_std]");
        for shared in ["extern crate", "alloc::", "static mut", "Atomic", "UnsafeCell", "OnceCell", "std::"] {
            assert!(!line.contains(shared), "{}: {line}", path.display());
        }
    });
    assert!(no_std && lines > 4000, "{lines} lines were read");
}
