//! Kernels with numbers to run on: products and attention.

use super::{Buffer, rate};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::int8::{Int8, row_lines};
use picoformer_core::kernels::pack::{int8_lines, pack_int8, pack_linear, panel_lines};
use picoformer_core::{Cpu, Line};
use std::hint::black_box;

/// `out = x · Wᵀ + bias`.
#[derive(Debug)]
pub struct Matmul {
    /// Rows, columns, depth.
    pub shape: (usize, usize, usize),
    /// `[rows × depth]`.
    pub x: Buffer,
    /// `[cols × depth]`, before it was packed.
    pub weights: Buffer,
    panels: Vec<Line>,
    /// `[cols]`.
    pub bias: Buffer,
    /// `[rows × cols]`.
    pub out: Buffer,
}

impl Matmul {
    /// A case of one shape.
    pub fn new(rows: usize, cols: usize, depth: usize) -> Self {
        let weights = Buffer::random(2, cols * depth);
        let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
        pack_linear(&weights, cols, depth, &mut panels);
        Matmul {
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
        let (x, bias) = (black_box(&self.x), self.bias.lines());
        cpu.matmul(x, depth, &self.panels, bias, Activation::Identity, &mut self.out, cols)
            .expect("the shapes are right");
        black_box(&mut self.out);
    }

    /// GFLOP/s, as the peak is measured.
    pub fn rate(&mut self, cpu: Cpu) -> f64 {
        let stretches = if self.flops() < 20_000_000 { 12 } else { 4 };
        rate(self.flops(), stretches, || self.run(cpu))
    }
}

/// The same in eight bits.
#[derive(Debug)]
pub struct MatmulInt8 {
    of: Matmul,
    group: usize,
    codes: Vec<Line>,
    scales: Vec<Line>,
    quantized: Vec<Line>,
}

impl MatmulInt8 {
    /// A case of one shape, with a scale for so many steps of depth (0: all).
    pub fn new(rows: usize, cols: usize, depth: usize, group: usize) -> Self {
        let of = Matmul::new(rows, cols, depth);
        let (codes, scales) = int8_lines(cols, depth, group);
        let (mut codes, mut scales) = (vec![Line::ZERO; codes], vec![Line::ZERO; scales]);
        pack_int8(&of.weights, cols, depth, group, Line::codes_mut(&mut codes), &mut scales);
        let quantized = vec![Line::ZERO; rows * row_lines(depth, group)];
        MatmulInt8 { of, group, codes, scales, quantized }
    }

    /// Multiplications and additions.
    pub fn operations(&self) -> u64 {
        self.of.flops()
    }

    /// Quantizes the rows, which [`MatmulInt8::run`] needs once.
    pub fn quantize(&mut self, cpu: Cpu) {
        let x = black_box(&self.of.x);
        cpu.quantize(x, self.of.shape.2, self.group, &mut self.quantized).expect("the shapes are right");
    }

    /// Runs the product of quantized rows.
    pub fn run(&mut self, cpu: Cpu) {
        let (_, cols, depth) = self.of.shape;
        let w = Int8 { codes: Line::codes(&self.codes), scales: &self.scales, group: self.group };
        let (x, bias) = (black_box(&self.quantized), self.of.bias.lines());
        cpu.matmul_int8(x, depth, w, bias, Activation::Identity, &mut self.of.out, cols)
            .expect("the shapes are right");
        black_box(&mut self.of.out);
    }
}

/// `softmax(q · kᵀ / √size) · v` of every head; the last query sees all keys.
#[derive(Debug)]
pub struct Attention {
    shape: AttentionShape<'static>,
    /// `[queries × width]`.
    pub query: Buffer,
    /// `[keys × width]`, before they were packed.
    pub keys: Buffer,
    /// `[keys × width]`, before they were packed.
    pub values: Buffer,
    packed: (Vec<Line>, Vec<Line>),
    scores: Vec<Line>,
    /// `[queries × width]`.
    pub out: Buffer,
}

impl Attention {
    /// A case of one shape.
    pub fn new(heads: Heads, queries: usize, keys: usize, mask: Mask<'static>) -> Self {
        let width = heads.width();
        let (key, value) = (Buffer::random(2, keys * width), Buffer::random(3, keys * width));
        let (mut k, mut v) =
            (vec![Line::ZERO; heads.key_lines(keys)], vec![Line::ZERO; heads.value_lines(keys)]);
        append_keys_values(heads, keys, 0, &key, &value, width, keys, &mut k, &mut v);
        let first = keys - queries;
        Attention {
            shape: AttentionShape { heads, queries, query_stride: width, keys, capacity: keys, first, mask },
            query: Buffer::random(1, queries * width),
            keys: key,
            values: value,
            packed: (k, v),
            scores: vec![Line::ZERO; score_lines(keys)],
            out: Buffer::zeros(queries * width),
        }
    }

    /// Keys that query `i` sees.
    pub fn visible(&self, i: usize) -> usize {
        if self.shape.mask == Mask::Causal { self.shape.first + i + 1 } else { self.shape.keys }
    }

    /// Multiplications and additions: two products, of the pairs that are seen.
    pub fn flops(&self) -> u64 {
        let pairs: usize = (0..self.shape.queries).map(|i| self.visible(i)).sum();
        4 * (self.shape.heads.heads * self.shape.heads.head_size * pairs) as u64
    }

    /// Runs it once.
    pub fn run(&mut self, cpu: Cpu) {
        let (query, (keys, values)) = (black_box(&self.query), &self.packed);
        cpu.attention(&self.shape, query, keys, values, &mut self.scores, &mut self.out, None)
            .expect("the shapes are right");
        black_box(&mut self.out);
    }
}
