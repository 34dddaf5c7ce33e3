//! Every kernel on every backend against a plain loop in f64: lengths around the vector's
//! width, every alignment, guards around outputs, and the bits that must not change.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::pack::{pack_linear, panel_lines};
use picoformer_core::{Cpu, Error, Line};
use picoformer_tests::numbers;

const LENGTHS: [usize; 8] = [0, 1, 15, 16, 17, 31, 33, 1000];
const GUARD: f32 = 4321.5;

fn lines(floats: &[f32]) -> Vec<Line> {
    let mut lines = vec![Line::ZERO; Line::count(floats.len())];
    Line::floats_mut(&mut lines)[..floats.len()].copy_from_slice(floats);
    lines
}

fn packed(weights: &[f32], cols: usize, depth: usize) -> Vec<Line> {
    let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
    pack_linear(weights, cols, depth, &mut panels);
    panels
}

/// Runs a kernel in place over `x` at an address that is `shift` floats past a line, on
/// every backend: guards must stay, fused backends must agree.
fn everywhere(x: &[f32], shift: usize, f: impl Fn(Cpu, &mut [f32])) -> Vec<f32> {
    let mut results: Vec<Vec<f32>> = Vec::new();
    for cpu in Cpu::all() {
        let mut room = vec![Line([GUARD; 16]); Line::count(x.len()) + 3];
        let floats = Line::floats_mut(&mut room);
        let start = 16 + shift;
        floats[start..start + x.len()].copy_from_slice(x);
        f(cpu, &mut floats[start..start + x.len()]);
        let outside = floats[..start].iter().chain(&floats[start + x.len()..]);
        assert!(outside.copied().all(|g| g == GUARD), "{} wrote outside", cpu.name());
        results.push(floats[start..start + x.len()].to_vec());
    }
    if let [_, fused @ ..] = &results[..] {
        for pair in fused.windows(2) {
            let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&pair[0]), bits(&pair[1]), "fused backends");
        }
    }
    // All are checked against the reference by whoever asks: the worst of each element
    // would hide which backend it is, so the baseline and the last are joined.
    results.swap_remove(0).into_iter().chain(results.pop().unwrap_or_default()).collect()
}

#[track_caller]
fn assert_all(what: &str, found: &[f32], expected: &[f64], bound: impl Fn(usize) -> f64) {
    for (i, (x, y)) in found.iter().zip(expected.iter().cycle()).enumerate() {
        let allowed = bound(i % expected.len());
        assert!((f64::from(*x) - y).abs() <= allowed, "{what}[{i}]: {x} should be {y} within {allowed:e}");
    }
}

