//! Every kernel against a plain loop in f64, within the bounds that the tests on a host use
//! (`tests/tests/kernels.rs`, `numerics.rs`): sizes around a line's, guards around outputs.

use crate::{fill, take};
use libm::{erfc, exp, fabs, sqrt, tanh};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::int8::{Int8, groups, row_lines};
use picoformer_core::kernels::pack::{int8_lines, pack_int8, pack_linear, panel_lines};
use picoformer_core::{Cpu, Error, Line};

/// Lines that the smallest board has room for; the larger sizes need more.
pub const LINES: usize = 144;

const LENGTHS: [usize; 7] = [1, 15, 16, 17, 31, 33, 1000];
const GUARD: f32 = 4321.5;

/// What a kernel's results were found to be.
#[derive(Clone, Copy)]
pub struct Found {
    /// Numbers that were compared.
    pub count: usize,
    /// The largest error, in parts of the one that is allowed: at most 1, or infinite.
    pub worst: f64,
    /// Whether something outside the output was written.
    pub outside: bool,
}

impl Found {
    const NOTHING: Found = Found { count: 0, worst: 0.0, outside: false };

    fn compare(&mut self, found: f32, expected: f64, bound: f64) {
        let off = fabs(f64::from(found) - expected);
        let part = match off {
            0.0 => 0.0,
            _ => off / bound,
        };
        self.count += 1;
        // NaN is worst as well.
        if !(part <= self.worst) {
            self.worst = if part.is_nan() { f64::INFINITY } else { part };
        }
    }

    /// Whether all was as it should be.
    pub fn ok(&self) -> bool {
        self.count > 0 && self.worst <= 1.0 && !self.outside
    }
}

/// Calls `say` with each kernel's name and what was found.
pub fn all(room: &mut [Line], say: &mut dyn FnMut(&str, Found)) -> Result<(), Error> {
    say("matmul", matmul(room)?);
    say("matmul_int8", matmul_int8(room)?);
    say("softmax", softmax(room)?);
    say("layer_norm", norm(room, true)?);
    say("rms_norm", norm(room, false)?);
    say("attention", attention(room)?);
    for (name, function, bound) in FUNCTIONS {
        say(name, activation(room, function, bound));
    }
    Ok(())
}

/// `length` floats with guards around them, `shift` beyond a line's start.
struct Guarded<'a> {
    floats: &'a mut [f32],
    start: usize,
    length: usize,
}

impl<'a> Guarded<'a> {
    fn new(rest: &mut &'a mut [Line], length: usize, shift: usize) -> Self {
        let floats = Line::floats_mut(take(rest, length + 32 + shift));
        floats.fill(GUARD);
        Guarded { floats, start: 16 + shift, length }
    }
    fn inside(&mut self) -> &mut [f32] {
        &mut self.floats[self.start..self.start + self.length]
    }
    fn broken(&self) -> bool {
        let (before, after) = (&self.floats[..self.start], &self.floats[self.start + self.length..]);
        before.iter().chain(after).any(|x| *x != GUARD)
    }
}

fn matmul(room: &mut [Line]) -> Result<Found, Error> {
    let mut found = Found::NOTHING;
    for (cols, depth) in [(1, 1), (15, 16), (16, 17), (17, 33), (33, 17), (31, 0), (100, 130)] {
        let need =
            Line::count(cols * depth) + panel_lines(cols, depth) + 12 + 3 * Line::count(7 * (depth + cols));
        if need > room.len() {
            continue;
        }
        for rows in 1..=7 {
            for activation in [Activation::Identity, Activation::Relu] {
                let mut rest = &mut *room;
                let w = &mut Line::floats_mut(take(&mut rest, cols * depth))[..cols * depth];
                let panels = take(&mut rest, 16 * panel_lines(cols, depth));
                let (x, bias) = (take(&mut rest, rows * depth), take(&mut rest, cols));
                fill(1, Line::floats_mut(x));
                fill(2, w);
                fill(3, Line::floats_mut(bias));
                pack_linear(w, cols, depth, panels);
                let mut out = Guarded::new(&mut rest, rows * cols, cols % 16);
                let x = Line::floats(x);
                Cpu::detect().matmul(x, depth, panels, bias, activation, out.inside(), cols)?;
                let bias = Line::floats(bias);
                for (i, y) in out.inside().iter().enumerate() {
                    let (row, col) = (i / cols, i % cols);
                    let (mut sum, mut absolute) = (f64::from(bias[col]), fabs(f64::from(bias[col])));
                    for k in 0..depth {
                        let product = f64::from(x[row * depth + k]) * f64::from(w[col * depth + k]);
                        (sum, absolute) = (sum + product, absolute + fabs(product));
                    }
                    let sum = if activation == Activation::Relu && sum < 0.0 { 0.0 } else { sum };
                    found.compare(*y, sum, (depth + 2) as f64 * EPSILON / 2.0 * absolute);
                }
                found.outside |= out.broken();
            }
        }
    }
    Ok(found)
}

