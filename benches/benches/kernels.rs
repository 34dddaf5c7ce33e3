//! Every kernel on every backend, each checked against a plain loop before it is timed.
//!
//! The rows of `--bench table` are a group each, with their peers:
//! `softmax_1024x128/softmax_1024x128__avx2`; `elem/s` is operations a second for matmul and
//! attention (a multiply-add is two), and numbers for the rest. What is not in the table is
//! in the group `kernels`, in bytes read and written.

mod rows;

use criterion::{Bencher, Criterion, Throughput};
use picoformer_benches::{Buffer, assert_near, plain, some};
use picoformer_core::Cpu;
use picoformer_core::kernels::position::{Sinusoid, add_sinusoidal};
use std::hint::black_box;
use std::time::Duration;

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

/// Every row of the table, a group each: `softmax_1024x128/softmax_1024x128__avx2`.
fn table(c: &mut Criterion) {
    for plan in rows::all() {
        let mut row = (plan.row)();
        let mut group = c.benchmark_group(&row.what);
        group.throughput(Throughput::Elements(row.work.count()));
        for way in 0..row.ways() {
            let id = format!("{}__{}", row.what, row.how(way));
            group.bench_function(id, |b| b.iter_custom(|runs| row.time(way, runs)));
        }
    }
}

fn norms(c: &mut Criterion) {
    for cpu in Cpu::all() {
        for (rows, cols) in [(128, 384), (1, 384)] {
            let (x, residual) = (Buffer::random(1, rows * cols), Buffer::random(2, rows * cols));
            let gamma = Buffer::random(3, cols);
            let run = |x: &mut [f32]| cpu.rms_norm(x, cols, Some(&residual), gamma.lines(), 1e-5).unwrap();
            let what = format!("rms_norm_{rows}x{cols}_residual");
            let mut y = x.clone();
            run(&mut y);
            for r in some(rows) {
                let (x, residual) = (&x[r * cols..][..cols], &residual[r * cols..][..cols]);
                for (i, z) in plain::norm(x, Some(residual), false, 1e-5).into_iter().enumerate() {
                    assert_near(&what, y[r * cols + i], z * f64::from(gamma[i]), 1e-5);
                }
            }
            bench(c, &what, cpu, bytes(&x, 3), |b| b.iter(|| run(black_box(&mut y))));
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
    rows::one_thread();
    let mut c = Criterion::default()
        .sample_size(15)
        .warm_up_time(Duration::from_millis(150))
        .measurement_time(Duration::from_millis(500))
        .nresamples(2000)
        .without_plots()
        .configure_from_args();
    table(&mut c);
    norms(&mut c);
    nearest(&mut c);
    embedding(&mut c);
    c.final_summary();
}
