//! Weights stored in sixteen bits: the nearest numbers, widened exactly, in products with the bits
//! of floats.

use picoformer::families::Family;
use picoformer::{ModelFile, Pool, Runner};
use picoformer_core::config::{Element, Elements};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::half::{self, Format, Half, half_lines};
use picoformer_core::kernels::pack::{pack_half, pack_linear, panel_lines};
use picoformer_core::{Cpu, Error, Line, Workers};
use picoformer_tests::{downloaded, numbers};

const FORMATS: [Format; 2] = [Format::F16, Format::Bf16];

/// The number that sixteen bits are, by the formats' definitions.
fn meaning(format: Format, half: u16) -> f64 {
    let sign = if half >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, mantissa, bits, bias) = match format {
        Format::F16 => (half >> 10 & 31, half & 1023, 10, 15),
        Format::Bf16 => (half >> 7 & 255, half & 127, 7, 127),
    };
    let (whole, exponent) = if exponent == 0 { (0, 1) } else { (1, i32::from(exponent)) };
    let one = f64::from(1 << bits);
    sign * (f64::from(whole) + f64::from(mantissa) / one) * 2.0_f64.powi(exponent - bias)
}

/// Every pattern but those of infinities and NaN.
fn finite(format: Format) -> impl Iterator<Item = u16> {
    let end = if format == Format::F16 { 0x7c00 } else { 0x7f80 };
    (0..=u16::MAX).filter(move |half| half & 0x7fff < end)
}

#[test]
fn every_pattern_is_widened_to_its_number_and_narrowed_back() {
    for format in FORMATS {
        for half in finite(format) {
            let wide = format.widen(half);
            assert_eq!(f64::from(wide), meaning(format, half), "{format:?} {half:#06x}");
            assert_eq!(wide.is_sign_negative(), half >> 15 == 1);
            assert_eq!(format.narrow(wide), half, "{format:?} {wide:e}");
        }
    }
}

#[test]
fn a_number_between_two_becomes_the_nearer_and_in_the_middle_the_even_one() {
    for format in FORMATS {
        for low in finite(format).filter(|half| half >> 15 == 0) {
            let high = low + 1;
            if finite(format).last().is_none_or(|last| high > last & 0x7fff) {
                continue;
            }
            let middle = ((meaning(format, low) + meaning(format, high)) / 2.0) as f32;
            let even = if low % 2 == 0 { low } else { high };
            assert_eq!(format.narrow(middle), even, "{format:?} {middle:e}");
            assert_eq!(format.narrow(middle.next_down()), low, "{format:?} {middle:e}");
            assert_eq!(format.narrow(middle.next_up()), high, "{format:?} {middle:e}");
            assert_eq!(format.narrow(-middle), even | 0x8000);
        }
    }
    assert_eq!(Format::F16.widen(Format::F16.narrow(1e6)), 65504.0);
    assert_eq!(Format::F16.widen(Format::F16.narrow(f32::NEG_INFINITY)), -65504.0);
    assert!(Format::Bf16.widen(Format::Bf16.narrow(f32::NAN)).is_nan());
}

#[test]
fn a_product_has_the_bits_of_the_same_weights_in_floats_on_every_backend_and_any_threads() {
    let pool = Pool::new(3).unwrap();
    for cpu in Cpu::all() {
        for (rows, cols, depth) in [
            (1, 1, 1),
            (1, 200, 65),
            (2, 16, 32),
            (5, 33, 31),
            (7, 130, 96),
            (1, 1024, 600),
            (9, 300, 300),
            (3, 5, 0),
        ] {
            for format in FORMATS {
                let (weights, x) = (numbers(1, cols * depth), numbers(2, rows * depth));
                let mut stored = vec![Line::ZERO; half_lines(cols, depth)];
                pack_half(&weights, cols, depth, format, Line::halves_mut(&mut stored));
                let rounded: Vec<f32> = weights.iter().map(|w| format.widen(format.narrow(*w))).collect();
                let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
                pack_linear(&rounded, cols, depth, &mut panels);
                let mut bias = vec![Line::ZERO; Line::count(cols)];
                Line::floats_mut(&mut bias)[..cols].copy_from_slice(&numbers(3, cols));
                for activation in [Activation::Identity, Activation::Relu, Activation::GeluErf] {
                    let (mut expected, mut out) = (vec![0.0; rows * cols], vec![f32::NAN; rows * cols]);
                    cpu.matmul(&x, depth, &panels, &bias, activation, &mut expected, cols).unwrap();
                    let w = Half { halves: Line::halves(&stored), format };
                    let mut scratch = vec![Line([f32::NAN; 16]); 3 * half::SCRATCH];
                    cpu.matmul_half(&x, depth, w, &bias, activation, &mut scratch, &mut out, cols).unwrap();
                    let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                    assert_eq!(bits(&out), bits(&expected), "{rows} × {cols} × {depth} on {}", cpu.name());
                    out.fill(f32::NAN);
                    let workers = Workers::new(cpu, &pool, 3);
                    workers
                        .matmul_half(&x, depth, w, &bias, activation, &mut scratch, &mut out, cols)
                        .unwrap();
                    assert_eq!(bits(&out), bits(&expected), "{rows} × {cols} × {depth} in threads");
                }
            }
        }
    }
}

#[test]
fn a_short_buffer_is_refused_and_nothing_is_written() {
    let (cpu, lines) = (Cpu::detect(), vec![Line::ZERO; half_lines(20, 9)]);
    let w = |lines| Half { halves: Line::halves(lines), format: Format::F16 };
    let (x, mut out, mut scratch) = ([1.0; 18], [7.0; 40], vec![Line::ZERO; half::SCRATCH]);
    let act = Activation::Identity;
    let short = Err(Error::Shape { need: 10 });
    assert_eq!(cpu.matmul_half(&x, 9, w(&lines[1..]), &[], act, &mut scratch, &mut out, 20), short);
    let short = Err(Error::Shape { need: 18 });
    assert_eq!(cpu.matmul_half(&x[1..], 9, w(&lines), &[], act, &mut scratch, &mut out, 20), short);
    let short = Err(Error::Shape { need: half::SCRATCH });
    assert_eq!(cpu.matmul_half(&x, 9, w(&lines), &[], act, &mut scratch[1..], &mut out, 20), short);
    assert_eq!(out, [7.0; 40]);
}

#[test]
fn minilm_in_sixteen_bits_is_half_as_large_and_gives_the_vectors() {
    let Some(weights) = downloaded("minilm/model.safetensors") else { return };
    let texts = ["The cat sits outside", "A man is playing guitar", "Das ist ein Satz."];
    let convert = |element| Family::Bert.convert(&weights, Elements::all(element)).unwrap();
    let embed =
        |image: &[u8]| Runner::new(ModelFile::from_bytes(image).unwrap()).unwrap().embed(&texts).unwrap();
    let floats = convert(Element::F32);
    for (element, bound) in [(Element::F16, 1e-6), (Element::Bf16, 1e-4)] {
        let halves = convert(element);
        // Positions, norms and biases stay floats, and the tokenizer as it is.
        assert!(halves.len() < floats.len() * 52 / 100, "{} of {}", halves.len(), floats.len());
        for (x, y) in embed(&floats).iter().zip(embed(&halves)) {
            let cosine: f64 = x.iter().zip(&y).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum();
            assert!(cosine > 1.0 - bound, "{element:?}: {cosine}");
        }
    }
}
