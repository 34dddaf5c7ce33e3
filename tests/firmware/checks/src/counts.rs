//! Cases whose instructions are counted: sizes of the embedded model, in steady state.

use crate::{fill, take};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::int8::{Int8, row_lines};
use picoformer_core::kernels::pack::int8_lines;
use picoformer_core::{Cpu, Error, Line};

/// Lines that the cases need.
pub const LINES: usize = 4096;

/// Runs a case and tells what came of it: its name, its multiply-adds or elements, what runs.
pub type Count<'c> = dyn FnMut(&str, usize, &mut dyn FnMut() -> Result<(), Error>) -> Result<(), Error> + 'c;

/// Every case of kernels.
pub fn kernels(room: &mut [Line], count: &mut Count<'_>) -> Result<(), Error> {
    let cpu = Cpu::detect();
    fill(1, Line::floats_mut(room));
    let identity = Activation::Identity;
    for (name, rows) in
        [("matmul_1x128x128", 1), ("matmul_2x128x128", 2), ("matmul_6x128x128", 6), ("matmul_12x128x128", 12)]
    {
        let mut rest = &mut *room;
        let (x, w) = (take(&mut rest, rows * 128), take(&mut rest, 128 * 128));
        let (bias, out) = (take(&mut rest, 128), take(&mut rest, rows * 128));
        let (x, out) = (Line::floats(x), Line::floats_mut(out));
        count(name, rows * 128 * 128, &mut || cpu.matmul(x, 128, w, bias, identity, out, 128))?;
    }
    int8(room, count)?;
    let numbers = Line::floats_mut(room);
    for (name, rows, cols) in [("softmax_8x128", 8, 128), ("softmax_8x24", 8, 24)] {
        let x = numbers.get_mut(..rows * cols).unwrap_or_default();
        count(name, rows * cols, &mut || cpu.softmax(x, cols))?;
    }
    for (name, f) in [
        ("exp_1024", Activation::Exp),
        ("gelu_erf_1024", Activation::GeluErf),
        ("relu_1024", Activation::Relu),
    ] {
        fill(2, numbers);
        let x = numbers.get_mut(..1024).unwrap_or_default();
        count(name, 1024, &mut || {
            cpu.activate(f, x);
            Ok(())
        })?;
    }
    fill(3, numbers);
    let mut rest = &mut *room;
    let (gamma, beta) = (take(&mut rest, 128), take(&mut rest, 128));
    let (y, x) = (take(&mut rest, 8 * 128), take(&mut rest, 8 * 128));
    let (y, x) = (Line::floats(y), Line::floats_mut(x));
    count("layer_norm_8x128", 8 * 128, &mut || cpu.layer_norm(x, 128, None, gamma, beta, 1e-5))?;
    count("layer_norm_8x128_residual", 8 * 128, &mut || cpu.layer_norm(x, 128, Some(y), gamma, beta, 1e-5))?;

    let heads = Heads { heads: 4, head_size: 32 };
    for (name, queries) in [("attention_4x32_12x12", 12), ("attention_4x32_1x24", 1)] {
        let tokens = if queries == 1 { 24 } else { queries };
        let mut rest = &mut *room;
        let (keys, values) =
            (take(&mut rest, 16 * heads.key_lines(tokens)), take(&mut rest, 16 * heads.value_lines(tokens)));
        let (scores, x) = (take(&mut rest, 16 * score_lines(tokens)), take(&mut rest, tokens * 128));
        let out = Line::floats_mut(take(&mut rest, queries * 128));
        let x = Line::floats_mut(x);
        fill(4, x);
        append_keys_values(heads, tokens, 0, x, x, 128, tokens, keys, values);
        let shape = AttentionShape {
            heads,
            queries,
            query_stride: 128,
            keys: tokens,
            capacity: tokens,
            first: 0,
            mask: Mask::None,
        };
        count(name, 2 * queries * tokens * 128, &mut || {
            cpu.attention(&shape, x, keys, values, scores, out, None)
        })?;
    }
    Ok(())
}

/// Products of eight-bit weights, and what makes the rows for them.
fn int8(room: &mut [Line], count: &mut Count<'_>) -> Result<(), Error> {
    let cpu = Cpu::detect();
    for (name, rows, depth, group) in [
        ("matmul_int8_1x128x128", 1, 128, 0),
        ("matmul_int8_2x128x128", 2, 128, 0),
        ("matmul_int8_12x128x128", 12, 128, 0),
        ("matmul_int8_1x512x128", 1, 512, 0),
        ("matmul_int8_1x512x128_by64", 1, 512, 64),
    ] {
        let mut rest = &mut *room;
        let (codes, scales) = int8_lines(128, depth, group);
        let (codes, scales) = (take(&mut rest, 16 * codes), take(&mut rest, 16 * scales));
        let x = Line::floats(take(&mut rest, rows * depth));
        let (bias, out) = (take(&mut rest, 128), take(&mut rest, rows * 128));
        let quantized = take(&mut rest, 16 * rows * row_lines(depth, group));
        if name == "matmul_int8_2x128x128" {
            count("quantize_2x128", rows * depth, &mut || cpu.quantize(x, depth, group, quantized))?;
        }
        cpu.quantize(x, depth, group, quantized)?;
        let w = Int8 { codes: Line::codes(codes), scales, group };
        let out = Line::floats_mut(out);
        count(name, rows * depth * 128, &mut || {
            cpu.matmul_int8(quantized, depth, w, bias, Activation::Identity, out, 128)
        })?;
    }
    Ok(())
}
