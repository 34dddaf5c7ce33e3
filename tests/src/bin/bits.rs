//! The bits of every kernel and of whole models, as a hash a line: two machines that agree to
//! the bit print the same.
//!
//! Without arguments, the backends that run here; with one's name, its lines. Backends whose
//! products round once must agree wherever they are (AVX2, AVX-512, the baseline on NEON), and
//! so must those whose products round twice (the baseline on SSE2, simd128 and plain floats).
//! The line of eight-bit products is one and the same everywhere.
//! `tests/targets.sh` compares this machine with others.

use picoformer::{ModelFile, Runner};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::int8::{Int8, row_lines};
use picoformer_core::kernels::pack::{int8_lines, pack_int8, pack_linear, panel_lines};
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use picoformer_core::{Capacity, Cpu, Line, Model, Plan};
use picoformer_tests::{numbers, small};

const ACTIVATIONS: [Activation; 8] = [
    Activation::Identity,
    Activation::Relu,
    Activation::GeluErf,
    Activation::GeluTanh,
    Activation::Silu,
    Activation::Tanh,
    Activation::Sigmoid,
    Activation::Exp,
];

/// A hash (FNV-1a) of the bits of numbers; of NaN, only that it is one.
struct Bits(u64);

impl Bits {
    fn new() -> Self {
        Bits(0xcbf2_9ce4_8422_2325)
    }

    fn add(&mut self, numbers: &[f32]) {
        for x in numbers {
            let bits = if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() };
            self.0 = (self.0 ^ u64::from(bits)).wrapping_mul(0x100_0000_01b3);
        }
    }

    fn print(&self, what: &str) {
        println!("{what:<24} {:016x}", self.0);
    }
}

fn lines(floats: &[f32]) -> Vec<Line> {
    let mut lines = vec![Line::ZERO; Line::count(floats.len())];
    Line::floats_mut(&mut lines)[..floats.len()].copy_from_slice(floats);
    lines
}

fn matmul(cpu: Cpu) -> Result<(), picoformer_core::Error> {
    for activation in ACTIVATIONS {
        let mut bits = Bits::new();
        for (depth, cols) in [(1, 1), (7, 15), (16, 16), (31, 33), (64, 130), (500, 100)] {
            let (w, bias) = (numbers(2, cols * depth), lines(&numbers(3, cols)));
            let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
            pack_linear(&w, cols, depth, &mut panels);
            for rows in 1..=13 {
                let (x, mut out) = (numbers(1, rows * depth), vec![0.0; rows * cols]);
                cpu.matmul(&x, depth, &panels, &bias, activation, &mut out, cols)?;
                bits.add(&out);
            }
        }
        bits.print(&format!("matmul {activation:?}"));
    }
    Ok(())
}

/// In whole numbers, and then by two factors and no fused product: the same bits everywhere.
fn matmul_int8(cpu: Cpu) -> Result<(), picoformer_core::Error> {
    let mut bits = Bits::new();
    for (depth, cols) in [(1, 1), (7, 15), (16, 16), (31, 33), (64, 130), (500, 100), (4096, 17)] {
        for group in [0, 16, 64] {
            let (w, bias) = (numbers(2, cols * depth), lines(&numbers(3, cols)));
            let (codes, scales) = int8_lines(cols, depth, group);
            let (mut codes, mut scales) = (vec![Line::ZERO; codes], vec![Line::ZERO; scales]);
            pack_int8(&w, cols, depth, group, Line::codes_mut(&mut codes), &mut scales);
            let packed = Int8 { codes: Line::codes(&codes), scales: &scales, group };
            for rows in [1, 2, 3, 13] {
                let (x, mut out) = (numbers(1, rows * depth), vec![0.0; rows * cols]);
                let mut quantized = vec![Line::ZERO; rows * row_lines(depth, group)];
                cpu.quantize(&x, depth, group, &mut quantized)?;
                cpu.matmul_int8(&quantized, depth, packed, &bias, Activation::Identity, &mut out, cols)?;
                bits.add(&out);
            }
        }
    }
    bits.print("matmul of eight bits");
    Ok(())
}

