//! Encode, decode and generate never allocate: here an allocation while armed aborts.

use picoformer_core::{Capacity, Cpu, Line, Model, Plan};
use picoformer_tests::small;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ARMED: Cell<bool> = const { Cell::new(false) };
}

struct Aborting;

fn check() {
    if ARMED.get() {
        std::process::abort();
    }
}

// SAFETY: everything is passed on to the system's allocator, unless the process ends.
unsafe impl GlobalAlloc for Aborting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        check();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        check();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Aborting = Aborting;

#[test]
fn encode_decode_and_generate_never_allocate() {
    for (_, config) in small::families() {
        let plan = Plan::new(config).unwrap();
        let plan = plan.with_capacity(Capacity { batch: 2, source: 20, target: 20, chunk: 4 }).unwrap();
        let blob = small::weights(&plan, 5);
        let mut arena = vec![Line::ZERO; plan.arena()];
        for cpu in Cpu::all() {
            ARMED.set(true);
            let model = Model::new(plan, &blob).unwrap();
            let mut session = model.session(&mut arena, cpu).unwrap();
            if config.has_encoder() {
                session.encode(&[&[3, 4, 5, 6], &[7]]).unwrap();
                let mut vector = [0.0; 80];
                session.embedding(0, &mut vector[..config.d_model as usize]).unwrap();
                session.nearest(&vector[..config.d_model as usize]).unwrap();
            }
            if config.has_decoder() {
                session.decode(&[&[1, 2, 3, 4, 5], &[1]]).unwrap();
                session.restart(2).unwrap();
                let mut tokens = 0;
                session.generate(20, |_, _| tokens += 1).unwrap();
            }
            ARMED.set(false);
        }
    }
}
