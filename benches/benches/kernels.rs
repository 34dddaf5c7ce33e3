//! Every kernel on every backend, each checked against a plain loop before it is timed.
//!
//! Ids are `kernels/what__how`: `kernels/softmax_1024x128__avx2`. Criterion's `elem/s` is operations a
//! second for matmul and attention (a multiply-add is two), numbers for activations, and
//! bytes read and written for the rest. Matmul also prints its share of the peak.

use criterion::{Bencher, Criterion, Throughput};
use picoformer_benches::matmul::{Case, SHAPES};
use picoformer_benches::peak::peak;
use picoformer_benches::{Buffer, assert_near, median, plain, some};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::attention::{AttentionShape, Heads, Mask, append_keys_values, score_lines};
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use picoformer_core::{Cpu, Line};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// One benchmark `kernels/what__how`.
fn bench(c: &mut Criterion, what: &str, cpu: Cpu, work: Throughput, f: impl FnMut(&mut Bencher<'_>)) {
    let mut group = c.benchmark_group("kernels");
    group.throughput(work);
    group.bench_function(format!("{what}__{}", cpu.name()), f);
}

/// Bytes of so many passes over `x`.
fn bytes(x: &[f32], passes: usize) -> Throughput {
    Throughput::Bytes((size_of_val(x) * passes) as u64)
}

fn matmul(c: &mut Criterion) {
    for cpu in Cpu::all() {
        for shape in SHAPES {
            let mut case = Case::new(shape);
            case.check(cpu);
            let (what, flops) = (format!("matmul_{}", case.name()), case.flops());
            let mut shares = Vec::new();
            bench(c, &what, cpu, Throughput::Elements(flops), |b| {
                b.iter(|| case.run(cpu));
                // Criterion asks a few times: at once, the peak and what of it we reach.
                if let (Some(peak), rate) = (peak(cpu), case.rate(cpu)) {
                    shares.push((rate, 100.0 * rate / peak));
                }
            });
            // None where a filter leaves it out, one where it is only tested.
            if shares.len() > 1 {
                let (rates, shares) = shares.into_iter().unzip();
                let (rate, share) = (median(rates), median(shares));
                println!("{what}__{}: at best {rate:.1} GFLOP/s, {share:.0}% of the peak", cpu.name());
            }
        }
    }
}

fn softmax(c: &mut Criterion) {
    for cpu in Cpu::all() {
        for (rows, cols) in [(1024, 128), (1, 384), (384, 32)] {
            let what = format!("softmax_{rows}x{cols}");
            let x = Buffer::random(1, rows * cols);
            let mut y = x.clone();
            cpu.softmax(&mut y, cols).unwrap();
            for r in some(rows) {
                let row: Vec<f64> = x[r * cols..][..cols].iter().map(|x| f64::from(*x)).collect();
                for (found, expected) in y[r * cols..].iter().zip(plain::softmax(&row)) {
                    assert_near(&what, *found, expected, 1e-6);
                }
            }
            // In place, again and again: its input is then almost uniform, at no other cost.
            bench(c, &what, cpu, bytes(&x, 2), |b| {
                b.iter(|| cpu.softmax(black_box(&mut y), cols).unwrap());
            });
        }
    }
}

fn norms(c: &mut Criterion) {
    for cpu in Cpu::all() {
        for (rows, cols) in [(128, 384), (1, 384)] {
            let (x, residual) = (Buffer::random(1, rows * cols), Buffer::random(2, rows * cols));
            let (gamma, beta) = (Buffer::random(3, cols), Buffer::random(4, cols));
            for (kind, centred) in [("layer_norm", true), ("rms_norm", false)] {
                let run = |x: &mut [f32]| match centred {
                    true => cpu.layer_norm(x, cols, Some(&residual), gamma.lines(), beta.lines(), 1e-5),
                    false => cpu.rms_norm(x, cols, Some(&residual), gamma.lines(), 1e-5),
                };
                let what = format!("{kind}_{rows}x{cols}_residual");
                let mut y = x.clone();
                run(&mut y).unwrap();
                for r in some(rows) {
                    let (x, residual) = (&x[r * cols..][..cols], &residual[r * cols..][..cols]);
                    for (i, z) in plain::norm(x, Some(residual), centred, 1e-5).into_iter().enumerate() {
                        let shift = if centred { f64::from(beta[i]) } else { 0.0 };
                        assert_near(&what, y[r * cols + i], z * f64::from(gamma[i]) + shift, 1e-5);
                    }
                }
                bench(c, &what, cpu, bytes(&x, 3), |b| b.iter(|| run(black_box(&mut y)).unwrap()));
            }
        }
        let (x, other) = (Buffer::random(1, 128 * 384), Buffer::random(2, 128 * 384));
        let mut y = x.clone();
        cpu.add(&mut y, &other).unwrap();
        some(x.len()).for_each(|i| assert_near("add", y[i], f64::from(x[i]) + f64::from(other[i]), 1e-7));
        bench(c, "add_128x384", cpu, bytes(&x, 3), |b| {
            b.iter(|| cpu.add(black_box(&mut y), &other).unwrap());
        });
    }
}

fn activations(c: &mut Criterion) {
    const ALL: [(&str, Activation); 7] = [
        ("relu", Activation::Relu),
        ("gelu_erf", Activation::GeluErf),
        ("gelu_tanh", Activation::GeluTanh),
        ("silu", Activation::Silu),
        ("tanh", Activation::Tanh),
        ("sigmoid", Activation::Sigmoid),
        ("exp", Activation::Exp),
    ];
    let mut x = Buffer::random(1, 128 * 1536);
    x.iter_mut().for_each(|x| *x *= 4.0);
    for cpu in Cpu::all() {
        for (name, activation) in ALL {
            let mut y = x.clone();
            cpu.activate(activation, &mut y);
            for i in some(x.len()).chain(0..64) {
                let what = format!("{name}({}) on {}", x[i], cpu.name());
                assert_near(&what, y[i], plain::activate(activation, f64::from(x[i])), 1e-6);
            }
            let work = Throughput::Elements(x.len() as u64);
            bench(c, &format!("{name}_128x1536"), cpu, work, |b| {
                // The input is restored off the clock: its own outputs would decay to denormals.
                b.iter_custom(|times| {
                    let once = |_| {
                        y.copy_from_slice(&x);
                        let start = Instant::now();
                        cpu.activate(activation, black_box(&mut y));
                        start.elapsed()
                    };
                    (0..times).map(once).sum()
                });
            });
        }
    }
}

fn attention(c: &mut Criterion) {
    let heads = Heads { heads: 12, head_size: 32 };
    let (width, size) = (heads.width(), heads.head_size);
    for cpu in Cpu::all() {
        for (queries, keys) in [(16, 16), (128, 128), (512, 512), (1, 128)] {
            let query = Buffer::random(1, queries * width);
            let (key, value) = (Buffer::random(2, keys * width), Buffer::random(3, keys * width));
            let mut packed_keys = vec![Line::ZERO; heads.key_lines(keys)];
            let mut packed_values = vec![Line::ZERO; heads.value_lines(keys)];
            append_keys_values(
                heads,
                keys,
                0,
                &key,
                &value,
                width,
                keys,
                &mut packed_keys,
                &mut packed_values,
            );
            for (mask, tag) in [(Mask::None, ""), (Mask::Causal, "_causal")] {
                let first = keys - queries;
                let capacity = keys;
                let shape =
                    AttentionShape { heads, queries, query_stride: width, keys, capacity, first, mask };
                let mut out = Buffer::zeros(queries * width);
                let mut scores = vec![Line::ZERO; score_lines(keys)];
                let mut run = |out: &mut [f32]| {
                    cpu.attention(&shape, &query, &packed_keys, &packed_values, &mut scores, out, None)
                        .unwrap();
                };
                let visible = |i: usize| if mask == Mask::None { keys } else { first + i + 1 };
                let what = format!("attention_12x32_{queries}x{keys}{tag}");
                run(&mut out);
                for (i, head) in some(queries).flat_map(|i| [0, 5, 11].map(|h| (i, h))) {
                    let at = head * size;
                    let q = &query[i * width + at..][..size];
                    let expected = plain::attention(q, &key[at..], &value[at..], width, visible(i));
                    for (found, expected) in out[i * width + at..].iter().zip(expected) {
                        assert_near(&format!("{what} on {}", cpu.name()), *found, expected, 1e-5);
                    }
                }
                // Two products, of the pairs that are seen.
                let flops = 4 * heads.heads * size * (0..queries).map(visible).sum::<usize>();
                let work = Throughput::Elements(flops as u64);
                bench(c, &what, cpu, work, |b| b.iter(|| run(black_box(&mut out))));
            }
        }
    }
}

fn nearest(c: &mut Criterion) {
    let (vocab, d_model) = (4096, 384);
    let (table, x) = (Buffer::random(1, vocab * d_model), Buffer::random(2, d_model));
    let products: Vec<f64> = table.chunks(d_model).map(|row| plain::dot(row, &x)).collect();
    let best = (0..vocab).max_by(|a, b| products[*a].total_cmp(&products[*b])).unwrap();
    for cpu in Cpu::all() {
        let (token, product) = cpu.nearest(table.lines(), vocab, d_model, &x).unwrap();
        assert_eq!(token as usize, best);
        assert_near("nearest", product, products[best], 1e-5);
        bench(c, "nearest_4096x384", cpu, bytes(&table, 1), |b| {
            b.iter(|| cpu.nearest(table.lines(), vocab, d_model, black_box(&x)).unwrap());
        });
    }
}

/// 128 tokens embedded with the paper's scale, and their positions added: what comes
/// before the first layer.
fn embedding(c: &mut Criterion) {
    let (vocab, d_model, rows) = (4096, 384, 128);
    let table = Buffer::random(1, vocab * d_model);
    let scale = (d_model as f32).sqrt();
    let token = |row: usize| row * 31 % vocab;
    for cpu in Cpu::all() {
        let mut x = vec![0.0; rows * d_model];
        let embed = |x: &mut [f32]| {
            for (row, x) in x.chunks_mut(d_model).enumerate() {
                cpu.embed(table.lines(), token(row) as u32, d_model, scale, black_box(x)).unwrap();
            }
        };
        embed(&mut x);
        for row in [0, 77] {
            let expected = f64::from(table[token(row) * d_model + 5]) * f64::from(scale);
            assert_near("embed", x[row * d_model + 5], expected, 1e-6);
        }
        bench(c, "embed_128x384", cpu, bytes(&x, 2), |b| b.iter(|| embed(&mut x)));
    }
    // Plain f64 code, the same for every backend.
    let mut x = vec![0.0; rows * d_model];
    add_sinusoidal(Sinusoid::Interleaved, 0, &mut x, d_model);
    assert_near("add_sinusoidal", x[100 * d_model], 100f64.sin(), 1e-6);
    bench(c, "add_sinusoidal_128x384", Cpu::baseline(), bytes(&x, 2), |b| {
        b.iter(|| add_sinusoidal(Sinusoid::Interleaved, 0, black_box(&mut x), d_model));
    });
}

fn main() {
    let mut c = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(500))
        .nresamples(2000)
        .without_plots()
        .configure_from_args();
    matmul(&mut c);
    softmax(&mut c);
    norms(&mut c);
    activations(&mut c);
    attention(&mut c);
    nearest(&mut c);
    embedding(&mut c);
    c.final_summary();
}
