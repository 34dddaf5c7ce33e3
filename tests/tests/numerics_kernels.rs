//! What kernels that sum are off by at most, on every backend, at lengths around the vector's
//! width and every alignment, beside plain loops in f64: the table of `picoformer_core::numerics`.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::{Cpu, Line};
use picoformer_tests::everywhere::{assert_all, everywhere, lines, packed};
use picoformer_tests::numbers;

const LENGTHS: [usize; 8] = [0, 1, 15, 16, 17, 31, 33, 1000];
/// The error of rounding a number of size 1.
const EPSILON: f64 = 1.0 / (1 << 24) as f64;

/// A unit in the last place of `y`.
fn ulp(y: f64) -> f64 {
    let exponent = (y.abs().max(f64::from(f32::MIN_POSITIVE)).to_bits() >> 52) - 23;
    f64::from_bits(exponent << 52)
}

#[test]
fn matmul_is_within_depth_times_half_an_ulp_of_the_absolute_products() {
    for depth in [0, 1, 15, 16, 17, 33, 500, 1000] {
        for cols in [1, 15, 16, 17, 31, 33, 100, 130] {
            let rows = 13;
            let (x, w, b) = (numbers(1, rows * depth), numbers(2, cols * depth), numbers(3, cols));
            let (panels, bias) = (packed(&w, cols, depth), lines(&b));
            let (mut expected, mut bounds, mut alone) = (Vec::new(), Vec::new(), Vec::new());
            for i in 0..rows * cols {
                let (row, col) = (i / cols, i % cols);
                let product = |k: usize| f64::from(x[row * depth + k]) * f64::from(w[col * depth + k]);
                let absolute = (0..depth).map(|k| product(k).abs()).sum::<f64>();
                let (sum, bias) = ((0..depth).map(product).sum::<f64>(), f64::from(b[col]));
                alone.push((sum, depth as f64 * EPSILON * absolute));
                expected.push(sum + bias);
                bounds.push((depth + 1) as f64 * EPSILON * (absolute + bias.abs()));
            }
            let room = vec![0.0; rows * cols];
            let found = everywhere(&room, 5, |cpu, out| {
                cpu.matmul(&x, depth, &panels, &[], Activation::Identity, out, cols).unwrap();
            });
            let sums: Vec<f64> = alone.iter().map(|(sum, _)| *sum).collect();
            assert_all(&format!("{depth} deep, {cols} wide, no bias"), &found, &sums, |i| alone[i].1);
            for activation in [Activation::Identity, Activation::Relu] {
                let relu = |y: &f64| if activation == Activation::Relu { y.max(0.0) } else { *y };
                let expected: Vec<f64> = expected.iter().map(relu).collect();
                let all = everywhere(&room, cols % 16, |cpu, out| {
                    cpu.matmul(&x, depth, &panels, &bias, activation, out, cols).unwrap();
                });
                assert_all(&format!("{depth} deep, {cols} wide"), &all, &expected, |i| bounds[i]);
                // A row's bits do not depend on how many rows there are.
                for few in 0..rows {
                    let some = everywhere(&room[..few * cols], 3, |cpu, out| {
                        cpu.matmul(&x, depth, &panels, &bias, activation, out, cols).unwrap();
                    });
                    assert_eq!(some[..few * cols], all[..few * cols], "{few} rows");
                }
            }
        }
    }
}

#[test]
fn softmax_is_within_its_bound_at_every_length_and_alignment() {
    for n in LENGTHS {
        for shift in [0, 1, 7, 15] {
            let x: Vec<f32> = [0.001, 1.0, 40.0]
                .iter()
                .flat_map(|size| numbers(6, n).into_iter().map(move |x| x * size))
                .collect();
            let mut expected = Vec::new();
            let mut distance = Vec::new();
            for row in x.chunks(n.max(1)) {
                let m = row.iter().fold(f32::NEG_INFINITY, |m, x| m.max(*x));
                let e: Vec<f64> = row.iter().map(|x| (f64::from(*x) - f64::from(m)).exp()).collect();
                let sum: f64 = e.iter().sum();
                expected.extend(e.iter().map(|e| e / sum));
                distance.extend(row.iter().map(|x| f64::from((x - m).abs())));
            }
            let found = everywhere(&x, shift, |cpu, x| cpu.softmax(x, n).unwrap());
            assert_all(&format!("{n}"), &found, &expected, |i| (4.0 + distance[i]) * ulp(expected[i]));
        }
    }
}

