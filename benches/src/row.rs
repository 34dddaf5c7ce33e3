//! A row of the table: one computation and the ways to do it, each checked before it is timed.

use crate::{Buffer, assert_near};
use cpu_time::ThreadTime;
use picoformer_core::Cpu;
use std::hint::black_box;
use std::time::Duration;

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Multiplications and additions.
    Flops(u64),
    /// Numbers that are written.
    Numbers(u64),
}

impl Work {
    /// How many.
    pub fn count(self) -> u64 {
        match self {
            Work::Flops(count) | Work::Numbers(count) => count,
        }
    }
}

/// What 100 % is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reference {
    /// The multiply-add peak of the backend.
    Peak,
    /// The way of this row that is no more than a read of its weights: with one row of
    /// input every weight is used once, and nothing can be faster.
    Read,
    /// Nothing.
    None,
}

/// How a plain read of the weights is called among the ways.
pub const READ: &str = "read";

/// A row whose buffers are not made before it is wanted.
pub struct Plan {
    /// Its name, `softmax_1024x128`.
    pub what: String,
    /// Makes it.
    pub row: Box<dyn FnOnce() -> Row>,
}

impl Plan {
    /// The row that `fill` adds ways to.
    pub fn new(
        what: String,
        work: Work,
        reference: Reference,
        fill: impl FnOnce(&mut Row) + 'static,
    ) -> Self {
        let name = what.clone();
        let row = move || {
            let mut row = Row {
                what: name,
                work,
                reference,
                input: None,
                out: Buffer::zeros(0),
                repeats: u64::MAX,
                expected: Vec::new(),
                bound: 0.0,
                ways: Vec::new(),
            };
            fill(&mut row);
            row
        };
        Plan { what, row: Box::new(row) }
    }
}

/// Computes a row once.
type Run = Box<dyn FnMut(&mut [f32])>;

/// One way to compute a row.
struct Way {
    how: String,
    cpu: Option<Cpu>,
    run: Run,
}

/// One computation, and the ways to do it.
pub struct Row {
    /// `softmax_1024x128`.
    pub what: String,
    /// What one run does.
    pub work: Work,
    /// What a rate is compared with.
    pub reference: Reference,
    input: Option<Buffer>,
    out: Buffer,
    repeats: u64,
    expected: Vec<(usize, f64)>,
    bound: f64,
    ways: Vec<Way>,
}

impl Row {
    /// The ways write `length` numbers.
    pub fn writes(&mut self, length: usize) {
        self.out = Buffer::zeros(length);
    }

    /// The ways change `input` in place, `repeats` times before it is made anew (untimed).
    pub fn changes(&mut self, input: Buffer, repeats: u64) {
        self.out = input.clone();
        self.input = Some(input);
        self.repeats = repeats;
    }

    /// What the ways that are added from now on must give at these indices, within
    /// `bound` as [`assert_near`] has it.
    pub fn expect(&mut self, expected: Vec<(usize, f64)>, bound: f64) {
        (self.expected, self.bound) = (expected, bound);
    }

    /// Adds our way, on a backend, and checks it.
    pub fn ours(&mut self, cpu: Cpu, run: impl FnMut(&mut [f32]) + 'static) {
        self.add(cpu.name(), Some(cpu), Box::new(run));
    }

    /// Adds another's way, and checks it.
    pub fn peer(&mut self, how: &str, run: impl FnMut(&mut [f32]) + 'static) {
        self.add(how, None, Box::new(run));
    }

    fn add(&mut self, how: &str, cpu: Option<Cpu>, mut run: Run) {
        match &self.input {
            Some(input) => self.out.copy_from_slice(input),
            None => self.out.fill(f32::NAN),
        }
        run(&mut self.out);
        assert!(!self.expected.is_empty(), "{}__{how} is not checked", self.what);
        for &(i, expected) in &self.expected {
            assert_near(&format!("{}__{how} at {i}", self.what), self.out[i], expected, self.bound);
        }
        self.ways.push(Way { how: how.into(), cpu, run });
    }

    /// How many ways there are.
    pub fn ways(&self) -> usize {
        self.ways.len()
    }

    /// How a way is called: a backend's or a peer's name.
    pub fn how(&self, way: usize) -> &str {
        &self.ways[way].how
    }

    /// A way's backend, if it is ours.
    pub fn cpu(&self, way: usize) -> Option<Cpu> {
        self.ways[way].cpu
    }

    /// The processor's time for so many runs: the clock on the wall would count what other
    /// programs do between them, and a run of many milliseconds is never left alone.
    pub fn time(&mut self, way: usize, runs: u64) -> Duration {
        let (mut left, mut total) = (runs, Duration::ZERO);
        while left > 0 {
            let now = left.min(self.repeats);
            if let Some(input) = &self.input {
                self.out.copy_from_slice(input);
            }
            let start = ThreadTime::now();
            for _ in 0..now {
                (self.ways[way].run)(black_box(&mut self.out));
            }
            total += start.elapsed();
            left -= now;
        }
        total
    }

    /// Nanoseconds of one run, as the peak is measured: the best of a few short stretches,
    /// so that what other programs left in the caches slows neither down.
    pub fn nanoseconds(&mut self, way: usize) -> f64 {
        // The first run warms the caches, the second tells how many fill the stretch.
        self.time(way, 1);
        let once = self.time(way, 1).as_nanos().max(1) as u64;
        let runs = (400_000 / once).clamp(1, 10_000);
        let stretches = if once > 2_000_000 { 2 } else { 5 };
        let stretch = |_| self.time(way, runs).as_nanos() as f64 / runs as f64;
        (0..stretches).map(stretch).fold(f64::INFINITY, f64::min)
    }
}
