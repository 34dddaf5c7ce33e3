//! Fails if an inner loop of the matmul tile keeps a sum in memory.
//!
//! Disassembles itself (it holds every kernel of every backend) with `objdump`, from binutils.
//!
//! * A loop is what a jump back spans; an inner one has no other within.
//! * It is a tile's if all it does with vectors is to move, spread and multiply-add them, at
//!   least [`PRODUCTS`] times, and what it spreads over the lanes are numbers that it reads.
//!   No other kernel's is: there the factors are constants, or there is more to compute.
//! * A tile's loop only reads. All that it computes with changes with every step, so whatever
//!   finds no register is stored within the loop: any store of a vector is a spill. A vector
//!   that is only reloaded from the stack is a constant of the code after the loop; it is
//!   shown, but takes no register from the sums.
//!
//! A loop's backend is the width of its vectors, not a name. There must be loops of every
//! backend, or nothing was looked at.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::{Cpu, Line};
use std::process::{Command, ExitCode};

/// Multiply-adds that the smallest tile does in a step: eight vectors of sums.
const PRODUCTS: usize = 8;

/// The registers of a backend's vectors.
const BACKENDS: [(&str, &str); 3] = [("baseline", "xmm"), ("avx2", "ymm"), ("avx512", "zmm")];

/// One line of the disassembly: `  1f0a:\tmovups xmm0,XMMWORD PTR [rsp+0x10]`.
struct Instruction<'a> {
    at: u64,
    name: &'a str,
    operands: &'a str,
}

impl<'a> Instruction<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (at, rest) = line.split_once(":\t")?;
        let (name, operands) = rest.split_once(' ').unwrap_or((rest, ""));
        let operands = operands.split(" #").next().unwrap_or_default().trim();
        Some(Instruction { at: u64::from_str_radix(at.trim(), 16).ok()?, name, operands })
    }

    /// Where it jumps to, if that is known.
    fn target(&self) -> Option<u64> {
        let to = self.operands.split(' ').next()?;
        self.name.starts_with('j').then(|| u64::from_str_radix(to, 16).ok())?
    }

    /// The address between the brackets.
    fn memory(&self) -> Option<&'a str> {
        Some(self.operands.split_once('[')?.1.split_once(']')?.0)
    }

    fn stores(&self) -> bool {
        self.operands.split(',').next().is_some_and(|to| to.contains('['))
    }

    fn is_vector(&self) -> bool {
        BACKENDS.iter().any(|(_, register)| self.operands.contains(register))
    }

    /// Whether one number becomes a whole vector, other than a constant beside the code.
    fn spreads(&self) -> bool {
        let constant = self.memory().is_some_and(|at| at.contains("rip"));
        let spread = self.name == "vbroadcastss" || self.operands.contains("BCST");
        (spread || self.is_shuffle()) && !constant
    }

    fn is_shuffle(&self) -> bool {
        ["shuf", "vpermil"].iter().any(|part| self.name.contains(part))
    }
}

/// What an inner loop consists of.
#[derive(Default)]
struct Count {
    products: usize,
    loads: usize,
    broadcasts: usize,
    /// Counting, comparing, addresses, and moves between registers.
    other: usize,
    reloads: usize,
    spills: usize,
    /// What no tile computes.
    strange: usize,
}

