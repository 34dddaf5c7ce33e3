//! Whether the kernels compute on this CPU what they should: each of a backend's beside a plain
//! loop, at sizes that take every tile.
//!
//! For a program that must not trust its CPU, or its emulator, compiler or memory: milliseconds,
//! and no part of programs that do not ask.
//!
//! ```
//! use picoformer_core::{Cpu, Line, selftest};
//! let mut room = [Line::ZERO; selftest::LINES];
//! for cpu in Cpu::all() {
//!     selftest::run(cpu, &mut room)?;
//! }
//! # Ok::<(), picoformer_core::Error>(())
//! ```

use crate::kernels::activation::Activation;
use crate::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use crate::kernels::int8::{Int8, row_lines};
use crate::line::{Codes, LANES, Line};
use crate::{Cpu, Error};
use core::ffi::CStr;

/// Lines that [`run`] needs: 16 KiB.
pub const LINES: usize = 256;

/// A kernel by its name.
macro_rules! kernels {
    ($($name:ident = $text:literal,)*) => {
        /// What the test tests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[allow(missing_docs, reason = "they are the methods of `Cpu`, and the functions of `activate`")]
        #[non_exhaustive]
        pub enum Kernel { $($name,)* }

        impl Kernel {
            /// Every one.
            pub const ALL: &[Kernel] = &[$(Kernel::$name,)*];

            /// Its name, as C reads it.
            pub(crate) const fn c_name(self) -> &'static CStr {
                match self { $(Kernel::$name => $text,)* }
            }
        }
    };
}

kernels! {
    Matmul = c"matmul",
    Relu = c"relu",
    GeluErf = c"gelu_erf",
    GeluTanh = c"gelu_tanh",
    Silu = c"silu",
    Tanh = c"tanh",
    Sigmoid = c"sigmoid",
    Exp = c"exp",
    Softmax = c"softmax",
    LayerNorm = c"layer_norm",
    RmsNorm = c"rms_norm",
    Add = c"add",
    Quantize = c"quantize",
    MatmulInt8 = c"matmul_int8",
    Attention = c"attention",
    Embed = c"embed",
    Nearest = c"nearest",
}

impl Kernel {
    /// Its name, such as `"layer_norm"`.
    pub fn name(self) -> &'static str {
        self.c_name().to_str().unwrap_or("")
    }
}

/// What may be done to a result before it is looked at: a fault, in the test of this test.
type Fault<'f> = &'f mut dyn FnMut(Kernel, &mut [f32]);

/// Tests the kernels of a backend, in [`LINES`] of memory, whatever they hold.
///
/// # Errors
/// [`Error::Kernel`] names the first kernel that is wrong; [`Error::Arena`] if there are too few
/// lines.
pub fn run(cpu: Cpu, room: &mut [Line]) -> Result<(), Error> {
    run_with(cpu, room, &mut |_, _| ())
}

/// [`run`] with a fault: how it is known that one would be seen.
#[doc(hidden)]
pub fn run_with(cpu: Cpu, room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    let room = room.get_mut(..LINES).ok_or(Error::Arena { need: LINES })?;
    matmul(cpu, room, fault)?;
    activations(cpu, room, fault)?;
    softmax(cpu, room, fault)?;
    norms(cpu, room, fault)?;
    int8(cpu, room, fault)?;
    attention(cpu, room, fault)?;
    embedding(cpu, room, fault)
}

/// The `i`-th of some multiples of 1/64 in -1..1, of which products and sums are exact.
fn number(i: usize) -> f32 {
    ((i.wrapping_mul(40_503) >> 4) % 128) as f32 / 64.0 - 1.0
}

/// Fills with numbers, each list others.
fn fill(floats: &mut [f32], list: usize) {
    for (i, x) in floats.iter_mut().enumerate() {
        *x = number(i + 1000 * list);
    }
}

/// The first `lines` of what is left, as floats.
fn take<'a>(room: &mut &'a mut [Line], lines: usize) -> Result<&'a mut [Line], Error> {
    let (first, rest) =
        core::mem::take(room).split_at_mut_checked(lines).ok_or(Error::Arena { need: LINES })?;
    *room = rest;
    Ok(first)
}

/// The first floats of what is left, as many lines as they take.
fn floats<'a>(room: &mut &'a mut [Line], count: usize) -> Result<&'a mut [f32], Error> {
    let lines = take(room, Line::count(count))?;
    Line::floats_mut(lines).get_mut(..count).ok_or(Error::Arena { need: LINES })
}