#[test]
fn matmul_is_within_depth_times_half_an_ulp_of_the_absolute_products() {
    for depth in [0, 1, 15, 16, 17, 33, 500, 1000] {
        for cols in [1, 15, 16, 17, 31, 33, 100, 130] {
            let rows = 13;
            let (x, w, b) = (numbers(1, rows * depth), numbers(2, cols * depth), numbers(3, cols));
            let (panels, bias) = (packed(&w, cols, depth), lines(&b));
            let (mut expected, mut bounds) = (Vec::new(), Vec::new());
            for i in 0..rows * cols {
                let (row, col) = (i / cols, i % cols);
                let product = |k: usize| f64::from(x[row * depth + k]) * f64::from(w[col * depth + k]);
                let absolute = (0..depth).map(|k| product(k).abs()).sum::<f64>() + f64::from(b[col].abs());
                expected.push((0..depth).map(product).sum::<f64>() + f64::from(b[col]));
                bounds.push((depth + 2) as f64 * 2f64.powi(-24) * absolute);
            }
            for activation in [Activation::Identity, Activation::Relu] {
                let relu = |y: &f64| if activation == Activation::Relu { y.max(0.0) } else { *y };
                let expected: Vec<f64> = expected.iter().map(relu).collect();
                let room = vec![0.0; rows * cols];
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
fn an_activation_fused_into_the_matmul_is_the_activation_after_it() {
    let (x, w) = (numbers(4, 5 * 20), numbers(5, 33 * 20));
    let panels = packed(&w, 33, 20);
    for activation in [Activation::GeluErf, Activation::GeluTanh, Activation::Silu, Activation::Sigmoid] {
        for cpu in Cpu::all() {
            let (mut fused, mut apart) = ([0.0; 5 * 33], [0.0; 5 * 33]);
            cpu.matmul(&x, 20, &panels, &[], activation, &mut fused, 33).unwrap();
            cpu.matmul(&x, 20, &panels, &[], Activation::Identity, &mut apart, 33).unwrap();
            cpu.activate(activation, &mut apart);
            assert_eq!(fused, apart, "{activation:?} on {}", cpu.name());
        }
    }
}

#[test]
fn softmax_is_within_its_bound_at_every_length_and_alignment() {
    for n in LENGTHS {
        for shift in [0, 1, 7, 15] {
            let x: Vec<f32> = numbers(6, n * 3).iter().map(|x| x * 40.0).collect();
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
            // (4 + |x - max|) ULP, and where the vectorised sum is long a few more.
            let ulp = |y: f64| 2f64.powi(-23) * y;
            assert_all(&format!("{n}"), &found, &expected, |i| {
                ulp(expected[i]) * (6.0 + distance[i]) + 1e-38
            });
        }
    }
}

#[test]
fn masked_entries_after_a_row_change_no_bits_of_its_softmax() {
    for n in [1, 15, 16, 17, 33] {
        for cpu in Cpu::all() {
            let mut row = numbers(7, n);
            let mut longer: Vec<f32> = row.iter().copied().chain([f32::NEG_INFINITY; 40]).collect();
            let whole = longer.len();
            cpu.softmax(&mut row, n).unwrap();
            cpu.softmax(&mut longer, whole).unwrap();
            assert_eq!(longer[..n], row);
            assert!(longer[n..].iter().all(|w| w.to_bits() == 0));
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
            let constant = vec![offset * 1.234 + 0.1; n];
            let found =
                everywhere(&constant, 1, |cpu, x| cpu.layer_norm(x, n, None, &gamma, &beta, 1e-5).unwrap());
            assert!(found.iter().zip(b.iter().cycle()).all(|(x, b)| x == b), "a constant row gives beta");
        }
    }
}

/// The plain attention of one sequence, heads padded to whole lines; also the weights.
fn plain_attention(
    shape: &AttentionShape<'_>,
    q: &[f32],
    k: &[f32],
    v: &[f32],
    stride: usize,
) -> (Vec<f64>, Vec<f64>) {
    let Heads { heads, head_size } = shape.heads;
    let (queries, keys) = (shape.queries, shape.keys);
    let (width, padded) = (shape.heads.width(), shape.heads.head_lines() * 16);
    let (mut out, mut weights) = (vec![0.0; queries * width], vec![0.0; heads * queries * keys]);
    for head in 0..heads {
        for i in 0..queries {
            let causal = |t: usize| t <= shape.first + i;
            let keep = |t: usize| match shape.mask {
                Mask::None => true,
                Mask::Causal => causal(t),
                Mask::KeyPadding(keep) => keep[t],
                Mask::CausalKeyPadding(keep) => keep[t] && causal(t),
                Mask::Arbitrary(keep) => keep[i * keys + t],
            };
            let at = |x: &[f32], row: usize, f: usize| f64::from(x[row * stride + head * padded + f]);
            let score = |t: usize| {
                (0..head_size).map(|f| at(q, i, f) * at(k, t, f)).sum::<f64>() / (head_size as f64).sqrt()
            };
            let seen: Vec<(usize, f64)> = (0..keys).filter(|t| keep(*t)).map(|t| (t, score(t))).collect();
            let m = seen.iter().fold(f64::NEG_INFINITY, |m, (_, s)| m.max(*s));
            let sum: f64 = seen.iter().map(|(_, s)| (s - m).exp()).sum();
            for (t, s) in seen {
                let w = (s - m).exp() / sum;
                weights[(head * queries + i) * keys + t] = w;
                for f in 0..head_size {
                    out[i * width + head * padded + f] += w * at(v, t, f);
                }
            }
        }
    }
    (out, weights)
}

#[test]
fn attention_is_the_plain_loops_with_every_mask_whatever_lies_beyond_the_keys() {
    for (heads, head_size) in [(1, 1), (2, 15), (3, 16), (2, 17), (2, 64)] {
        for (queries, keys, capacity) in
            [(1, 1, 1), (1, 33, 40), (5, 17, 17), (9, 15, 48), (17, 100, 130), (20, 20, 20), (9, 600, 700)]
        {
            let heads = Heads { heads, head_size };
            let (width, padded) = (heads.width(), heads.head_lines() * 16);
            let stride = width + 16;
            let rows = |seed: u32, count: usize, factor: f32| -> Vec<f32> {
                let all = numbers(seed, count * stride).into_iter().enumerate();
                all.map(|(i, x)| if i % stride % padded < head_size { x * factor } else { 0.0 }).collect()
            };
            let (q, k, v) = (rows(1, queries, 3.0), rows(2, keys, 1.0), rows(3, keys, 1.0));
            let mut packed_keys = vec![Line([f32::NAN; 16]); heads.key_lines(capacity)];
            let mut packed_values = vec![Line([f32::NAN; 16]); heads.value_lines(capacity)];
            // In two pieces: the cache grows.
            let half = keys / 2;
            append_keys_values(
                heads,
                capacity,
                0,
                &k,
                &v,
                stride,
                half,
                &mut packed_keys,
                &mut packed_values,
            );
            let rest = (&k[half * stride..], &v[half * stride..]);
            append_keys_values(
                heads,
                capacity,
                half,
                rest.0,
                rest.1,
                stride,
                keys - half,
                &mut packed_keys,
                &mut packed_values,
            );
            let padding: Vec<bool> = (0..keys).map(|t| t % 5 != 3).collect();
            let some: Vec<bool> = (0..keys * queries).map(|i| i * 7 % 5 != 3 && i / keys != 2).collect();
            let first = keys.saturating_sub(queries);
            for mask in [
                Mask::None,
                Mask::Causal,
                Mask::KeyPadding(&padding),
                Mask::CausalKeyPadding(&padding),
                Mask::Arbitrary(&some),
            ] {
                let shape =
                    AttentionShape { heads, queries, query_stride: stride, keys, capacity, first, mask };
                let (expected, expected_weights) = plain_attention(&shape, &q, &k, &v, stride);
                let run = |cpu: Cpu, shape: &AttentionShape<'_>, q: &[f32], out: &mut [f32]| {
                    let mut scores = vec![Line([f32::NAN; 16]); score_lines(shape.keys)];
                    let mut weights = vec![f32::NAN; heads.heads * shape.queries * shape.keys];
                    cpu.attention(
                        shape,
                        q,
                        &packed_keys,
                        &packed_values,
                        &mut scores,
                        out,
                        Some(&mut weights),
                    )
                    .unwrap();
                    weights
                };
                let what = format!("{heads:?}, {queries} × {keys}, {mask:?}");
                let room = vec![f32::NAN; queries * width];
                let found = everywhere(&room, 9, |cpu, out| {
                    let weights = run(cpu, &shape, &q, out);
                    assert_all(&what, &weights, &expected_weights, |_| 2e-6);
                });
                assert_all(&what, &found, &expected, |_| 4e-6);
                // One query at a time: the same bits.
                if !matches!(mask, Mask::Arbitrary(_)) {
                    for i in 0..queries {
                        let one = AttentionShape { queries: 1, first: first + i, ..shape };
                        let alone = everywhere(&room[..width], 0, |cpu, out| {
                            run(cpu, &one, &q[i * stride..], out);
                        });
                        assert_eq!(alone[..width], found[i * width..(i + 1) * width], "{what}, query {i}");
                    }
                }
            }
        }
    }
}

#[test]
fn attention_survives_scores_of_ten_thousand() {
    let heads = Heads { heads: 1, head_size: 16 };
    let (mut keys, mut values) =
        (vec![Line::ZERO; heads.key_lines(4)], vec![Line::ZERO; heads.value_lines(4)]);
    let key: Vec<f32> = (0..64).map(|i| if i % 16 == 0 { (i as f32 - 24.0) * 500.0 } else { 0.0 }).collect();
    append_keys_values(heads, 4, 0, &key, &key, 16, 4, &mut keys, &mut values);
    let query: Vec<f32> = (0..16).map(|i| if i == 0 { 10.0 } else { 0.0 }).collect();
    let keep = [true, true, true, false];
    let shape = AttentionShape {
        heads,
        queries: 1,
        query_stride: 16,
        keys: 4,
        capacity: 4,
        first: 0,
        mask: Mask::KeyPadding(&keep),
    };
    for cpu in Cpu::all() {
        let (mut out, mut weights) = ([0.0; 16], [0.0; 4]);
        let mut scores = vec![Line::ZERO; score_lines(4)];
        cpu.attention(&shape, &query, &keys, &values, &mut scores, &mut out, Some(&mut weights)).unwrap();
        assert_eq!(weights, [0.0, 0.0, 1.0, 0.0]);
        assert_eq!(out[0], key[32]);
    }
}

#[test]
fn embedding_and_its_way_back_are_the_plain_loops() {
    for (vocab, d_model) in [(1, 1), (7, 15), (33, 16), (50, 17), (21, 100)] {
        let (table, x) = (numbers(12, vocab * d_model), numbers(13, d_model));
        let rows: Vec<Line> = table.chunks(d_model).flat_map(lines).collect();
        let panels = packed(&table, vocab, d_model);
        let dot = |t: usize| {
            table[t * d_model..][..d_model]
                .iter()
                .zip(&x)
                .map(|(a, b)| f64::from(*a) * f64::from(*b))
                .sum::<f64>()
        };
        let best = (0..vocab).rev().max_by(|a, b| dot(*a).total_cmp(&dot(*b))).unwrap();
        for cpu in Cpu::all() {
            assert_eq!(cpu.nearest(&rows, vocab, d_model, &x).unwrap().0 as usize, best);
            for token in 0..vocab {
                let (mut from_rows, mut from_panels) = (vec![0.0; d_model], vec![0.0; d_model]);
                cpu.embed(&rows, token as u32, d_model, 3.0, &mut from_rows).unwrap();
                cpu.embed_tied(&panels, token as u32, d_model, 3.0, &mut from_panels).unwrap();
                assert!(from_rows.iter().zip(&table[token * d_model..]).all(|(x, y)| *x == y * 3.0));
                assert_eq!(from_rows, from_panels);
            }
            let outside = cpu.embed(&rows, vocab as u32, d_model, 1.0, &mut vec![0.0; d_model]);
            assert_eq!(outside, Err(Error::Token { token: vocab as u32, vocab: vocab as u32 }));
        }
    }
}

#[test]
fn short_buffers_are_refused_with_the_length_that_is_needed() {
    let cpu = Cpu::detect();
    let (line, short) = ([Line::ZERO; 8], |need| Err(Error::Shape { need }));
    let identity = Activation::Identity;
    assert_eq!(cpu.matmul(&[0.0; 7], 4, &line, &[], identity, &mut [0.0; 6], 3), short(8));
    assert_eq!(cpu.matmul(&[0.0; 8], 4, &line[..3], &[], identity, &mut [0.0; 6], 3), short(4));
    assert_eq!(cpu.matmul(&[0.0; 8], 4, &line, &line[..1], identity, &mut [0.0; 40], 20), short(2));
    assert_eq!(cpu.matmul(&[0.0; 8], 4, &line, &[], identity, &mut [0.0; 7], 3), short(9));
    assert_eq!(cpu.softmax(&mut [0.0; 7], 3), short(9));
    assert_eq!(cpu.layer_norm(&mut [0.0; 40], 20, None, &line[..1], &[], 1e-5), short(2));
    assert_eq!(cpu.layer_norm(&mut [0.0; 6], 3, Some(&[0.0; 5]), &line, &[], 1e-5), short(6));
    assert_eq!(cpu.add(&mut [0.0; 6], &[0.0; 5]), short(6));
    assert_eq!(cpu.nearest(&line, 9, 16, &[0.0; 16]), Err(Error::Shape { need: 9 }));
}
