//! A matmul to time: its numbers, its plain answer, and the shapes that models have.

use crate::{Buffer, assert_near, plain, some};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::pack::{pack_linear, panel_lines};
use picoformer_core::{Cpu, Line};
use std::time::Instant;

/// `(rows, cols, depth)`: MiniLM's layers and a large one, few rows, one, and small ones.
pub const SHAPES: [(usize, usize, usize); 11] = [
    (128, 384, 384),
    (32, 384, 384),
    (128, 1536, 384),
    (32, 384, 1536),
    (256, 2048, 512),
    (8, 384, 384),
    (4, 384, 384),
    (1, 384, 384),
    (1, 1536, 384),
    (16, 16, 16),
    (64, 64, 64),
];

/// `out = x · Wᵀ + bias`.
#[derive(Debug)]
pub struct Case {
    /// Rows, columns, depth.
    pub shape: (usize, usize, usize),
    x: Buffer,
    weights: Buffer,
    panels: Vec<Line>,
    bias: Buffer,
    out: Buffer,
}

impl Case {
    /// A case of one shape.
    pub fn new((rows, cols, depth): (usize, usize, usize)) -> Self {
        let weights = Buffer::random(2, cols * depth);
        let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
        pack_linear(&weights, cols, depth, &mut panels);
        Case {
            shape: (rows, cols, depth),
            x: Buffer::random(1, rows * depth),
            weights,
            panels,
            bias: Buffer::random(3, cols),
            out: Buffer::zeros(rows * cols),
        }
    }

    /// `rows×cols×depth`, as in ids.
    pub fn name(&self) -> String {
        let (rows, cols, depth) = self.shape;
        format!("{rows}x{cols}x{depth}")
    }

    /// Multiplications and additions.
    pub fn flops(&self) -> u64 {
        let (rows, cols, depth) = self.shape;
        2 * (rows * cols * depth) as u64
    }

    /// Runs it once.
    pub fn run(&mut self, cpu: Cpu) {
        let (_, cols, depth) = self.shape;
        let (x, bias) = (std::hint::black_box(&self.x), self.bias.lines());
        cpu.matmul(x, depth, &self.panels, bias, Activation::Identity, &mut self.out, cols)
            .expect("the shapes are right");
        std::hint::black_box(&mut self.out);
    }

    /// Runs it and checks entries of a few rows and columns.
    pub fn check(&mut self, cpu: Cpu) {
        self.out.fill(f32::NAN);
        self.run(cpu);
        let (rows, cols, depth) = self.shape;
        for r in some(rows) {
            for c in some(cols) {
                let x = &self.x[r * depth..][..depth];
                let expected = plain::dot(x, &self.weights[c * depth..][..depth]) + f64::from(self.bias[c]);
                let what = format!("matmul {} on {} at {r}, {c}", self.name(), cpu.name());
                assert_near(&what, self.out[r * cols + c], expected, 2e-5);
            }
        }
        assert!(self.out.iter().all(|x| x.is_finite()), "matmul {} on {}", self.name(), cpu.name());
    }

    /// GFLOP/s, as the peak is measured: the best of several short stretches, so that
    /// other programs on this core slow neither down.
    pub fn rate(&mut self, cpu: Cpu) -> f64 {
        // About half a millisecond each at 40 GFLOP/s; the first run warms the caches.
        let times = (20_000_000 / self.flops()).max(1);
        let stretches = if times > 1 { 12 } else { 4 };
        self.run(cpu);
        let once = |_| {
            let start = Instant::now();
            (0..times).for_each(|_| self.run(cpu));
            (self.flops() * times) as f64 / start.elapsed().as_nanos().max(1) as f64
        };
        (0..stretches).map(once).fold(0.0, f64::max)
    }
}