/// Over every 1021st float: zeros of both signs, denormals, infinities and NaN are among them.
fn functions(cpu: Cpu) {
    let edges = [0.0, -0.0, f32::MIN_POSITIVE, -f32::MIN_POSITIVE, f32::MAX, f32::MIN, f32::NAN];
    let edges = edges.into_iter().chain([f32::INFINITY, f32::NEG_INFINITY]);
    let xs: Vec<f32> = (0..=u32::MAX / 1021).map(|i| f32::from_bits(i * 1021)).chain(edges).collect();
    for activation in ACTIVATIONS {
        let (mut bits, mut ys) = (Bits::new(), xs.clone());
        cpu.activate(activation, &mut ys);
        bits.add(&ys);
        bits.print(&format!("{activation:?}"));
    }
}

fn rows(cpu: Cpu) -> Result<(), picoformer_core::Error> {
    let [mut softmax, mut layer, mut rms, mut sum] = [(); 4].map(|()| Bits::new());
    for cols in [1, 15, 16, 17, 31, 33, 64, 100, 1000] {
        for scale in [1e-30, 1.0, 40.0, 1e4] {
            let numbers = |seed| numbers(seed, cols * 3).into_iter().map(|x| x * scale).collect::<Vec<f32>>();
            let (x, y) = (numbers(4), numbers(5));
            let (gamma, beta) = (lines(&numbers(6)[..cols]), lines(&numbers(7)[..cols]));
            let mut z = x.clone();
            z.iter_mut().step_by(7).for_each(|x| *x = f32::NEG_INFINITY);
            cpu.softmax(&mut z, cols)?;
            softmax.add(&z);
            for residual in [None, Some(&y[..])] {
                let mut z = x.clone();
                cpu.layer_norm(&mut z, cols, residual, &gamma, &beta, 1e-5)?;
                layer.add(&z);
                z.copy_from_slice(&x);
                cpu.rms_norm(&mut z, cols, residual, &gamma, 1e-5)?;
                rms.add(&z);
            }
            let mut z = x;
            cpu.add(&mut z, &y)?;
            sum.add(&z);
        }
    }
    softmax.print("softmax");
    layer.print("layer_norm");
    rms.print("rms_norm");
    sum.print("add");
    Ok(())
}

fn attention(cpu: Cpu) -> Result<(), picoformer_core::Error> {
    let mut bits = Bits::new();
    for (heads, head_size) in [(1, 1), (2, 15), (3, 16), (2, 40)] {
        for (queries, keys) in [(1, 1), (1, 33), (7, 17), (20, 20), (9, 600)] {
            let heads = Heads { heads, head_size };
            let (width, padded) = (heads.width(), heads.head_lines() * 16);
            let rows = |seed, count: usize| -> Vec<f32> {
                let all = numbers(seed, count * width).into_iter().enumerate();
                all.map(|(i, x)| if i % padded < head_size { 3.0 * x } else { 0.0 }).collect()
            };
            let (query, key, value) = (rows(1, queries), rows(2, keys), rows(3, keys));
            let mut packed_keys = vec![Line::ZERO; heads.key_lines(keys)];
            let mut packed_values = vec![Line::ZERO; heads.value_lines(keys)];
            append_keys_values(
                heads,
                keys,
                0,
                &key,
                &value,
                width,
                keys,
                &mut packed_keys,
                &mut packed_values,
            );
            let keep: Vec<bool> = (0..keys).map(|t| t % 5 != 3).collect();
            for mask in [Mask::None, Mask::Causal, Mask::KeyPadding(&keep)] {
                let shape = AttentionShape {
                    heads,
                    queries,
                    query_stride: width,
                    keys,
                    capacity: keys,
                    first: keys - queries.min(keys),
                    mask,
                };
                let mut scores = vec![Line::ZERO; score_lines(keys)];
                let mut out = vec![0.0; queries * width];
                let mut weights = vec![0.0; heads.heads * queries * keys];
                let shown = Some(&mut weights[..]);
                cpu.attention(&shape, &query, &packed_keys, &packed_values, &mut scores, &mut out, shown)?;
                bits.add(&out);
                bits.add(&weights);
            }
        }
    }
    bits.print("attention");
    Ok(())
}

