//! Small models with fixed pseudo-random weights, for properties that no trained
//! model is needed for.

use picoformer_core::config::{Config, Element, Elements, NormKind, NormPlace, Output, Positions, Stack};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::pack::{pack, pack_table};
use picoformer_core::parts::Tensor;
use picoformer_core::{Line, Plan, model};

/// Weights of a plan that neither vanish nor explode; pad lanes are zeros.
pub fn weights(plan: &Plan, seed: u32) -> Vec<Line> {
    let mut blob = vec![Line::ZERO; plan.weights()];
    let mut at = 0;
    model::describe(plan, &mut |_, tensor, lines| {
        let small = |count: usize, scale: f32| -> Vec<f32> {
            crate::numbers(seed ^ count as u32, count).iter().map(|x| x * scale).collect()
        };
        let out = &mut blob[at..at + lines];
        let random = crate::numbers(seed ^ at as u32, 16 * lines);
        at += lines;
        match tensor {
            Tensor::Linear { cols, depth, bias, element, .. } if element != Element::F32 => {
                let weights = small(cols * depth, 1.0 / (depth as f32).sqrt());
                let (packed, shift) = out.split_at_mut(lines - if bias { cols.div_ceil(16) } else { 0 });
                pack(element, &weights, cols, depth, packed);
                let shift = Line::floats_mut(shift);
                shift.iter_mut().zip(random).take(cols).for_each(|(x, r)| *x = 0.1 * r);
            }
            Tensor::Table { rows, d_model, tied, element } if element != Element::F32 => {
                let table = small(rows * d_model, 0.2);
                match tied {
                    true => pack(element, &table, rows, d_model, out),
                    false => pack_table(element, &table, rows, d_model, out),
                }
            }
            Tensor::Linear { cols, depth, .. } => {
                let floats = Line::floats_mut(out);
                let panels = cols.div_ceil(16);
                for (i, (x, r)) in floats.iter_mut().zip(random).enumerate() {
                    let (line, lane) = (i / 16, i % 16);
                    let panel = if line < panels * depth { line / depth } else { line - panels * depth };
                    let column = panel * 16 + lane;
                    *x = if column < cols { r / (depth as f32).sqrt() } else { 0.0 };
                }
            }
            Tensor::Norm { d_model, .. } => {
                let floats = Line::floats_mut(out);
                let each = Line::count(d_model) * 16;
                for (i, (x, r)) in floats.iter_mut().zip(random).enumerate() {
                    *x = 0.1 * r + if i < each { 1.0 } else { 0.0 };
                }
            }
            Tensor::Table { .. } | Tensor::Bias { .. } => {
                Line::floats_mut(out).iter_mut().zip(random).for_each(|(x, r)| *x = 0.2 * r);
            }
        }
    });
    blob
}

/// A small encoder–decoder of the paper's kind.
pub const PAPER: Config = Config {
    d_model: 32,
    heads: 4,
    d_ff: 48,
    encoder_layers: 2,
    decoder_layers: 2,
    source_vocab: 40,
    target_vocab: 37,
    source_context: 40,
    target_context: 40,
    ..Config::PAPER
};

/// One configuration of every family: stacks, norms, activations, positions, outputs.
pub fn families() -> Vec<(&'static str, Config)> {
    let bert = Config {
        stack: Stack::Encoder,
        decoder_layers: 0,
        target_vocab: 0,
        target_context: 0,
        scaled_embedding: false,
        positions: Positions::Learned,
        norm_eps: 1e-12,
        embedding_norm: true,
        activation: Activation::GeluErf,
        output: Output::None,
        begin: 0,
        end: 0,
        ..PAPER
    };
    let gpt = Config {
        stack: Stack::Decoder,
        encoder_layers: 0,
        source_vocab: 0,
        source_context: 0,
        scaled_embedding: false,
        positions: Positions::Learned,
        position_offset: 2,
        norm_place: NormPlace::Pre,
        final_norm: true,
        activation: Activation::GeluTanh,
        output: Output::Tied,
        output_bias: false,
        ..PAPER
    };
    let shared = Config {
        target_vocab: 40,
        shared_embedding: true,
        positions: Positions::SinusoidalHalves,
        output: Output::Tied,
        attention_bias: false,
        ..PAPER
    };
    let rms = Config {
        norm: NormKind::Rms,
        norm_place: NormPlace::Pre,
        final_norm: true,
        activation: Activation::Silu,
        attention_bias: false,
        feed_forward_bias: false,
        d_model: 30,
        heads: 3,
        ..PAPER
    };
    let int8 = Elements::all(Element::Int8);
    let by_64 = Elements::all(Element::Int8By64);
    vec![
        ("paper", PAPER),
        ("bert", bert),
        ("gpt", gpt),
        ("shared and tied", shared),
        ("rms, pre-norm", rms),
        ("paper in eight bits", Config { elements: int8, d_ff: 50, ..PAPER }),
        ("bert in eight bits", Config { elements: by_64, d_model: 72, d_ff: 100, ..bert }),
        ("gpt in eight bits", Config { elements: int8, ..gpt }),
        ("shared and tied in eight bits", Config { elements: by_64, d_model: 80, ..shared }),
        ("paper in sixteen bits", Config { elements: Elements::all(Element::F16), d_ff: 50, ..PAPER }),
        ("gpt in sixteen bits", Config { elements: Elements::all(Element::Bf16), ..gpt }),
        ("shared and tied in sixteen bits", Config { elements: Elements::all(Element::F16), ..shared }),
        ("rms in eight bits", Config { elements: Elements { output: Element::F32, ..int8 }, ..rms }),
    ]
}
