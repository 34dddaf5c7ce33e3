//! One table: backend × matmul shape, in GFLOP/s and as a share of the peak.
//!
//! Every round measures each backend's peak and each shape once, so that a slow moment of
//! the machine is spread over all of them. A measurement is the best of a few stretches of
//! half a millisecond; the table has the rounds' medians, a share that of each round's own.

use picoformer::measure::median;
use picoformer::measure::peak::peak;
use picoformer_benches::matmul::{SHAPES, cases, check};
use picoformer_core::Cpu;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    // As criterion does: a filter for other benches, or a list, is not for us.
    if has("--list") || arguments.iter().any(|a| !a.starts_with('-') && !"peak".contains(a.as_str())) {
        return;
    }
    let timed = has("--bench") && !has("--test");
    let cpus: Vec<Cpu> = Cpu::all().collect();
    let mut cases = cases();
    for &cpu in &cpus {
        for case in &mut cases {
            check(case, cpu);
        }
    }
    if !timed {
        println!("peak: every matmul is right; not timed");
        return;
    }

    const ROUNDS: usize = 11;
    let mut peaks = vec![Vec::new(); cpus.len()];
    let mut rates = vec![Vec::new(); cpus.len() * cases.len()];
    let mut shares = rates.clone();
    for _ in 0..ROUNDS {
        for (i, &cpu) in cpus.iter().enumerate() {
            let before = peak(cpu);
            for (j, case) in cases.iter_mut().enumerate() {
                let rate = case.rate(cpu);
                rates[i * SHAPES.len() + j].push(rate);
                shares[i * SHAPES.len() + j].extend(before.map(|peak| 100.0 * rate / peak));
            }
            peaks[i].extend(before);
        }
    }

    print!("\n{:<14}", "GFLOP/s");
    cpus.iter().for_each(|cpu| print!("{:>18}", cpu.name()));
    print!("\n{:<14}", "peak");
    for peaks in peaks {
        print!("{:>11.1}   100%", median(peaks));
    }
    for (j, case) in cases.iter().enumerate() {
        print!("\n{:<14}", case.name());
        for i in 0..cpus.len() {
            let at = i * SHAPES.len() + j;
            print!("{:>11.1}{:>6.0}%", median(rates[at].clone()), median(shares[at].clone()));
        }
    }
    println!("\nMedians of {ROUNDS} interleaved rounds; the peak is of multiply-adds in registers.");
}
