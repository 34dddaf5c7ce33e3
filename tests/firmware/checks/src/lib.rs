//! What firmware of every kind runs: the kernels' checks, and the cases that are counted.

#![no_std]
#![deny(unsafe_code)]

pub mod counts;
pub mod kernels;

use core::fmt::Write;
use picoformer_core::Line;

/// A fixed, plain pseudo-random sequence in -1..1, the same everywhere.
pub fn fill(seed: u32, x: &mut [f32]) {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345) | 1;
    for x in x {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        *x = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
    }
}

/// The first lines of `rest`, as many as `floats` need; `rest` becomes what is after them.
pub fn take<'a>(rest: &mut &'a mut [Line], floats: usize) -> &'a mut [Line] {
    let (taken, left) = core::mem::take(rest).split_at_mut(Line::count(floats));
    *rest = left;
    taken
}

/// Checks every kernel, and writes a line of each; whether all are right.
pub fn report(room: &mut [Line], to: &mut dyn Write) -> bool {
    let mut ok = true;
    let done = kernels::all(room, &mut |name, found| {
        ok &= found.ok();
        let (word, percent) = (if found.ok() { "ok" } else { "FAILED" }, (found.worst * 100.0) as u32);
        let numbers = found.count;
        let _ = writeln!(to, "{word} {name}: {numbers} numbers, errors up to {percent} % of the allowed");
        if found.outside {
            let _ = writeln!(to, "FAILED {name}: it wrote outside its output");
        }
    });
    if let Err(error) = done {
        let _ = writeln!(to, "FAILED: {error}");
    }
    ok && done.is_ok()
}
