//! Eight-bit products: exact whole numbers, the same bits on every backend, within the bound.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::int8::{DEEPEST, Int8, groups, row_lines};
use picoformer_core::kernels::pack::{int8_lines, pack_int8};
use picoformer_core::{Cpu, Error, Line};
use picoformer_tests::numbers;

/// Weights of eight bits with what they stand for.
struct Packed {
    cols: usize,
    depth: usize,
    group: usize,
    codes: Vec<Line>,
    scales: Vec<Line>,
}

impl Packed {
    fn new(weights: &[f32], cols: usize, depth: usize, group: usize) -> Self {
        let (codes, scales) = int8_lines(cols, depth, group);
        let (mut codes, mut scales) = (vec![Line::ZERO; codes], vec![Line::ZERO; scales]);
        pack_int8(weights, cols, depth, group, Line::codes_mut(&mut codes), &mut scales);
        Packed { cols, depth, group, codes, scales }
    }

    fn view(&self) -> Int8<'_> {
        Int8 { codes: Line::codes(&self.codes), scales: &self.scales, group: self.group }
    }

    fn code(&self, col: usize, k: usize) -> i64 {
        let line = col / 16 * self.depth.div_ceil(4) + k / 4;
        Line::codes(&self.codes)[line].0[4 * (col % 16) + k % 4] as i64 - 128
    }

    fn scale(&self, col: usize, group: usize) -> f32 {
        self.scales[col / 16 * groups(self.depth, self.group) + group].0[col % 16]
    }
}

/// A quantized row as it lies in memory: codes, scales, offsets.
fn row(lines: &[Line], depth: usize, group: usize, r: usize) -> (Vec<i64>, Vec<f32>, Vec<i32>) {
    let each = row_lines(depth, group);
    let bytes = Line::bytes(&lines[r * each..(r + 1) * each]);
    let words: Vec<u32> = bytes.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect();
    let (quads, groups) = (depth.div_ceil(4), groups(depth, group));
    (
        bytes[..depth].iter().map(|b| *b as i8 as i64).collect(),
        words[quads..quads + groups].iter().map(|w| f32::from_bits(*w)).collect(),
        words[quads + groups..quads + 2 * groups].iter().map(|w| *w as i32).collect(),
    )
}

/// The formula, in whole numbers of 64 bits.
fn expected(p: &Packed, x: &[Line], rows: usize, bias: &[f32]) -> Vec<f32> {
    let mut out = Vec::new();
    for r in 0..rows {
        let (codes, scales, _) = row(x, p.depth, p.group, r);
        for col in 0..p.cols {
            let steps = if groups(p.depth, p.group) == 1 { p.depth } else { p.group };
            let mut total = 0.0_f32;
            for (g, codes) in codes.chunks(steps.max(1)).enumerate() {
                let sum: i64 = codes.iter().enumerate().map(|(k, x)| x * p.code(col, g * steps + k)).sum();
                total += sum as i32 as f32 * p.scale(col, g) * scales[g];
            }
            out.push(total + bias.get(col).copied().unwrap_or(0.0));
        }
    }
    out
}

fn quantized(cpu: Cpu, x: &[f32], depth: usize, group: usize) -> Vec<Line> {
    let rows = x.len() / depth;
    let mut out = vec![Line([f32::NAN; 16]); rows * row_lines(depth, group)];
    cpu.quantize(x, depth, group, &mut out).unwrap();
    out
}

fn product(cpu: Cpu, x: &[Line], rows: usize, p: &Packed, bias: &[Line]) -> Vec<f32> {
    let mut out = vec![f32::NAN; rows * p.cols + 8];
    let (out_rows, guard) = out.split_at_mut(rows * p.cols);
    cpu.matmul_int8(x, p.depth, p.view(), bias, Activation::Identity, out_rows, p.cols).unwrap();
    assert!(guard.iter().all(|x| x.is_nan()), "wrote beyond its output");
    out.truncate(rows * p.cols);
    out
}

fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

#[test]
fn every_backend_quantizes_to_the_same_bytes_and_nothing_is_cut_off() {
    for (depth, group) in [(1, 0), (4, 16), (15, 0), (64, 64), (100, 64), (384, 64), (384, 0), (1000, 128)] {
        let x = numbers(7, 3 * depth);
        let reference = quantized(Cpu::baseline(), &x, depth, group);
        for r in 0..3 {
            let (codes, scales, offsets) = row(&reference, depth, group, r);
            let steps = if groups(depth, group) == 1 { depth } else { group };
            for (g, (x, codes)) in
                x[r * depth..(r + 1) * depth].chunks(steps).zip(codes.chunks(steps)).enumerate()
            {
                let largest = x.iter().fold(0.0_f32, |m, x| m.max(x.abs()));
                assert_eq!(scales[g], largest / 127.0);
                assert_eq!(offsets[g] as i64, codes.iter().sum::<i64>() * -128);
                for (x, code) in x.iter().zip(codes) {
                    assert!((-127..=127).contains(code));
                    let error = (x - *code as f32 * scales[g]).abs();
                    assert!(error <= 0.5001 * scales[g], "{x} became {code} of {}", scales[g]);
                }
            }
        }
        let words = depth.div_ceil(4) + 2 * groups(depth, group);
        for cpu in Cpu::all() {
            let other = quantized(cpu, &x, depth, group);
            let each = row_lines(depth, group) * 64;
            for (a, b) in Line::bytes(&reference).chunks(each).zip(Line::bytes(&other).chunks(each)) {
                assert_eq!(a[..4 * words], b[..4 * words], "{} {depth} {group}", cpu.name());
            }
        }
    }
}