/// Refuses a result that is not within `bound` of what is expected, relative to that or to 1.
fn compare(
    kernel: Kernel,
    fault: Fault<'_>,
    found: &mut [f32],
    bound: f32,
    expected: impl Fn(usize) -> f32,
) -> Result<(), Error> {
    fault(kernel, found);
    for (i, x) in found.iter().enumerate() {
        let expected = expected(i);
        // NaN is within nothing.
        let within = (x - expected).abs() <= bound * (1.0 + expected.abs());
        if !within {
            return Err(Error::Kernel(kernel));
        }
    }
    Ok(())
}

fn matmul(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    const ROWS: usize = 13;
    const COLS: usize = 130;
    const DEPTH: usize = 9;
    let x = floats(&mut room, ROWS * DEPTH)?;
    let panels = take(&mut room, Line::count(COLS) * DEPTH)?;
    let bias = take(&mut room, Line::count(COLS))?;
    let out = floats(&mut room, ROWS * COLS)?;
    fill(x, 1);
    fill(Line::floats_mut(panels), 2);
    fill(Line::floats_mut(bias), 3);
    let sum = |i: usize| {
        let (row, col) = (i / COLS, i % COLS);
        let (panel, lane) = (col / LANES, col % LANES);
        let weights = Line::floats(panels).iter().skip(panel * DEPTH * LANES + lane).step_by(LANES);
        let products = x.iter().skip(row * DEPTH).take(DEPTH).zip(weights).map(|(x, w)| x * w);
        products.sum::<f32>() + Line::floats(bias).get(col).unwrap_or(&0.0)
    };
    // Each number of rows has its tiles.
    for rows in 1..=ROWS {
        let out = out.get_mut(..rows * COLS).unwrap_or_default();
        let activation = if rows % 2 == 0 { Activation::Relu } else { Activation::Identity };
        out.fill(f32::NAN);
        cpu.matmul(x, DEPTH, panels, bias, activation, out, COLS)?;
        compare(Kernel::Matmul, fault, out, 0.0, |i| match rows % 2 {
            0 => sum(i).max(0.0),
            _ => sum(i),
        })?;
    }
    Ok(())
}