#[test]
fn the_weights_of_a_row_sum_to_one() {
    for n in [1usize, 2, 16, 17, 100, 1000, 30_522] {
        for size in [0.0, 1e-3, 1.0, 10.0, 1e4] {
            let x: Vec<f32> = numbers(16, n).iter().map(|x| x * size).collect();
            let found = everywhere(&x, 3, |cpu, x| cpu.softmax(x, n).unwrap());
            for row in found.chunks(n) {
                let sum: f64 = row.iter().map(|w| f64::from(*w)).sum();
                assert!((sum - 1.0).abs() <= n as f64 * EPSILON, "{n} numbers of size {size} sum to {sum}");
                assert!(row.iter().all(|w| (0.0..=1.0).contains(w)), "{n} numbers of size {size}");
            }
        }
    }
}

#[test]
fn softmax_of_infinity_or_nan_is_nan_in_its_row_only() {
    for wrong in [f32::INFINITY, f32::NAN] {
        for at in [0, 15, 16, 36] {
            let mut x = numbers(17, 3 * 37);
            x[37 + at] = wrong;
            let found = everywhere(&x, 1, |cpu, x| cpu.softmax(x, 37).unwrap());
            for rows in found.chunks(3 * 37) {
                assert!(rows[37 + at].is_nan(), "{wrong} at {at}");
                let sum = |row: &[f32]| row.iter().sum::<f32>();
                assert!((sum(&rows[..37]) - 1.0).abs() < 1e-6 && (sum(&rows[74..]) - 1.0).abs() < 1e-6);
            }
        }
    }
}

#[test]
fn softmax_of_nothing_but_masked_entries_is_zeros_and_of_the_largest_floats_is_finite() {
    for n in LENGTHS {
        let found = everywhere(&vec![f32::NEG_INFINITY; n * 2], 5, |cpu, x| cpu.softmax(x, n).unwrap());
        assert!(found.iter().all(|x| x.to_bits() == 0), "{n}");
        let extremes: Vec<f32> = (0..n).map(|i| if i % 2 == 0 { f32::MAX } else { f32::MIN }).collect();
        let found = everywhere(&extremes, 2, |cpu, x| cpu.softmax(x, n).unwrap());
        assert!(found.iter().all(|x| x.is_finite()), "{n}");
        let one = everywhere(&vec![-7.0; n], 2, |cpu, x| cpu.softmax(x, 1).unwrap());
        assert!(one.iter().all(|x| *x == 1.0), "rows of one number");
        let found = everywhere(&vec![f32::MIN; n], 2, |cpu, x| cpu.softmax(x, n).unwrap());
        assert!(found.iter().all(|x| (x * n as f32 - 1.0).abs() < 1e-6), "{n}");
    }
}