/// The same bits as the formula in whole numbers of 64 bits: words of every rest of the depth,
/// one and several panels and groups, odd and even rows, and codes of the largest magnitude.
fn matmul_int8(room: &mut [Line]) -> Result<Found, Error> {
    let mut found = Found::NOTHING;
    let sizes = [(1, 1), (15, 4), (16, 17), (17, 23), (33, 64), (16, 100), (48, 136), (40, 300)];
    for ((cols, depth), group) in sizes.into_iter().flat_map(|size| [0, 16, 64].map(|group| (size, group))) {
        let ((codes, scales), each) = (int8_lines(cols, depth, group), row_lines(depth, group));
        for (rows, extreme) in [(1, false), (2, false), (3, false), (5, true)] {
            let floats = Line::count(cols * depth) + Line::count(rows * depth);
            let need = floats + codes + scales + rows * each + Line::count(cols);
            if need + Line::count(rows * cols + cols % 16 + 32) > room.len() {
                continue;
            }
            let mut rest = &mut *room;
            let w = &mut Line::floats_mut(take(&mut rest, cols * depth))[..cols * depth];
            let x = &mut Line::floats_mut(take(&mut rest, rows * depth))[..rows * depth];
            let (codes, scales) = (take(&mut rest, 16 * codes), take(&mut rest, 16 * scales));
            let (quantized, bias) = (take(&mut rest, 16 * rows * each), take(&mut rest, cols));
            fill(1, x);
            fill(2, w);
            fill(3, Line::floats_mut(bias));
            if extreme {
                x.iter_mut().chain(&mut *w).for_each(|x| *x = x.signum());
            }
            pack_int8(w, cols, depth, group, Line::codes_mut(codes), scales);
            Cpu::detect().quantize(x, depth, group, quantized)?;
            let mut out = Guarded::new(&mut rest, rows * cols, cols % 16);
            let w = Int8 { codes: Line::codes(codes), scales, group };
            Cpu::detect().matmul_int8(quantized, depth, w, bias, Activation::Identity, out.inside(), cols)?;
            let (groups, quads) = (groups(depth, group), depth.div_ceil(4));
            let steps = if groups == 1 { depth } else { group };
            for (i, y) in out.inside().iter().enumerate() {
                let (row, col) = (i / cols, i % cols);
                let x = &Line::bytes(quantized)[row * each * 64..];
                let mut total = 0.0;
                for g in 0..groups {
                    let product = |k: usize| {
                        let w = w.codes[col / 16 * quads + k / 4].0[4 * (col % 16) + k % 4];
                        i64::from(x[k] as i8) * (i64::from(w) - 128)
                    };
                    let sum: i64 = (g * steps..depth.min((g + 1) * steps)).map(product).sum();
                    let scale = &x[4 * (quads + g)..][..4];
                    let scale = f32::from_le_bytes([scale[0], scale[1], scale[2], scale[3]]);
                    total += sum as f32 * scales[col / 16 * groups + g].0[col % 16] * scale;
                }
                let total = total + Line::floats(bias)[col];
                let same = y.to_bits() == total.to_bits();
                found.compare(if same { total } else { f32::NAN }, f64::from(total), 1.0);
            }
            found.outside |= out.broken();
        }
    }
    Ok(found)
}

/// 2^-23.
const EPSILON: f64 = f32::EPSILON as f64;

fn softmax(room: &mut [Line]) -> Result<Found, Error> {
    let mut found = Found::NOTHING;
    for n in LENGTHS.into_iter().filter(|n| 2 * Line::count(3 * n) + 4 <= LINES || *n == 1000) {
        if 2 * Line::count(3 * n) + 4 > room.len() {
            continue;
        }
        for shift in [0, 1, 7] {
            let mut rest = &mut *room;
            let before = &mut Line::floats_mut(take(&mut rest, 3 * n))[..3 * n];
            fill(6, before);
            before.iter_mut().for_each(|x| *x *= 40.0);
            // The last row sees nothing, and of the second, one entry is not seen.
            before[2 * n..].fill(f32::NEG_INFINITY);
            if n > 1 {
                before[n] = f32::NEG_INFINITY;
            }
            let mut x = Guarded::new(&mut rest, 3 * n, shift);
            x.inside().copy_from_slice(before);
            Cpu::detect().softmax(x.inside(), n)?;
            for (row, before) in x.inside().chunks(n).zip(before.chunks(n)) {
                let max = before.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
                let e = |x: &f32| exp(f64::from(*x) - f64::from(max));
                let sum: f64 = before.iter().map(e).sum();
                for (y, x) in row.iter().zip(before) {
                    match *x == f32::NEG_INFINITY {
                        true => found.compare(*y, 0.0, 0.0),
                        false => {
                            let (exact, distance) = (e(x) / sum, f64::from(max - x));
                            found.compare(*y, exact, EPSILON * exact * (6.0 + distance) + 1e-38);
                        }
                    }
                }
            }
            found.outside |= x.broken();
        }
    }
    Ok(found)
}