fn embedding(cpu: Cpu) -> Result<(), picoformer_core::Error> {
    let mut bits = Bits::new();
    for (vocab, d_model) in [(7, 15), (50, 17), (21, 100)] {
        let (table, mut out) = (numbers(12, vocab * d_model), vec![0.0; d_model]);
        let rows: Vec<Line> = table.chunks(d_model).flat_map(lines).collect();
        let (token, product) = cpu.nearest(&rows, vocab, d_model, &numbers(13, d_model))?;
        cpu.embed(&rows, token, d_model, 3.0, &mut out)?;
        bits.add(&[product]);
        bits.add(&out);
    }
    bits.print("nearest, embed");
    let mut bits = Bits::new();
    for layout in [Sinusoid::Interleaved, Sinusoid::Halves] {
        let mut x = vec![0.0; 100 * 33];
        add_sinusoidal(layout, 5000, &mut x, 33);
        bits.add(&x);
    }
    bits.print("positions");
    Ok(())
}

/// Every family of `small` from tokens to scores.
fn small_models(cpu: Cpu) -> Result<(), picoformer_core::Error> {
    let tokens = |seed: u32| [3, 11, 20].map(|n| (0..n).map(|i| (i * 7 + seed + n) % 36).collect::<Vec<_>>());
    for (name, config) in small::families() {
        let mut bits = Bits::new();
        let plan = Plan::new(config)?;
        let blob = small::weights(&plan, 11);
        let capacity = Capacity { batch: 3, source: 40, target: 40, chunk: 4 };
        let model = Model::new(plan, &blob)?.with_capacity(capacity)?;
        let mut arena = vec![Line::ZERO; model.plan().arena()];
        let mut session = model.session(&mut arena, cpu)?;
        let (sources, targets) = (tokens(1), tokens(2));
        if config.has_encoder() {
            session.encode(&sources.each_ref().map(Vec::as_slice))?;
            for i in 0..3 {
                bits.add(session.encoded(i)?);
            }
        }
        if config.has_decoder() {
            let targets = targets.each_ref().map(Vec::as_slice);
            session.decode_each(&targets, |_, _, logits| bits.add(logits))?;
        }
        bits.print(name);
    }
    Ok(())
}

/// The embedded model: what its encoder gives, the scores that follow, and the letters.
fn embedded_model(cpu: Cpu) -> anyhow::Result<()> {
    let mut runner = Runner::new(ModelFile::embedded())?.with_cpu(cpu);
    for word in ["a", "transformer", "incomprehensibility"] {
        let mut bits = Bits::new();
        runner.session(1, usize::MAX, |image, session| {
            let tokenizer = image.source_tokenizer().expect("it reads text");
            let mut tokens = [0; 64];
            let encoded = tokenizer.encode(word, &mut tokens)?;
            session.encode(&[&tokens[..encoded.len]])?;
            bits.add(session.encoded(0)?);
            let begin = image.model().plan().config().begin;
            bits.add(session.decode(&[&[begin, 5, 6, 7]])?);
            Ok(())
        })?;
        bits.print(&format!("embedded model, {word}"));
        println!("{}", runner.transform(word)?.text);
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    let name = std::env::args().nth(1).unwrap_or_default();
    let Some(cpu) = Cpu::all().find(|cpu| cpu.name() == name) else {
        Cpu::all().for_each(|cpu| println!("{}", cpu.name()));
        return Ok(());
    };
    matmul(cpu)?;
    matmul_int8(cpu)?;
    functions(cpu);
    rows(cpu)?;
    attention(cpu)?;
    embedding(cpu)?;
    small_models(cpu)?;
    embedded_model(cpu)
}