#[test]
fn products_are_exact_on_every_backend_at_every_size_and_rest() {
    let depths = [1, 2, 3, 4, 5, 15, 16, 17, 31, 63, 64, 65, 100, 127, 128, 129, 200, 384, 1000, 4096];
    for depth in depths {
        for group in [0, 16, 64, 128] {
            for (rows, cols) in
                [(1, 1), (1, 16), (1, 150), (2, 33), (3, 64), (4, 17), (5, 48), (6, 80), (7, 16), (13, 20)]
            {
                if rows * cols * depth > 400_000 {
                    continue;
                }
                let p = Packed::new(&numbers(3, cols * depth), cols, depth, group);
                let bias = numbers(5, cols.next_multiple_of(16));
                let lines: Vec<Line> = bias.chunks(16).map(|b| Line(b.try_into().unwrap())).collect();
                let x = quantized(Cpu::baseline(), &numbers(9, rows * depth), depth, group);
                let want = expected(&p, &x, rows, &bias);
                for cpu in Cpu::all() {
                    let got = product(cpu, &x, rows, &p, &lines);
                    assert_eq!(bits(&got), bits(&want), "{} {rows}×{cols}×{depth} group {group}", cpu.name());
                }
            }
        }
    }
}

#[test]
fn the_largest_codes_do_not_saturate_at_any_depth() {
    for depth in [4, 64, 1000, 4096, DEEPEST] {
        for (x, w) in [(1.0, 1.0), (1.0, -1.0), (-1.0, -1.0), (-1.0, 1.0)] {
            let p = Packed::new(&vec![w; 2 * depth], 2, depth, 0);
            let x = quantized(Cpu::baseline(), &vec![x; depth], depth, 0);
            let want = expected(&p, &x, 1, &[]);
            let sum = (127 * 127 * depth) as f32;
            assert_eq!(want[0].abs(), sum * (1.0 / 127.0) * (1.0 / 127.0));
            for cpu in Cpu::all() {
                assert_eq!(bits(&product(cpu, &x, 1, &p, &[])), bits(&want), "{} depth {depth}", cpu.name());
            }
        }
    }
}

#[test]
fn a_product_is_within_the_stated_bound_of_the_exact_one() {
    for (depth, group) in [(16, 0), (384, 0), (384, 64), (1000, 128), (1536, 64)] {
        let (w, x) = (numbers(1, 20 * depth), numbers(2, 3 * depth));
        let p = Packed::new(&w, 20, depth, group);
        let quantized = quantized(Cpu::detect(), &x, depth, group);
        let got = product(Cpu::detect(), &quantized, 3, &p, &[]);
        let steps = if groups(depth, group) == 1 { depth } else { group };
        for (i, got) in got.iter().enumerate() {
            let (x, w) = (&x[i / 20 * depth..][..depth], &w[i % 20 * depth..][..depth]);
            let exact: f64 = x.iter().zip(w).map(|(x, w)| *x as f64 * *w as f64).sum();
            let bound: f64 = x
                .chunks(steps)
                .zip(w.chunks(steps))
                .map(|(x, w)| {
                    let largest = |x: &[f32]| x.iter().fold(0.0_f64, |m, x| m.max(x.abs() as f64));
                    let (a, b) = (largest(x), largest(w));
                    x.len() as f64 * (a / 127.0 * b + b / 127.0 * a + a * b / 127.0 / 127.0 / 2.0) / 2.0
                })
                .sum();
            assert!((*got as f64 - exact).abs() <= bound, "{got} for {exact}, bound {bound}");
        }
    }
}

#[test]
fn zeros_nan_and_infinity_in_a_row_stay_in_their_row() {
    let (depth, cols) = (100, 5);
    let p = Packed::new(&numbers(1, cols * depth), cols, depth, 64);
    let mut x = numbers(2, 4 * depth);
    x[..depth].fill(0.0);
    (x[depth + 3], x[3 * depth + 90]) = (f32::NAN, f32::INFINITY);
    for cpu in Cpu::all() {
        let out = product(cpu, &quantized(cpu, &x, depth, 64), 4, &p, &[]);
        assert!(out[..cols].iter().all(|x| *x == 0.0));
        assert!(out[cols..2 * cols].iter().all(|x| x.is_nan()), "{}", cpu.name());
        assert!(out[2 * cols..3 * cols].iter().all(|x| x.is_finite()));
        assert!(out[3 * cols..].iter().all(|x| !x.is_finite()));
    }
}

#[test]
fn a_depth_that_could_overflow_and_an_odd_group_are_refused() {
    let cpu = Cpu::detect();
    let (x, mut out) = (vec![0.0; DEEPEST + 1], vec![Line::ZERO; row_lines(DEEPEST + 1, 0)]);
    assert!(matches!(cpu.quantize(&x, DEEPEST + 1, 0, &mut out), Err(Error::Config(_))));
    assert!(matches!(cpu.quantize(&x[..100], 100, 24, &mut out), Err(Error::Config(_))));
    assert!(matches!(cpu.quantize(&x[..100], 99, 0, &mut out), Err(Error::Shape { .. })));
    assert!(matches!(cpu.quantize(&x[..100], 100, 0, &mut out[..1]), Err(Error::Shape { need: 2 })));
}
