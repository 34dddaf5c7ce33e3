//! Kernels on every backend against plain loops: guards around outputs, masks, and the bits
//! that must not change. How near they are: `numerics.rs`.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::{Cpu, Error, Line};
use picoformer_tests::everywhere::{assert_all, everywhere, lines, packed};
use picoformer_tests::numbers;

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
