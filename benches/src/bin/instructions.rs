//! Instructions of every kernel and of an encoder layer, counted: a gate that noise cannot fail.
//!
//! | arguments | what it does |
//! |---|---|
//! | none | counts every case under callgrind, and compares with `instructions.txt` |
//! | `--record` | writes the counts there |
//! | `CASE BACKEND TIMES` | runs one case so many times: this is what is counted |
//!
//! A count is half of what three runs take more than one, so neither the start of a program
//! nor the making of its numbers is in it. Callgrind knows no AVX-512. A count that is lower
//! than the recorded one fails as well, so that the recorded ones stay true. Another compiler
//! has other counts: then the table is printed, and nothing fails.

use picoformer::measure::Buffer;
use picoformer::measure::cases::{Attention, Matmul};
use picoformer_core::config::{Output, Positions, Stack};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{Heads, Mask};
use picoformer_core::{Config, Cpu, Line, Model, Plan};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::{Command, ExitCode};

/// What compiled this program.
const COMPILER: &str = env!("COMPILER");
const RECORDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/instructions.txt");
const BACKENDS: [&str; 2] = ["baseline", "avx2"];
/// How far a count may be from the recorded one, in percent.
const ALLOWED: f64 = 3.0;

/// Something to count.
struct Case {
    name: String,
    /// Multiply-adds of products, elements of anything else.
    work: usize,
    /// Makes the numbers, and gives what runs once.
    setup: Box<dyn Fn(Cpu) -> Box<dyn FnMut()>>,
}

impl Case {
    fn new<R: FnMut() + 'static>(name: String, work: usize, setup: impl Fn(Cpu) -> R + 'static) -> Self {
        Case { name, work, setup: Box::new(move |cpu| Box::new(setup(cpu))) }
    }
}

fn product(rows: usize, cols: usize, depth: usize) -> Case {
    Case::new(format!("matmul_{rows}x{cols}x{depth}"), rows * cols * depth, move |cpu| {
        let mut case = Matmul::new(rows, cols, depth);
        move || case.run(cpu)
    })
}

fn softmax(rows: usize, cols: usize) -> Case {
    Case::new(format!("softmax_{rows}x{cols}"), rows * cols, move |cpu| {
        let mut x = Buffer::random(1, rows * cols);
        move || cpu.softmax(black_box(&mut x), cols).unwrap()
    })
}

fn layer_norm(rows: usize, cols: usize) -> Case {
    Case::new(format!("layer_norm_{rows}x{cols}_residual"), rows * cols, move |cpu| {
        let (mut x, y) = (Buffer::random(1, rows * cols), Buffer::random(2, rows * cols));
        let (gamma, beta) = (Buffer::random(3, cols), Buffer::random(4, cols));
        move || {
            cpu.layer_norm(black_box(&mut x), cols, Some(&y), gamma.lines(), beta.lines(), 1e-5).unwrap();
        }
    })
}

fn activation(name: &str, activation: Activation) -> Case {
    let length = 8 * 1536;
    Case::new(format!("{name}_8x1536"), length, move |cpu| {
        let mut x = Buffer::random(1, length);
        move || cpu.activate(activation, black_box(&mut x))
    })
}

/// Four heads of 32 features; the last query sees all keys.
fn attention(queries: usize, keys: usize, mask: Mask<'static>) -> Case {
    let heads = Heads { heads: 4, head_size: 32 };
    let name =
        format!("attention_4x32_{queries}x{keys}{}", if mask == Mask::Causal { "_causal" } else { "" });
    let work = Attention::new(heads, queries, keys, mask).flops() as usize / 2;
    Case::new(name, work, move |cpu| {
        let mut case = Attention::new(heads, queries, keys, mask);
        move || case.run(cpu)
    })
}

/// One layer of MiniLM's shape with its embedding: all that lies between tokens and vectors.
fn encoder_layer() -> Case {
    const TOKENS: usize = 32;
    const PLAN: Plan = match Plan::new(Config {
        stack: Stack::Encoder,
        d_model: 384,
        heads: 12,
        d_ff: 1536,
        encoder_layers: 1,
        decoder_layers: 0,
        source_vocab: 64,
        target_vocab: 0,
        source_context: TOKENS as u32,
        target_context: 0,
        scaled_embedding: false,
        positions: Positions::Learned,
        embedding_norm: true,
        norm_eps: 1e-12,
        activation: Activation::GeluErf,
        output: Output::None,
        begin: 0,
        end: 0,
        ..Config::PAPER
    }) {
        Ok(plan) => plan,
        Err(_) => panic!(),
    };
    let linear = TOKENS * 384 * (4 * 384 + 2 * 1536);
    let attention = 2 * TOKENS * TOKENS * 384;
    Case::new("encoder_layer_384_32tokens".into(), linear + attention, |cpu| {
        let mut weights = Buffer::random(1, PLAN.weights() * 16);
        weights.iter_mut().for_each(|x| *x *= 0.05);
        let mut arena = vec![Line::ZERO; PLAN.arena()];
        let tokens: Vec<u32> = (0..TOKENS as u32).map(|i| i * 31 % 64).collect();
        move || {
            let model = Model::new(PLAN, weights.lines()).unwrap();
            let mut session = model.session(&mut arena, cpu).unwrap();
            session.encode(black_box(&[&tokens])).unwrap();
        }
    })
}

