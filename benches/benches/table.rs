//! One table: every row on every backend and beside its peers, for use while kernels are tuned.
//!
//! `cargo bench --bench table -- softmax 1x384` prints the rows that have a word in their
//! name. The ways of a row take turns, with the peak, in rounds: a slow moment of the
//! machine is spread over all of them. Numbers are the medians of the rounds.

mod rows;

use picoformer_benches::median;
use picoformer_benches::peak::{fed, peak};
use picoformer_benches::row::{READ, Reference, Row, Work};
use picoformer_core::Cpu;
use std::time::Instant;

const ROUNDS: usize = 9;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|a| a == flag);
    let words: Vec<&String> = arguments.iter().filter(|a| !a.starts_with('-')).collect();
    if has("--list") {
        return;
    }
    let timed = has("--bench") && !has("--test");
    rows::one_thread();
    let start = Instant::now();
    let mut unit = "";
    for plan in rows::all() {
        if !words.is_empty() && !words.iter().any(|word| plan.what.contains(word.as_str())) {
            continue;
        }
        let mut row = (plan.row)();
        if !timed {
            continue;
        }
        let this = if matches!(row.work, Work::Flops(_)) { "GFLOP/s" } else { "G numbers/s" };
        if this != unit {
            header(this);
            unit = this;
        }
        measure(&mut row);
    }
    if timed {
        limits();
        println!(
            "\nOurs: µs, G/s (multiplications and additions, or numbers), and % of the multiply-add peak"
        );
        println!("that the same rounds measured, or of a plain read of the weights. Peers: G/s. Medians of");
        println!("{ROUNDS} interleaved rounds; {:.0} s.", start.elapsed().as_secs_f64());
    } else {
        println!("table: every row is right; not timed");
    }
}

/// What products can reach where their operands must be loaded.
fn limits() {
    for cpu in Cpu::all() {
        let shares = (0..ROUNDS).filter_map(|_| Some(100.0 * fed(cpu)? / peak(cpu)?));
        let shares: Vec<f64> = shares.collect();
        if !shares.is_empty() {
            println!(
                "{}: operands from the nearest cache allow {:.0} % of the peak",
                cpu.name(),
                median(shares)
            );
        }
    }
}

fn header(unit: &str) {
    print!("\n{unit:<31}");
    Cpu::all().for_each(|cpu| print!("{:>9} µs{:>7}{:>5}", cpu.name(), "G/s", "%"));
    println!("  ours/best peer");
}

/// Measures a row and prints it.
fn measure(row: &mut Row) {
    let ways = row.ways();
    let read = (0..ways).find(|&way| row.how(way) == READ);
    let (mut times, mut shares) = (vec![Vec::new(); ways], vec![Vec::new(); ways]);
    for _ in 0..ROUNDS {
        let round: Vec<f64> = (0..ways).map(|way| row.nanoseconds(way)).collect();
        for way in 0..ways {
            times[way].push(round[way]);
            let best = match (row.reference, row.cpu(way)) {
                (Reference::Peak, Some(cpu)) => peak(cpu).map(|peak| row.work.count() as f64 / peak),
                (Reference::Read, Some(_)) => read.map(|read| round[read]),
                _ => None,
            };
            shares[way].extend(best.map(|best| 100.0 * best / round[way]));
        }
    }

    print!("{:<31}", row.what);
    let (mut ours, mut peers) = (f64::INFINITY, f64::INFINITY);
    let mut names = String::new();
    for way in 0..ways {
        let time = median(times[way].clone());
        let rate = row.work.count() as f64 / time;
        if row.cpu(way).is_some() {
            ours = ours.min(time);
            print!("{:>12.2}{rate:>7.1}", time / 1000.0);
            match shares[way].is_empty() {
                true => print!("{:>5}", ""),
                false => print!("{:>5.0}", median(shares[way].clone())),
            }
        } else if Some(way) == read {
            names += &format!("  {READ} {:.2} µs", time / 1000.0);
        } else {
            peers = peers.min(time);
            names += &format!("  {} {rate:.1}", row.how(way));
        }
    }
    // How many times as fast, so that more is better.
    match peers.is_finite() {
        true => println!("{:>7.2}{names}", peers / ours),
        false => println!("{:>7}{names}", "-"),
    }
}