#[test]
fn norms_hold_at_a_mean_of_ten_thousand_deviations_with_and_without_residual() {
    for n in LENGTHS {
        for offset in [0.0, 1e4f32, -1e4] {
            let x: Vec<f32> = numbers(8, n * 3).iter().map(|x| x + offset).collect();
            let residual = numbers(9, n * 3);
            let (g, b) = (numbers(10, n), numbers(11, n));
            let (gamma, beta) = (lines(&g), lines(&b));
            for with in [false, true] {
                let (mut layer, mut rms) = (Vec::new(), Vec::new());
                for (row, residual) in x.chunks(n.max(1)).zip(residual.chunks(n.max(1))) {
                    let sum = |(x, r): (&f32, &f32)| f64::from(if with { x + r } else { *x });
                    let z: Vec<f64> = row.iter().zip(residual).map(sum).collect();
                    let mean = z.iter().sum::<f64>() / n as f64;
                    let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / n as f64;
                    let square = z.iter().map(|z| z * z).sum::<f64>() / n as f64;
                    for (i, z) in z.iter().enumerate() {
                        let (g, b) = (f64::from(g[i]), f64::from(b[i]));
                        layer.push((z - mean) / (variance + 1e-5).sqrt() * g + b);
                        rms.push(z / (square + 1e-5).sqrt() * g);
                    }
                }
                let residual = with.then_some(&residual[..]);
                let found = everywhere(&x, n % 16, |cpu, x| {
                    cpu.layer_norm(x, n, residual, &gamma, &beta, 1e-5).unwrap()
                });
                assert_all(&format!("layer norm of {n} at {offset}"), &found, &layer, |_| 4e-6);
                let found =
                    everywhere(&x, n % 16, |cpu, x| cpu.rms_norm(x, n, residual, &gamma, 1e-5).unwrap());
                assert_all(&format!("rms norm of {n} at {offset}"), &found, &rms, |_| 4e-6);
            }
        }
    }
}

#[test]
fn a_layer_norm_of_numbers_a_thousandth_apart_around_ten_thousand_holds() {
    for mean in [1e4f32, -1e4] {
        let x: Vec<f32> = (0..16).map(|i| mean + (i as f32 - 7.5) * 1e-3).collect();
        let z: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
        let mean = z.iter().sum::<f64>() / 16.0;
        let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / 16.0;
        let expected: Vec<f64> = z.iter().map(|z| (z - mean) / (variance + 1e-5).sqrt()).collect();
        let ones = [Line([1.0; 16])];
        let found = everywhere(&x, 0, |cpu, x| cpu.layer_norm(x, 16, None, &ones, &[], 1e-5).unwrap());
        assert_all("layer norm", &found, &expected, |_| 2e-3);
    }
}

#[test]
fn norms_of_a_constant_row_are_exact() {
    for n in LENGTHS {
        let (g, b) = (numbers(10, n), numbers(11, n));
        let (gamma, beta) = (lines(&g), lines(&b));
        for value in [0.0, 0.1, -12_340.1, 1e-40, 1e20, f32::MAX, f32::MIN] {
            for eps in [1e-5, 1e-12, 0.0] {
                let row = vec![value; n];
                let found =
                    everywhere(&row, 1, |cpu, x| cpu.layer_norm(x, n, None, &gamma, &beta, eps).unwrap());
                assert!(found.iter().zip(b.iter().cycle()).all(|(x, b)| x == b), "{n} times {value:e}");
            }
            if value.abs() > 1e4 {
                let expected: Vec<f64> = g.iter().map(|g| f64::from(g * value.signum())).collect();
                let found = everywhere(&vec![value; n], 1, |cpu, x| {
                    cpu.rms_norm(x, n, None, &gamma, 1e-5).unwrap();
                });
                assert_all("rms norm", &found, &expected, |i| 2.0 * ulp(expected[i]));
            }
        }
    }
}

#[test]
fn norms_of_the_largest_floats_do_not_overflow() {
    for n in LENGTHS {
        let (g, b) = (numbers(10, n), numbers(11, n));
        let (gamma, beta) = (lines(&g), lines(&b));
        for size in [1e18f32, 1e19, 1e20, f32::MAX] {
            let x: Vec<f32> = numbers(12, n).iter().map(|x| x * size).collect();
            let zeros = vec![0.0; n];
            for residual in [None, Some(&zeros[..])] {
                let z: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
                let mean = z.iter().sum::<f64>() / n as f64;
                let variance = z.iter().map(|z| (z - mean).powi(2)).sum::<f64>() / n as f64;
                let square = z.iter().map(|z| z * z).sum::<f64>() / n as f64;
                let root = |x: f64| if x > 0.0 { x.sqrt() } else { 1.0 };
                let layer: Vec<f64> = (0..n)
                    .map(|i| (z[i] - mean) / root(variance) * f64::from(g[i]) + f64::from(b[i]))
                    .collect();
                let rms: Vec<f64> = (0..n).map(|i| z[i] / root(square) * f64::from(g[i])).collect();
                let found = everywhere(&x, n % 16, |cpu, x| {
                    cpu.layer_norm(x, n, residual, &gamma, &beta, 1e-5).unwrap()
                });
                assert_all(&format!("layer norm of {n} of {size:e}"), &found, &layer, |_| 4e-6);
                let found =
                    everywhere(&x, n % 16, |cpu, x| cpu.rms_norm(x, n, residual, &gamma, 1e-5).unwrap());
                assert_all(&format!("rms norm of {n} of {size:e}"), &found, &rms, |_| 4e-6);
            }
        }
    }
}

