//! Each element-wise function of each of the 2^32 floats, on every backend, beside f64: the
//! numbers of the table in `picoformer_core::numerics`. Minutes on two cores.
//!
//! Arguments: names of functions (`Exp Tanh`…); all without any.

#![deny(unsafe_code)]

use picoformer_tests::functions::{BOUNDS, Bound, Worst, exact, found, kinds};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};

/// Floats at a time, of one sign and, but for the last, overlapping by one: no fall is missed.
const BLOCK: u32 = 1 << 16;

/// The worst of each kind of backend, over all floats.
fn worst(bound: &Bound) -> Vec<Worst> {
    let (kinds, next) = (kinds(), AtomicU32::new(0));
    let work = || {
        let mut worst = vec![Worst::default(); kinds.len()];
        loop {
            let block = next.fetch_add(1, Ordering::Relaxed);
            if block > u32::MAX / BLOCK {
                return worst;
            }
            let first = block * BLOCK;
            let last = (first | 0x7fff_ffff).min(first.saturating_add(BLOCK));
            let x: Vec<f32> = (first..=last).map(f32::from_bits).collect();
            let exact: Vec<f64> = x.iter().map(|x| exact(bound.function, f64::from(*x))).collect();
            for (worst, y) in worst.iter_mut().zip(found(&kinds, bound.function, &x)) {
                worst.add(bound.function, &x, &y, &exact);
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut all = vec![Worst::default(); kinds.len()];
        for one in started {
            let worst = one.join().expect("a thread ends well");
            all.iter_mut().zip(&worst).for_each(|(all, worst)| all.join(worst));
        }
        all
    })
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let chosen = |bound: &&Bound| names.is_empty() || names.contains(&format!("{:?}", bound.function));
    let mut code = ExitCode::SUCCESS;
    for bound in BOUNDS.iter().filter(chosen) {
        for (kind, worst) in kinds().iter().zip(worst(bound)) {
            let name = if kind[0].name() == "baseline" { "baseline" } else { "with fused products" };
            let Worst { ulps, at, fall, falls } = worst;
            print!("{:?}, {name}: {ulps:.3} ULP at {at:e}", bound.function);
            match bound.fall {
                Some(_) => println!("; falls {falls} times, by {fall} floats at most"),
                None => println!(),
            }
            if let Err(why) = worst.check(bound) {
                println!("TOO MUCH: {why}");
                code = ExitCode::FAILURE;
            }
        }
    }
    code
}