fn norm(room: &mut [Line], layer: bool) -> Result<Found, Error> {
    const EPS: f32 = 1e-5;
    let mut found = Found::NOTHING;
    for n in LENGTHS {
        if 3 * Line::count(2 * n) + 2 * Line::count(n) + 4 > room.len() {
            continue;
        }
        for (offset, with) in [(0.0, false), (0.0, true), (1e4, false), (-1e4, true)] {
            let mut rest = &mut *room;
            let before = &mut Line::floats_mut(take(&mut rest, 2 * n))[..2 * n];
            fill(8, before);
            before.iter_mut().for_each(|x| *x += offset);
            let residual = Line::floats_mut(take(&mut rest, 2 * n));
            fill(9, residual);
            let (gamma, beta) = (take(&mut rest, n), take(&mut rest, n));
            fill(10, Line::floats_mut(gamma));
            fill(11, Line::floats_mut(beta));
            let mut x = Guarded::new(&mut rest, 2 * n, n % 16);
            x.inside().copy_from_slice(before);
            let (cpu, y) = (Cpu::detect(), with.then_some(&residual[..2 * n]));
            match layer {
                true => cpu.layer_norm(x.inside(), n, y, gamma, beta, EPS)?,
                false => cpu.rms_norm(x.inside(), n, y, gamma, EPS)?,
            }
            let (gamma, beta) = (Line::floats(gamma), Line::floats(beta));
            for (r, row) in x.inside().chunks(n).enumerate() {
                let z = |i: usize| match with {
                    true => f64::from(before[r * n + i] + residual[r * n + i]),
                    false => f64::from(before[r * n + i]),
                };
                let mean = if layer { (0..n).map(z).sum::<f64>() / n as f64 } else { 0.0 };
                let squares = (0..n).map(|i| (z(i) - mean) * (z(i) - mean)).sum::<f64>();
                let deviation = sqrt(squares / n as f64 + f64::from(EPS));
                for (i, y) in row.iter().enumerate() {
                    let beta = if layer { f64::from(beta[i]) } else { 0.0 };
                    found.compare(*y, (z(i) - mean) / deviation * f64::from(gamma[i]) + beta, 4e-6);
                }
            }
            found.outside |= x.broken();
        }
    }
    Ok(found)
}

fn attention(room: &mut [Line]) -> Result<Found, Error> {
    let mut found = Found::NOTHING;
    let sizes = [(1, 1), (1, 17), (2, 5), (3, 16), (2, 33)];
    let lengths = [(1, 1, 1), (5, 17, 17), (4, 9, 13), (9, 40, 48), (2, 300, 310)];
    for ((heads, head_size), (queries, keys, capacity)) in
        sizes.into_iter().flat_map(|size| lengths.map(|length| (size, length)))
    {
        let heads = Heads { heads, head_size };
        let width = heads.width();
        let rows = |count: usize| count * width / 16;
        let packed = heads.key_lines(capacity) + heads.value_lines(capacity);
        if packed + rows(keys) + 2 * rows(queries) + 2 + score_lines(keys) > room.len() {
            continue;
        }
        let mut flags = [true; 600];
        flags.iter_mut().enumerate().for_each(|(i, keep)| *keep = i * 7 % 5 != 3 && i / keys != 2);
        let some = &flags[..keys * queries];
        let first = keys.saturating_sub(queries);
        for mask in [
            Mask::None,
            Mask::Causal,
            Mask::KeyPadding(&some[..keys]),
            Mask::CausalKeyPadding(&some[..keys]),
            Mask::Arbitrary(some),
        ] {
            let mut rest = &mut *room;
            let packed_keys = take(&mut rest, 16 * heads.key_lines(capacity));
            let packed_values = take(&mut rest, 16 * heads.value_lines(capacity));
            packed_keys.fill(Line([f32::NAN; 16]));
            packed_values.fill(Line([f32::NAN; 16]));
            let (k, q) = (take(&mut rest, keys * width), take(&mut rest, queries * width));
            let padded = heads.head_lines() * 16;
            for (seed, x) in [(1, &mut *k), (2, &mut *q)] {
                let x = Line::floats_mut(x);
                fill(seed, x);
                for (i, x) in x.iter_mut().enumerate() {
                    *x = if i % padded < head_size { *x * 2.0 } else { 0.0 };
                }
            }
            let (k, q) = (Line::floats(k), Line::floats(q));
            append_keys_values(heads, capacity, 0, k, k, width, keys, packed_keys, packed_values);
            let scores = take(&mut rest, 16 * score_lines(keys));
            let mut out = Guarded::new(&mut rest, queries * width, 0);
            let shape = AttentionShape { heads, queries, query_stride: width, keys, capacity, first, mask };
            Cpu::detect().attention(&shape, q, packed_keys, packed_values, scores, out.inside(), None)?;

            for (i, y) in out.inside().iter().enumerate() {
                let (query, at) = (i / width, i % width);
                let (head, feature) = (at / padded * padded, at % padded);
                if feature >= head_size {
                    continue;
                }
                let keep = |t: &usize| match mask {
                    Mask::None => true,
                    Mask::Causal => *t <= first + query,
                    Mask::KeyPadding(keep) => keep[*t],
                    Mask::CausalKeyPadding(keep) => keep[*t] && *t <= first + query,
                    Mask::Arbitrary(keep) => keep[query * keys + t],
                };
                let score = |t: usize| {
                    let product = |f: usize| {
                        f64::from(q[query * width + head + f]) * f64::from(k[t * width + head + f])
                    };
                    (0..head_size).map(product).sum::<f64>() / sqrt(head_size as f64)
                };
                let (mut sum, mut weighed) = (0.0, 0.0);
                // Scores are small here: nothing overflows.
                for t in (0..keys).filter(keep) {
                    let weight = exp(score(t));
                    (sum, weighed) = (sum + weight, weighed + weight * f64::from(k[t * width + at]));
                }
                found.compare(*y, if sum == 0.0 { 0.0 } else { weighed / sum }, 8e-6);
            }
            found.outside |= out.broken();
        }
    }
    Ok(found)
}