#[test]
fn attention_holds_at_scores_of_ten_thousand_mixed_with_masked_keys() {
    // One feature decides the score, the other is the value; 700 keys are several parts.
    const KEYS: usize = 700;
    let heads = Heads { heads: 1, head_size: 16 };
    let (mut keys, mut values) =
        (vec![Line::ZERO; heads.key_lines(KEYS)], vec![Line::ZERO; heads.value_lines(KEYS)]);
    let kinds = numbers(18, KEYS);
    // Scores of ±10⁴, and some near each other at the top; the very best are masked.
    let score = |t: usize| match t % 7 {
        0 => -1e4,
        1 => 1e4 + kinds[t] * 3.0,
        2 => 2e4,
        3 => f32::MIN / 1e4,
        _ => 1e4 * kinds[t],
    };
    let keep: Vec<bool> = (0..KEYS).map(|t| t % 7 != 2 && !(256..300).contains(&t)).collect();
    let (mut k, mut v) = (vec![0.0; KEYS * 16], vec![0.0; KEYS * 16]);
    for t in 0..KEYS {
        k[t * 16] = score(t);
        (0..16).for_each(|f| v[t * 16 + f] = if keep[t] { kinds[(t + f) % KEYS] } else { 1e30 });
    }
    append_keys_values(heads, KEYS, 0, &k, &v, 16, KEYS, &mut keys, &mut values);
    // 4 / √16 is 1.
    let query: Vec<f32> = (0..16).map(|i| if i == 0 { 4.0 } else { 0.0 }).collect();
    let mask = Mask::KeyPadding(&keep);
    let shape =
        AttentionShape { heads, queries: 1, query_stride: 16, keys: KEYS, capacity: KEYS, first: 0, mask };
    let seen = || (0..KEYS).filter(|t| keep[*t]);
    let top = seen().map(|t| f64::from(score(t))).fold(f64::NEG_INFINITY, f64::max);
    let weight = |t: usize| if keep[t] { (f64::from(score(t)) - top).exp() } else { 0.0 };
    let sum: f64 = seen().map(weight).sum();
    let expected: Vec<f64> = (0..KEYS).map(|t| weight(t) / sum).collect();
    let outputs: Vec<f64> =
        (0..16).map(|f| seen().map(|t| expected[t] * f64::from(v[t * 16 + f])).sum()).collect();
    let found = everywhere(&[f32::NAN; 16], 0, |cpu, out| {
        let mut weights = vec![f32::NAN; KEYS];
        let mut scores = vec![Line([f32::NAN; 16]); score_lines(KEYS)];
        cpu.attention(&shape, &query, &keys, &values, &mut scores, out, Some(&mut weights)).unwrap();
        assert_all("weights", &weights, &expected, |_| 2e-6);
        assert!((0..KEYS).all(|t| keep[t] || weights[t] == 0.0), "masked keys on {}", cpu.name());
    });
    assert_all("outputs", &found, &outputs, |_| 4e-6);
    // Alone, the greatest takes all.
    for cpu in Cpu::all() {
        let (mut out, mut weights) = ([0.0; 16], [0.0; 8]);
        let mut scores = vec![Line::ZERO; score_lines(8)];
        let shape = AttentionShape { keys: 8, mask: Mask::KeyPadding(&keep[..8]), ..shape };
        cpu.attention(&shape, &query, &keys, &values, &mut scores, &mut out, Some(&mut weights)).unwrap();
        assert_eq!((weights, out[0]), ([0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0], v[16]));
    }
}
