//! Faults that users of other engines reported, each as a test of ours: masks, softmax, norms,
//! activations, eight bits. (`reports_models.rs` and `reports_text.rs` have the others.)

use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::int8::{Int8, row_lines};
use picoformer_core::kernels::pack::{int8_lines, pack_int8};
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use picoformer_core::{Cpu, Line};
use picoformer_tests::numbers;

const HEADS: Heads = Heads { heads: 2, head_size: 8 };
const WIDTH: usize = 32;

/// Attention over fixed keys and values, `[queries × WIDTH]`.
fn attend(cpu: Cpu, queries: usize, keys: usize, first: usize, mask: Mask<'_>) -> Vec<f32> {
    let (query, key, value) =
        (numbers(1, queries * WIDTH), numbers(2, keys * WIDTH), numbers(3, keys * WIDTH));
    let capacity = keys.max(1);
    let mut packed_keys = vec![Line([f32::NAN; 16]); HEADS.key_lines(capacity)];
    let mut packed_values = vec![Line([f32::NAN; 16]); HEADS.value_lines(capacity)];
    append_keys_values(HEADS, capacity, 0, &key, &value, WIDTH, keys, &mut packed_keys, &mut packed_values);
    let shape = AttentionShape { heads: HEADS, queries, query_stride: WIDTH, keys, capacity, first, mask };
    let (mut scores, mut out) = (vec![Line::ZERO; score_lines(keys)], vec![f32::NAN; queries * WIDTH]);
    cpu.attention(&shape, &query, &packed_keys, &packed_values, &mut scores, &mut out, None).unwrap();
    out
}

/// The features of the heads, without what pads them.
fn features(rows: &[f32]) -> impl Iterator<Item = f32> {
    rows.iter().enumerate().filter(|(i, _)| i % 16 < HEADS.head_size).map(|(_, x)| *x)
}

// ml-explore/mlx #2395, robertknight/rten #1321, iree-org/iree #24175: a row of the mask that
// hides every key gave NaN, or values from nowhere.
#[test]
fn a_query_whose_keys_are_all_masked_gets_zeros_and_its_neighbours_what_they_always_get() {
    let all = [true; 12];
    let mut some = all;
    some[4..8].fill(false);
    for cpu in Cpu::all() {
        let (whole, masked) =
            (attend(cpu, 3, 4, 0, Mask::Arbitrary(&all)), attend(cpu, 3, 4, 0, Mask::Arbitrary(&some)));
        assert!(masked[WIDTH..2 * WIDTH].iter().all(|x| *x == 0.0), "{}", cpu.name());
        assert_eq!(masked[..WIDTH], whole[..WIDTH]);
        assert_eq!(masked[2 * WIDTH..], whole[2 * WIDTH..]);
    }
}

// tracel-ai/burn #4697: padding at the front and causality together hid every key of the first
// queries, and the maximum of nothing made them NaN.
#[test]
fn padding_and_causality_that_hide_everything_together_give_zeros() {
    let keep = [false, false, true, true];
    for cpu in Cpu::all() {
        let out = attend(cpu, 4, 4, 0, Mask::CausalKeyPadding(&keep));
        assert!(out[..2 * WIDTH].iter().all(|x| *x == 0.0));
        assert!(features(&out[2 * WIDTH..]).all(|x| x.is_finite() && x != 0.0));
    }
}

// gittensor-ai-lab/sparkinfer #3, pytorch/executorch #22443, Dao-AILab/flash-attention #380: the
// causal mask of a query that comes after cached keys was laid from key 0 on, so that it saw one.
#[test]
fn a_causal_query_after_a_cache_sees_the_cache() {
    for cpu in Cpu::all() {
        let whole = attend(cpu, 5, 5, 0, Mask::Causal);
        let query = numbers(1, 5 * WIDTH);
        // The last query alone, at its position.
        let (key, value) = (numbers(2, 5 * WIDTH), numbers(3, 5 * WIDTH));
        let (mut keys, mut values) =
            (vec![Line::ZERO; HEADS.key_lines(5)], vec![Line::ZERO; HEADS.value_lines(5)]);
        append_keys_values(HEADS, 5, 0, &key, &value, WIDTH, 5, &mut keys, &mut values);
        let shape = AttentionShape {
            heads: HEADS,
            queries: 1,
            query_stride: WIDTH,
            keys: 5,
            capacity: 5,
            first: 4,
            mask: Mask::Causal,
        };
        let (mut scores, mut out) = (vec![Line::ZERO; score_lines(5)], [0.0; WIDTH]);
        cpu.attention(&shape, &query[4 * WIDTH..], &keys, &values, &mut scores, &mut out, None).unwrap();
        assert_eq!(out, whole[4 * WIDTH..]);
    }
}