fn activations(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    // From -12 to 12, and a tail.
    const COUNT: usize = 101;
    let x = |i: usize| (i as f32 - 50.0) * 0.24;
    let found = floats(&mut room, COUNT)?;
    let sigmoid = |x: f32| 1.0 / (1.0 + libm::expf(-x));
    type Formula<'f> = &'f dyn Fn(f32) -> f32;
    let each: [(Kernel, Activation, Formula<'_>); 7] = [
        (Kernel::Relu, Activation::Relu, &|x| if x > 0.0 { x } else { 0.0 }),
        (Kernel::GeluErf, Activation::GeluErf, &|x| 0.5 * x * (1.0 + libm::erff(x * 0.707_106_77))),
        (Kernel::GeluTanh, Activation::GeluTanh, &|x| x * sigmoid(1.595_769_2 * (x + 0.044_715 * x * x * x))),
        (Kernel::Silu, Activation::Silu, &|x| x * sigmoid(x)),
        (Kernel::Tanh, Activation::Tanh, &libm::tanhf),
        (Kernel::Sigmoid, Activation::Sigmoid, &sigmoid),
        (Kernel::Exp, Activation::Exp, &libm::expf),
    ];
    for (kernel, activation, formula) in each {
        found.iter_mut().enumerate().for_each(|(i, found)| *found = x(i));
        cpu.activate(activation, found);
        compare(kernel, fault, found, 2e-6, |i| formula(x(i)))?;
    }
    Ok(())
}

fn softmax(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    // Two rows of four lines and more; every fifth is masked.
    const COLS: usize = 85;
    let x = floats(&mut room, 2 * COLS)?;
    let score = |i: usize| if i % 5 == 2 { f32::NEG_INFINITY } else { 4.0 * number(i) };
    x.iter_mut().enumerate().for_each(|(i, x)| *x = score(i));
    cpu.softmax(x, COLS)?;
    let sum = |row: usize| (0..COLS).map(|i| libm::expf(score(row * COLS + i))).sum::<f32>();
    let sums = [sum(0), sum(1)];
    compare(Kernel::Softmax, fault, x, 1e-6, |i| {
        libm::expf(score(i)) / if i < COLS { sums[0] } else { sums[1] }
    })
}

fn norms(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    const COLS: usize = 85;
    const EPS: f32 = 1e-5;
    let gamma = take(&mut room, Line::count(COLS))?;
    let beta = take(&mut room, Line::count(COLS))?;
    let residual = floats(&mut room, 2 * COLS)?;
    let x = floats(&mut room, 2 * COLS)?;
    fill(Line::floats_mut(gamma), 4);
    fill(Line::floats_mut(beta), 5);
    fill(residual, 6);
    let residual = &*residual;
    let sum = |i: usize| number(i + 7000) + residual.get(i).unwrap_or(&0.0);
    let (g, b) = (
        |i: usize| Line::floats(gamma).get(i % COLS).copied().unwrap_or(0.0),
        |i: usize| Line::floats(beta).get(i % COLS).copied().unwrap_or(0.0),
    );
    let mean = |row: usize, f: &dyn Fn(f32) -> f32| {
        (0..COLS).map(|i| f(sum(row * COLS + i))).sum::<f32>() / COLS as f32
    };

    fill(x, 7);
    cpu.add(x, residual)?;
    compare(Kernel::Add, fault, x, 0.0, sum)?;

    let moments = |row: usize| {
        let middle = mean(row, &|x| x);
        (middle, 1.0 / libm::sqrtf(mean(row, &|x| (x - middle) * (x - middle)) + EPS))
    };
    let rows = [moments(0), moments(1)];
    fill(x, 7);
    cpu.layer_norm(x, COLS, Some(residual), gamma, beta, EPS)?;
    compare(Kernel::LayerNorm, fault, x, 4e-6, |i| {
        let (middle, scale) = if i < COLS { rows[0] } else { rows[1] };
        (sum(i) - middle) * scale * g(i) + b(i)
    })?;

    let root = |row: usize| 1.0 / libm::sqrtf(mean(row, &|x| x * x) + EPS);
    let rows = [root(0), root(1)];
    fill(x, 7);
    cpu.rms_norm(x, COLS, Some(residual), gamma, EPS)?;
    compare(Kernel::RmsNorm, fault, x, 4e-6, |i| sum(i) * if i < COLS { rows[0] } else { rows[1] } * g(i))
}

fn int8(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    // Three groups, the last of five steps; a row of them is one line of sixteen words.
    const ROWS: usize = 9;
    const COLS: usize = 70;
    const DEPTH: usize = 37;
    const GROUP: usize = 16;
    const PANELS: usize = COLS.div_ceil(LANES);
    const QUADS: usize = DEPTH.div_ceil(4);
    const GROUPS: usize = DEPTH.div_ceil(GROUP);
    const { assert!(row_lines(DEPTH, GROUP) == 1) };
    let x = floats(&mut room, ROWS * DEPTH)?;
    let rows = take(&mut room, ROWS)?;
    let codes = take(&mut room, PANELS * QUADS)?;
    let scales = take(&mut room, PANELS * GROUPS)?;
    let out = floats(&mut room, ROWS * COLS)?;
    fill(x, 8);
    let x = &*x;
    cpu.quantize(x, DEPTH, GROUP, rows)?;
    let rows = &*rows;
    let word = |row: usize, i: usize| Line::words(rows).get(row * LANES + i).copied().unwrap_or(0);
    let code = |row: usize, k: usize| (word(row, k / 4) >> (8 * (k % 4))) as u8 as i8;
    let scale = |row: usize, group: usize| f32::from_bits(word(row, QUADS + group));
    let codes_out = out.get_mut(..ROWS * DEPTH).unwrap_or_default();
    codes_out.iter_mut().enumerate().for_each(|(i, out)| {
        *out = f32::from(code(i / DEPTH, i % DEPTH)) * scale(i / DEPTH, i % DEPTH / GROUP);
    });
    // No number is farther from its code than half a step.
    compare(Kernel::Quantize, fault, codes_out, 0.5 / 127.0, |i| x.get(i).copied().unwrap_or(0.0))?;

    for (i, Codes(line)) in Line::codes_mut(codes).iter_mut().enumerate() {
        for (j, byte) in line.iter_mut().enumerate() {
            // A code of -127..=127, plus 128.
            *byte = 1 + ((i * 64 + j).wrapping_mul(40_503) >> 3) as u8 % 255;
        }
    }
    fill(Line::floats_mut(scales), 9);
    let w = Int8 { codes: Line::codes(codes), scales, group: GROUP };
    let sum = |i: usize| {
        let (row, col) = (i / COLS, i % COLS);
        let (panel, lane) = (col / LANES, col % LANES);
        let weight = |k: usize| {
            let line = w.codes.get(panel * QUADS + k / 4);
            line.and_then(|line| line.0.get(4 * lane + k % 4)).map_or(0, |byte| i32::from(*byte) - 128)
        };
        let group = |g: usize| {
            let steps = g * GROUP..DEPTH.min((g + 1) * GROUP);
            let sum: i32 = steps.map(|k| i32::from(code(row, k)) * weight(k)).sum();
            let scales = w.scales.get(panel * GROUPS + g).and_then(|line| line.0.get(lane));
            sum as f32 * scales.unwrap_or(&0.0) * scale(row, g)
        };
        (0..GROUPS).map(group).sum()
    };
    for count in 1..=ROWS {
        let rows = rows.get(..count).unwrap_or_default();
        let out = out.get_mut(..count * COLS).unwrap_or_default();
        out.fill(f32::NAN);
        cpu.matmul_int8(rows, DEPTH, w, &[], Activation::Identity, out, COLS)?;
        compare(Kernel::MatmulInt8, fault, out, 1e-5, sum)?;
    }
    Ok(())
}

fn attention(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    const HEADS: Heads = Heads { heads: 2, head_size: 17 };
    const WIDTH: usize = HEADS.width();
    const HEAD: usize = WIDTH / 2;
    const QUERIES: usize = 9;
    const KEYS: usize = 19;
    const FIRST: usize = KEYS - QUERIES;
    let keys = take(&mut room, HEADS.key_lines(KEYS))?;
    let values = take(&mut room, HEADS.value_lines(KEYS))?;
    let query = floats(&mut room, QUERIES * WIDTH)?;
    let key = floats(&mut room, WIDTH)?;
    let value = floats(&mut room, WIDTH)?;
    let scores = take(&mut room, score_lines(KEYS))?;
    let out = floats(&mut room, QUERIES * WIDTH)?;
    // Features beyond a head's are zeros.
    let of = |list: usize, row: usize, f: usize| match f % HEAD < HEADS.head_size {
        true => number(row * WIDTH + f + 1000 * list),
        false => 0.0,
    };
    query.iter_mut().enumerate().for_each(|(i, x)| *x = of(10, i / WIDTH, i % WIDTH));
    for t in 0..KEYS {
        key.iter_mut().enumerate().for_each(|(f, x)| *x = of(11, t, f));
        value.iter_mut().enumerate().for_each(|(f, x)| *x = of(12, t, f));
        append_keys_values(HEADS, KEYS, t, key, value, WIDTH, 1, keys, values);
    }
    // The fourth key is padding.
    let keep: [bool; KEYS] = core::array::from_fn(|t| t != 3);
    let mask = Mask::CausalKeyPadding(&keep);
    let shape = AttentionShape {
        heads: HEADS,
        queries: QUERIES,
        query_stride: WIDTH,
        keys: KEYS,
        capacity: KEYS,
        first: FIRST,
        mask,
    };
    cpu.attention(&shape, query, keys, values, scores, out, None)?;
    let scale = 1.0 / libm::sqrtf(HEADS.head_size as f32);
    compare(Kernel::Attention, fault, out, 2e-6, |i| {
        let (row, f) = (i / WIDTH, i % WIDTH);
        let head = f / HEAD * HEAD;
        let (mut sum, mut total) = (0.0, 0.0);
        for t in (0..=FIRST + row).filter(|t| *t != 3) {
            let score: f32 = (head..head + HEAD).map(|f| of(10, row, f) * of(11, t, f)).sum();
            // Scores are small: none overflows.
            let weight = libm::expf(score * scale);
            sum += weight;
            total += weight * of(12, t, f);
        }
        total / sum
    })
}

fn embedding(cpu: Cpu, mut room: &mut [Line], fault: Fault<'_>) -> Result<(), Error> {
    const VOCAB: usize = 33;
    const D_MODEL: usize = 37;
    let table = take(&mut room, VOCAB * Line::count(D_MODEL))?;
    let x = floats(&mut room, D_MODEL)?;
    let of = |token: usize, f: usize| if f < D_MODEL { number(token * 64 + f + 13_000) } else { 0.0 };
    let width = Line::count(D_MODEL) * LANES;
    let cells = Line::floats_mut(table).iter_mut().enumerate();
    cells.for_each(|(i, cell)| *cell = of(i / width, i % width));
    for token in [0, 21, VOCAB - 1] {
        cpu.embed(table, token as u32, D_MODEL, 2.0, x)?;
        compare(Kernel::Embed, fault, x, 0.0, |f| 2.0 * of(token, f))?;
    }
    fill(x, 14);
    let dot = |token: usize| x.iter().enumerate().map(|(f, x)| x * of(token, f)).sum::<f32>();
    // Exact sums: of equal ones the first.
    let best = (1..VOCAB).fold((0, dot(0)), |best, token| {
        let product = dot(token);
        if product > best.1 { (token, product) } else { best }
    });
    let (token, product) = cpu.nearest(table, VOCAB, D_MODEL, x)?;
    compare(Kernel::Nearest, fault, &mut [token as f32, product], 0.0, |i| match i {
        0 => best.0 as f32,
        _ => best.1,
    })
}