/// The functions, with what is allowed of each, in units in the last place.
const FUNCTIONS: [(&str, Activation, f64); 7] = [
    ("relu", Activation::Relu, 1e-9),
    ("exp", Activation::Exp, 1.25),
    ("tanh", Activation::Tanh, 2.0),
    ("sigmoid", Activation::Sigmoid, 2.5),
    ("silu", Activation::Silu, 3.5),
    ("gelu_erf", Activation::GeluErf, 7.0),
    ("gelu_tanh", Activation::GeluTanh, 220.0),
];

fn exact(function: Activation, x: f64) -> f64 {
    let sigmoid = |x: f64| if x < 0.0 { exp(x) / (1.0 + exp(x)) } else { 1.0 / (1.0 + exp(-x)) };
    match function {
        Activation::Identity => x,
        Activation::Relu => x.max(0.0),
        Activation::GeluErf => 0.5 * x * erfc(-x / sqrt(2.0)),
        Activation::GeluTanh => x * sigmoid(sqrt(8.0 / core::f64::consts::PI) * (x + 0.044715 * x * x * x)),
        Activation::Silu => x * sigmoid(x),
        Activation::Tanh => tanh(x),
        Activation::Sigmoid => sigmoid(x),
        Activation::Exp => exp(x),
    }
}

/// A function over a sample of all finite floats.
fn activation(room: &mut [Line], function: Activation, bound: f64) -> Found {
    const STEP: u32 = 1_000_003;
    const PIECE: usize = 37;
    let mut found = Found::NOTHING;
    let mut next = (0..=u32::MAX / STEP).map(|i| f32::from_bits(i * STEP)).filter(|x| x.is_finite());
    loop {
        let (mut x, mut n) = ([0.0; PIECE], 0);
        for (x, sample) in x.iter_mut().zip(&mut next) {
            (*x, n) = (sample, n + 1);
        }
        if n == 0 {
            return found;
        }
        let mut rest = &mut *room;
        let mut y = Guarded::new(&mut rest, n, n % 16);
        y.inside().copy_from_slice(&x[..n]);
        Cpu::detect().activate(function, y.inside());
        for (y, x) in y.inside().iter().zip(x) {
            let exact = exact(function, f64::from(x));
            match fabs(exact) > f64::from(f32::MAX) * (1.0 + EPSILON / 4.0) {
                true if y.is_infinite() || y.abs() == f32::MAX => found.count += 1,
                true => found.worst = f64::INFINITY,
                // The last place of the exact result: its power of two, 23 bits down.
                false => {
                    let magnitude = fabs(exact).max(f64::from(f32::MIN_POSITIVE));
                    let place = f64::from_bits(magnitude.to_bits() & 0x7ff0_0000_0000_0000) * EPSILON;
                    found.compare(*y, exact, bound * place);
                }
            }
        }
        found.outside |= y.broken();
    }
}