// robertknight/rten #1323: fewer keys than causal queries made a length less than zero, and a panic.
#[test]
fn fewer_keys_than_causal_queries_are_no_fault() {
    for cpu in Cpu::all() {
        let out = attend(cpu, 6, 2, 0, Mask::Causal);
        // From the second query on, all see both keys.
        let both = attend(cpu, 6, 2, 0, Mask::None);
        assert_eq!(out[WIDTH..], both[WIDTH..]);
        assert!(attend(cpu, 3, 0, 0, Mask::Causal).iter().all(|x| *x == 0.0), "no keys at all");
    }
}

// uTensor/uTensor #175: exp of the scores themselves was infinite, and their quotient NaN.
#[test]
fn softmax_of_scores_in_the_hundreds_is_finite() {
    for cpu in Cpu::all() {
        let mut x = [-249.87, -424.13, -460.29, 378.1, -292.61];
        cpu.softmax(&mut x, 5).unwrap();
        assert_eq!(x, [0.0, 0.0, 0.0, 1.0, 0.0]);
    }
}

/// Layer norm of one row with gamma 1 and beta 0.
fn layer_norm(cpu: Cpu, row: &[f32]) -> Vec<f32> {
    let gamma = vec![Line([1.0; 16]); row.len().div_ceil(16)];
    let mut x = row.to_vec();
    cpu.layer_norm(&mut x, row.len(), None, &gamma, &[], 1e-5).unwrap();
    x
}

fn layer_norm_in_f64(row: &[f32]) -> Vec<f64> {
    let mean = row.iter().map(|x| f64::from(*x)).sum::<f64>() / row.len() as f64;
    let variance = row.iter().map(|x| (f64::from(*x) - mean).powi(2)).sum::<f64>() / row.len() as f64;
    row.iter().map(|x| (f64::from(*x) - mean) / (variance + 1e-5).sqrt()).collect()
}

// tracel-ai/burn #5607, pytorch/pytorch #51102: the variance as the mean of the squares less the
// square of the mean loses everything where the mean is large.
#[test]
fn layer_norm_holds_where_the_mean_is_large_and_the_spread_small() {
    let spread = |mean: f32, step: f32, n: usize| (0..n).map(|i| mean + i as f32 * step).collect::<Vec<_>>();
    for row in [
        spread(100.0, 1e-3, 16),
        spread(1000.0, 1e-3, 16),
        spread(10_000.0, 1e-3, 16),
        numbers(9, 4).iter().map(|x| x + 2000.0).collect(),
    ] {
        let expected = layer_norm_in_f64(&row);
        for cpu in Cpu::all() {
            for (x, y) in layer_norm(cpu, &row).iter().zip(&expected) {
                assert!((f64::from(*x) - y).abs() < 2e-3, "{} of {row:?}: {x} {y}", cpu.name());
            }
        }
    }
}

// microsoft/onnxruntime #28463: 40000, 40001, 40002, 40003 became NaN.
#[test]
fn layer_norm_of_forty_thousand_and_its_successors_is_finite_and_right() {
    for start in [40_000.0f32, 80_000.0] {
        let row = [start, start + 1.0, start + 2.0, start + 3.0];
        for cpu in Cpu::all() {
            for (x, y) in layer_norm(cpu, &row).iter().zip([-1.341_636, -0.447_212, 0.447_212, 1.341_636]) {
                assert!((x - y).abs() < 1e-5, "{x}");
            }
        }
    }
}

// microsoft/onnxruntime #21935: a row of equal numbers had a variance below zero, whose root is NaN.
#[test]
fn layer_norm_of_a_constant_row_is_zeros() {
    for cpu in Cpu::all() {
        for value in [1234.0, 0.1, -3.3e7, 1e-20] {
            assert_eq!(layer_norm(cpu, &[value; 256]), [0.0; 256], "{value} on {}", cpu.name());
        }
    }
}

