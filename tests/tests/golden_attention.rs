//! Attention against PyTorch's results, on every backend: within 1e-5 of the tensor's
//! largest value, with every mask, and the weights too.

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::pack::{pack_linear, panel_lines};
use picoformer_core::{Cpu, Line};
use picoformer_tests::assert_close;
use picoformer_tests::golden::Golden;

const MODULES: f32 = 1e-5;

/// A linear layer of a golden case, with each head of its columns or of its depth padded.
struct Projection {
    panels: Vec<Line>,
    bias: Vec<Line>,
    cols: usize,
    depth: usize,
}

fn projection(golden: &Golden, name: &str, heads: Heads, of_columns: bool) -> Projection {
    let (weight, shape) = golden.floats(&format!("w.{name}.weight"));
    let (bias, _) = golden.floats(&format!("w.{name}.bias"));
    let (d_model, width) = (shape[1], heads.width());
    let place = |i: usize| i / heads.head_size * heads.head_lines() * 16 + i % heads.head_size;
    let (cols, depth) = if of_columns { (width, d_model) } else { (d_model, width) };
    let (mut wide, mut wide_bias) = (vec![0.0; cols * depth], vec![0.0; cols.next_multiple_of(16)]);
    for row in 0..d_model {
        for column in 0..d_model {
            let at = if of_columns { place(row) * depth + column } else { row * depth + place(column) };
            wide[at] = weight[row * d_model + column];
        }
        wide_bias[if of_columns { place(row) } else { row }] = bias[row];
    }
    let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
    pack_linear(&wide, cols, depth, &mut panels);
    let mut bias = vec![Line::ZERO; cols.div_ceil(16)];
    Line::floats_mut(&mut bias).copy_from_slice(&wide_bias);
    Projection { panels, bias, cols, depth }
}

impl Projection {
    fn forward(&self, cpu: Cpu, x: &[f32]) -> Vec<f32> {
        let mut out = vec![0.0; x.len() / self.depth * self.cols];
        cpu.matmul(x, self.depth, &self.panels, &self.bias, Activation::Identity, &mut out, self.cols)
            .unwrap();
        out
    }
}

/// Attention from the kernels alone, for one sequence of a case.
fn attention(
    cpu: Cpu,
    golden: &Golden,
    heads: Heads,
    x: &[f32],
    memory: &[f32],
    mask: Mask<'_>,
) -> (Vec<f32>, Vec<f32>) {
    let [q, k, v] = ["q", "k", "v"].map(|name| projection(golden, name, heads, true));
    let output = projection(golden, "o", heads, false);
    let (query, key, value) = (q.forward(cpu, x), k.forward(cpu, memory), v.forward(cpu, memory));
    let width = heads.width();
    let (queries, keys) = (query.len() / width, key.len() / width);
    let capacity = keys + 5;
    // What lies beyond the keys must not matter, NaN included.
    let mut packed_keys = vec![Line([f32::NAN; 16]); heads.key_lines(capacity)];
    let mut packed_values = vec![Line([f32::NAN; 16]); heads.value_lines(capacity)];
    append_keys_values(heads, capacity, 0, &key, &value, width, keys, &mut packed_keys, &mut packed_values);
    let shape = AttentionShape { heads, queries, query_stride: width, keys, capacity, first: 0, mask };
    let mut out = vec![0.0; queries * width];
    let mut weights = vec![0.0; heads.heads * queries * keys];
    let mut scores = vec![Line::ZERO; score_lines(keys)];
    cpu.attention(&shape, &query, &packed_keys, &packed_values, &mut scores, &mut out, Some(&mut weights))
        .unwrap();
    (output.forward(cpu, &out), weights)
}

#[test]
fn attention_with_every_mask_and_its_weights_are_pytorchs() {
    for (kind, count) in [("single_head_attention", 1), ("multi_head_self_attention", 8)] {
        for tag in ["nomask", "causal", "pad", "causal_pad"] {
            let golden = Golden::open(&format!("{kind}_{tag}"));
            let heads = Heads { heads: count, head_size: 64 / count };
            let (x, shape) = golden.floats("in.x");
            let (expected, _) = golden.floats("out.y");
            let (row7, _) = golden.floats("out.weights_row7");
            let keep = golden.mask("in.pad_mask").map(|(mask, _)| mask);
            let (rows, size) = (shape[1], shape[1] * 64);
            for cpu in Cpu::all() {
                for batch in 0..shape[0] {
                    let keep = keep.as_ref().map(|k| &k[batch * rows..(batch + 1) * rows]);
                    let mask = match (tag.starts_with("causal"), keep) {
                        (false, None) => Mask::None,
                        (true, None) => Mask::Causal,
                        (false, Some(keep)) => Mask::KeyPadding(keep),
                        (true, Some(keep)) => Mask::CausalKeyPadding(keep),
                    };
                    // The same mask written out for every query and key.
                    let all: Vec<bool> = (0..rows * rows)
                        .map(|i| {
                            (!tag.starts_with("causal") || i % rows <= i / rows)
                                && keep.is_none_or(|k| k[i % rows])
                        })
                        .collect();
                    let x = &x[batch * size..(batch + 1) * size];
                    let (y, weights) = attention(cpu, &golden, heads, x, x, mask);
                    let (same, _) = attention(cpu, &golden, heads, x, x, Mask::Arbitrary(&all));
                    let what = format!("{kind}_{tag} on {}", cpu.name());
                    assert_close(&what, &y, &expected[batch * size..(batch + 1) * size], MODULES);
                    assert_eq!(y, same, "{what}: the mask written out");
                    for head in 0..count {
                        let found = &weights[(head * rows + 7) * rows..][..rows];
                        let expected = &row7[(batch * count + head) * rows..][..rows];
                        assert_close(&format!("{what}: weights"), found, expected, MODULES);
                    }
                }
            }
        }
    }
}

#[test]
fn cross_attention_reads_a_memory_of_another_length() {
    let golden = Golden::open("multi_head_cross_attention");
    let heads = Heads { heads: 8, head_size: 8 };
    let (x, _) = golden.floats("in.x");
    let (memory, _) = golden.floats("in.memory");
    let (expected, _) = golden.floats("out.y");
    for cpu in Cpu::all() {
        for batch in 0..2 {
            let (x, m) = (&x[batch * 192 * 64..][..192 * 64], &memory[batch * 150 * 64..][..150 * 64]);
            let (y, _) = attention(cpu, &golden, heads, x, m, Mask::None);
            assert_close(cpu.name(), &y, &expected[batch * 192 * 64..][..192 * 64], MODULES);
        }
    }
}

#[test]
fn a_query_whose_keys_are_all_masked_gets_zeros_from_attention() {
    let golden = Golden::open("fully_masked_row");
    let heads = Heads { heads: 4, head_size: 8 };
    let ((x, _), (expected, _)) = (golden.floats("in.x"), golden.floats("out.y"));
    let (expected_weights, _) = golden.floats("out.weights");
    for cpu in Cpu::all() {
        for (batch, keep) in [[true; 5], [false; 5]].iter().enumerate() {
            let x = &x[batch * 160..][..160];
            let (y, weights) = attention(cpu, &golden, heads, x, x, Mask::KeyPadding(keep));
            assert_close(cpu.name(), &y, &expected[batch * 160..][..160], MODULES);
            assert_close(cpu.name(), &weights, &expected_weights[batch * 100..][..100], MODULES);
        }
        let (_, weights) =
            attention(cpu, &golden, heads, &x[..160], &x[..160], Mask::KeyPadding(&[false; 5]));
        assert!(weights.iter().all(|w| w.to_bits() == 0));
    }
}