fn cases() -> [Case; 13] {
    [
        product(32, 384, 384),
        product(8, 384, 384),
        product(1, 384, 384),
        product(16, 16, 16),
        softmax(64, 128),
        layer_norm(32, 384),
        activation("gelu_erf", Activation::GeluErf),
        activation("gelu_tanh", Activation::GeluTanh),
        activation("silu", Activation::Silu),
        attention(64, 64, Mask::None),
        attention(64, 64, Mask::Causal),
        attention(1, 128, Mask::None),
        encoder_layer(),
    ]
}

/// Instructions of this program when it runs a case so many times.
fn callgrind(case: &str, backend: &str, times: &str) -> u64 {
    let program = std::env::current_exe().expect("a program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([case, backend, times])
        .output()
        .expect("valgrind runs: install it");
    // Its last lines have `Collected : 123456`.
    let log = String::from_utf8_lossy(&output.stderr);
    let count = log.rsplit_once("Collected :").and_then(|(_, rest)| rest.split_whitespace().next());
    match count.and_then(|count| count.parse().ok()) {
        Some(count) if output.status.success() => count,
        _ => panic!("{case} on {backend} does not run under valgrind:\n{log}"),
    }
}

/// Runs a case; false if there is none, or no such backend here.
fn run(case: &str, backend: &str, times: &str) -> bool {
    let case = cases().into_iter().find(|c| c.name == case);
    let (cpu, times) = (Cpu::all().find(|cpu| cpu.name() == backend), times.parse::<usize>());
    let (Some(case), Some(cpu), Ok(times)) = (case, cpu, times) else { return false };
    let mut once = (case.setup)(cpu);
    (0..times).for_each(|_| once());
    true
}

/// The recorded compiler, and the counts of `case backend`.
fn recorded() -> (String, BTreeMap<String, u64>) {
    let text = std::fs::read_to_string(RECORDED).unwrap_or_default();
    let compiler = text.lines().find_map(|line| line.strip_prefix("# compiler: ")).unwrap_or_default();
    let counts = text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (key, count) = line.rsplit_once(' ')?;
        Some((key.trim().to_owned(), count.parse().ok()?))
    });
    (compiler.to_owned(), counts.collect())
}

/// Counts everything; gives what to record, and how many counts are not as recorded.
fn count_all(mut recorded: BTreeMap<String, u64>) -> (String, usize) {
    let (mut record, mut wrong) = (String::new(), 0);
    println!("case                         backend   instructions     each     recorded  change");
    for case in cases() {
        for backend in BACKENDS {
            let key = format!("{} {backend}", case.name);
            let before = recorded.remove(&key);
            if Cpu::all().all(|cpu| cpu.name() != backend) {
                println!("{key}: NOT COUNTED, this CPU does not have it");
                continue;
            }
            let [one, three] = ["1", "3"].map(|times| callgrind(&case.name, backend, times));
            let count = three.saturating_sub(one) / 2;
            record += &format!("{key} {count}\n");
            let each = count as f64 / case.work as f64;
            print!("{:<29}{backend:<10}{count:>12}{each:>9.3}", case.name);
            let Some(before) = before else {
                wrong += 1;
                println!("            -       -  <- NOT RECORDED");
                continue;
            };
            let change = 100.0 * (count as f64 / before as f64 - 1.0);
            let mark = match change {
                _ if change > ALLOWED => "  <- MORE than recorded",
                _ if change < -ALLOWED => "  <- LESS than recorded: record it",
                _ => "",
            };
            wrong += usize::from(!mark.is_empty());
            println!("{before:>13}{change:>+7.2}%{mark}");
        }
    }
    for key in recorded.keys() {
        println!("{key} is recorded, but there is no such case");
    }
    (record, wrong + recorded.len())
}

fn main() -> ExitCode {
    if cfg!(debug_assertions) {
        eprintln!("only a release build is worth counting: cargo run --release");
        return ExitCode::FAILURE;
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (compiler, counts) = recorded();
    let ok = match arguments[..] {
        [case, backend, times] => run(case, backend, times),
        ["--record"] => {
            let head = "# Instructions of each case. To write it anew:\n\
                # cargo run --release -p picoformer-benches --bin instructions -- --record";
            let text = format!("{head}\n# compiler: {COMPILER}\n{}", count_all(counts).0);
            std::fs::write(RECORDED, text).is_ok()
        }
        [] => {
            let wrong = count_all(counts).1;
            println!("Each: instructions a multiply-add (matmul, attention, layer) or element.");
            if compiler != COMPILER {
                println!("\n*** NOT COMPARED: recorded with {compiler}\n*** and this is         {COMPILER}");
                return ExitCode::SUCCESS;
            }
            if wrong > 0 {
                println!(
                    "\n{wrong} counts are not within {ALLOWED} % of the recorded ones. If that is meant:"
                );
                println!("cargo run --release -p picoformer-benches --bin instructions -- --record");
            }
            wrong == 0
        }
        _ => false,
    };
    if !ok && !arguments.is_empty() {
        eprintln!("nothing done: arguments are none, --record, or CASE BACKEND TIMES as in the table");
    }
    ExitCode::from(u8::from(!ok))
}