// kyutai-labs/pocket-tts #278: a model trained with one GELU was run with the other; both are
// called "gelu".
#[test]
fn the_two_gelus_are_different_functions_under_different_names() {
    for cpu in Cpu::all() {
        let (mut erf, mut tanh) = ([-2.2, 2.2], [-2.2, 2.2]);
        cpu.activate(Activation::GeluErf, &mut erf);
        cpu.activate(Activation::GeluTanh, &mut tanh);
        // x Φ(x), and x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, to six digits.
        for (x, y) in erf.iter().chain(&tanh).zip([-0.030_587_6, 2.169_412_4, -0.030_321_5, 2.169_678_5]) {
            assert!((x - y).abs() < 1e-6, "{x} should be {y}");
        }
    }
}

// tenstorrent/tt-metal #56517: `1 + tanh` is 0 where the function is small but not nothing.
#[test]
fn gelu_far_left_is_small_but_not_zero() {
    for cpu in Cpu::all() {
        let mut x = [-6.0];
        cpu.activate(Activation::GeluTanh, &mut x);
        let u = (2.0 / std::f64::consts::PI).sqrt() * (-6.0 + 0.044715 * -216.0);
        // x (1 + tanh(u)) / 2 = x e^2u / (1 + e^2u)
        let expected = -6.0 * (2.0 * u).exp() / (1.0 + (2.0 * u).exp());
        assert!((f64::from(x[0]) / expected - 1.0).abs() < 1e-5, "{} should be {expected:e}", x[0]);
    }
}

/// A product of eight bits, `x[depth] · wᵀ[depth]` for one row and column.
fn product(cpu: Cpu, x: &[f32], w: &[f32]) -> f32 {
    let depth = x.len();
    let (codes, scales) = int8_lines(1, depth, 0);
    let (mut codes, mut scales) = (vec![Line::ZERO; codes], vec![Line::ZERO; scales]);
    pack_int8(w, 1, depth, 0, Line::codes_mut(&mut codes), &mut scales);
    let mut quantized = vec![Line::ZERO; row_lines(depth, 0)];
    cpu.quantize(x, depth, 0, &mut quantized).unwrap();
    let weights = Int8 { codes: Line::codes(&codes), scales: &scales, group: 0 };
    let mut out = [f32::NAN];
    cpu.matmul_int8(&quantized, depth, weights, &[], Activation::Identity, &mut out, 1).unwrap();
    out[0]
}

// pytorch/ao #4713, apple/coremltools #2851: a row of zeros has the scale 0, and 0 / 0 is NaN.
#[test]
fn a_row_of_zeros_quantizes_to_zeros() {
    for cpu in Cpu::all() {
        assert_eq!(product(cpu, &[0.0; 20], &[1.0; 20]), 0.0, "activations, {}", cpu.name());
        assert_eq!(product(cpu, &[1.0; 20], &[0.0; 20]), 0.0, "weights, {}", cpu.name());
        // So small that its scale has few bits, or none.
        assert!(product(cpu, &[1.0; 20], &[1e-44; 20]).abs() < 1e-40);
    }
}

// openvinotoolkit/openvino #11658, uxlfoundation/oneDNN #518, microsoft/onnxruntime #12088: sums
// of pairs of eight-bit products stopped at 32767 on some machines.
#[test]
fn the_largest_codes_of_eight_bits_do_not_saturate() {
    for sign in [1.0, -1.0] {
        for cpu in Cpu::all() {
            let found = product(cpu, &[3.0; 64], &[sign * 2.0; 64]);
            assert!((found - sign * 384.0).abs() < 1e-3, "{}: {found}", cpu.name());
        }
    }
}

// codertimo/BERT-pytorch #78: an odd number of features has one sine more than cosines.
#[test]
fn positions_of_an_odd_number_of_features_are_sines_and_cosines() {
    let mut x = [0.0; 2 * 5];
    add_sinusoidal(Sinusoid::Interleaved, 7, &mut x, 5);
    for (i, x) in x.iter().enumerate() {
        let (position, feature) = ((7 + i / 5) as f64, i % 5);
        let angle = position / 10_000f64.powf((feature - feature % 2) as f64 / 5.0);
        let expected = if feature.is_multiple_of(2) { angle.sin() } else { angle.cos() };
        assert!((f64::from(*x) - expected).abs() < 1e-6, "{i}: {x} should be {expected}");
    }
}