impl Count {
    /// `framed`: whether `rbp` is the stack's, not a register like any other.
    fn of(code: &[Instruction<'_>], register: &str, framed: bool) -> Self {
        let mut count = Count::default();
        let (mut multiplied, mut added) = (0, 0);
        for i in code {
            let memory = i.memory().filter(|_| i.is_vector());
            let stack = memory.is_some_and(|at| at.contains("rsp") || framed && at.contains("rbp"));
            let whole = i.operands.contains(register);
            let name = i.name.trim_start_matches('v');
            let mut computes = true;
            match name {
                _ if name.starts_with("fmadd") && name.ends_with("ps") && whole => count.products += 1,
                "mulps" if whole => multiplied += 1,
                "addps" if whole => added += 1,
                _ => computes = false,
            }
            let moves = name.starts_with("mov") || name == "broadcastss" || i.is_shuffle();
            match memory {
                // A product may read its factor itself, even spread it: it counts as both.
                _ if i.spreads() => count.broadcasts += 1,
                Some(_) if i.stores() => count.spills += 1,
                Some(_) if stack => count.reloads += 1,
                Some(_) => count.loads += 1,
                None => count.other += usize::from(!computes),
            }
            count.strange += usize::from(i.is_vector() && !computes && !moves);
        }
        // Unless they are one, a product is a multiplication and an addition.
        count.products += multiplied;
        count.strange += usize::abs_diff(multiplied, added);
        count
    }

    fn is_tile(&self) -> bool {
        self.products >= PRODUCTS && self.broadcasts > 0 && self.strange == 0
    }
}

/// The loops of a function that have no other within.
fn inner_loops<'c, 'a>(code: &'c [Instruction<'a>]) -> Vec<&'c [Instruction<'a>]> {
    let mut spans: Vec<(u64, u64)> = Vec::new();
    let first = code.first().map_or(0, |i| i.at);
    for i in code {
        let Some(to) = i.target().filter(|to| (first..=i.at).contains(to)) else { continue };
        // Several jumps to the same start are one loop.
        match spans.iter_mut().find(|span| span.0 == to) {
            Some(span) => span.1 = i.at,
            None => spans.push((to, i.at)),
        }
    }
    let index = |at| code.partition_point(|i| i.at < at);
    let inner = |a: &&(u64, u64)| !spans.iter().any(|b| b != *a && a.0 <= b.0 && b.1 <= a.1);
    spans.iter().filter(inner).map(|span| &code[index(span.0)..=index(span.1)]).collect()
}

fn main() -> ExitCode {
    if !cfg!(all(target_arch = "x86_64", target_feature = "sse2")) {
        println!("only the loops of x86-64 are known");
        return ExitCode::SUCCESS;
    }
    // Without a use of them, the kernels would not be in this program.
    let cpu = std::hint::black_box(Cpu::detect());
    let (mut out, identity) = ([0.0], Activation::Identity);
    cpu.matmul(&[1.0], 1, &[Line::ZERO], &[], identity, &mut out, 1).expect("one number each");
    let program = std::env::current_exe().expect("a program has a path");
    let arguments = ["-d", "-C", "-M", "intel", "--no-show-raw-insn", "-w"];
    let output = Command::new("objdump").args(arguments).arg(program).output();
    let text = output.expect("objdump runs: it is in binutils").stdout;
    let text = String::from_utf8_lossy(&text);

    let (mut spilt, mut seen) = (0, [0; BACKENDS.len()]);
    println!("   FMAs  loads  broadcasts  other  reloads  spills  loop");
    for function in text.split("\n\n") {
        let Some((name, code)) = function.trim_start().split_once(">:\n") else { continue };
        let name = name.split_once('<').map_or(name, |(_, name)| name);
        let code: Vec<Instruction<'_>> = code.lines().filter_map(Instruction::parse).collect();
        let framed = code.iter().any(|i| i.name == "mov" && i.operands == "rbp,rsp");
        for inner in inner_loops(&code) {
            for ((_, register), seen) in BACKENDS.iter().zip(&mut seen) {
                let c = Count::of(inner, register, framed);
                if c.is_tile() {
                    *seen += 1;
                    spilt += usize::from(c.spills > 0);
                    let (at, mark) = (inner[0].at, if c.spills > 0 { "  <- SPILLS" } else { "" });
                    print!("{:7}{:7}{:12}{:7}", c.products, c.loads, c.broadcasts, c.other);
                    println!("{:9}{:8}  {name} at {at:x}{mark}", c.reloads, c.spills);
                }
            }
        }
    }
    for ((backend, _), seen) in BACKENDS.iter().zip(seen) {
        println!("{backend}: {seen} loops of tiles");
    }
    if spilt > 0 {
        println!("{spilt} loops spill: their tile is too large for the registers");
    }
    ExitCode::from(u8::from(spilt > 0 || seen.contains(&0)))
}
