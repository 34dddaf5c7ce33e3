//! What goes over numbers in place: softmax, layer norm, activations.

use picoformer_benches::row::{Plan, Reference, Row, Work};
use picoformer_benches::{Buffer, plain, some};
use picoformer_core::Cpu;
use picoformer_core::kernels::activation::Activation;
use rten_simd::{SimdOp, SimdUnaryOp};
use rten_vecmath::{ApproxGelu, Exp, Gelu, LeakyRelu, Normalize, NormalizeOptions, Sigmoid, Silu, Softmax};
use rten_vecmath::{Sum, SumSquareSub, Tanh};
use std::rc::Rc;

pub(crate) fn rows() -> Vec<Plan> {
    let softmaxes = [(1024, 128), (1024, 1024), (6144, 512), (1, 384), (384, 32), (64, 30522)];
    let norms = [(128, 384), (512, 768), (1, 384), (1, 64)];
    let mut plans: Vec<Plan> = softmaxes.map(|(rows, cols)| softmax(rows, cols)).into();
    plans.extend(norms.map(|(rows, cols)| layer_norm(rows, cols)));
    // What moving the same numbers takes.
    plans.push(add(512, 768));
    plans.extend([
        activation("gelu_erf", Activation::GeluErf, |x| Gelu {}.map_mut(x)),
        activation("gelu_tanh", Activation::GeluTanh, |x| ApproxGelu {}.map_mut(x)),
        activation("exp", Activation::Exp, |x| Exp {}.map_mut(x)),
        activation("silu", Activation::Silu, |x| Silu {}.map_mut(x)),
        activation("sigmoid", Activation::Sigmoid, |x| Sigmoid {}.map_mut(x)),
        activation("tanh", Activation::Tanh, |x| Tanh {}.map_mut(x)),
        // The peer's with a slope of zero, as it has no other.
        activation("relu", Activation::Relu, |x| LeakyRelu { alpha: 0.0 }.map_mut(x)),
    ]);
    plans
}

/// A plan that changes `rows × cols` numbers.
fn plan(what: &str, rows: usize, cols: usize, fill: impl FnOnce(&mut Row, Buffer) + 'static) -> Plan {
    let (what, work) = (format!("{what}_{rows}x{cols}"), Work::Numbers((rows * cols) as u64));
    Plan::new(what, work, Reference::None, move |row| fill(row, Buffer::random(1, rows * cols)))
}

/// `of(r)` at a few columns of a few rows.
fn entries(rows: usize, cols: usize, of: impl Fn(usize) -> Vec<f64>) -> Vec<(usize, f64)> {
    let row = |r: usize| {
        let values = of(r);
        some(cols).map(move |c| (r * cols + c, values[c]))
    };
    some(rows).flat_map(row).collect()
}

fn softmax(rows: usize, cols: usize) -> Plan {
    plan("softmax", rows, cols, move |row, x| {
        let wide = |r: usize| -> Vec<f64> { x[r * cols..][..cols].iter().map(|x| f64::from(*x)).collect() };
        row.expect(entries(rows, cols, |r| plain::softmax(&wide(r))), 1e-6);
        // Again and again in place: its input is then almost uniform, at no other cost.
        row.changes(x, u64::MAX);
        for cpu in Cpu::all() {
            row.ours(cpu, move |x| cpu.softmax(x, cols).unwrap());
        }
        row.peer("rten-vecmath", move |x| {
            x.chunks_exact_mut(cols).for_each(|row| _ = Softmax::new_mut(row).dispatch());
        });
    })
}

fn layer_norm(rows: usize, cols: usize) -> Plan {
    plan("layer_norm_add", rows, cols, move |row, x| {
        let residual = Rc::new(Buffer::random(2, rows * cols));
        let (gamma, beta) = (Rc::new(Buffer::random(3, cols)), Rc::new(Buffer::random(4, cols)));
        let expected = |residual: Option<&Buffer>| {
            entries(rows, cols, |r| {
                let cells = |x: &Buffer| x[r * cols..][..cols].to_vec();
                let normed = plain::norm(&cells(&x), residual.map(cells).as_deref(), true, 1e-5);
                let scale = |(c, x): (usize, f64)| x * f64::from(gamma[c]) + f64::from(beta[c]);
                normed.into_iter().enumerate().map(scale).collect()
            })
        };
        let (with, without) = (expected(Some(&residual)), expected(None));
        row.changes(x, u64::MAX);
        row.expect(with, 1e-5);
        for cpu in Cpu::all() {
            let (y, gamma, beta) = (residual.clone(), gamma.clone(), beta.clone());
            row.ours(cpu, move |x| {
                cpu.layer_norm(x, cols, Some(&y), gamma.lines(), beta.lines(), 1e-5).unwrap();
            });
        }
        // It has no addition, which is to its advantage.
        row.expect(without, 1e-5);
        row.peer("rten-vecmath-without-add", move |x| {
            for x in x.chunks_exact_mut(cols) {
                let mean = Sum::new(x).dispatch() / cols as f32;
                let variance = SumSquareSub::new(x, mean).dispatch() / cols as f32;
                let options = NormalizeOptions {
                    pre_scale_bias: mean,
                    scale: (variance + 1e-5).sqrt().recip(),
                    element_scale: Some(&gamma),
                    element_bias: Some(&beta),
                    ..Default::default()
                };
                Normalize::new_mut(x, options).dispatch();
            }
        });
    })
}

fn add(rows: usize, cols: usize) -> Plan {
    plan("add", rows, cols, move |row, x| {
        let y = Rc::new(Buffer::random(2, rows * cols));
        row.expect(some(x.len()).map(|i| (i, f64::from(x[i]) + f64::from(y[i]))).collect(), 1e-6);
        row.changes(x, u64::MAX);
        for cpu in Cpu::all() {
            let y = y.clone();
            row.ours(cpu, move |x| cpu.add(x, &y).unwrap());
        }
    })
}

fn activation(what: &str, f: Activation, peer: impl FnMut(&mut [f32]) + 'static) -> Plan {
    plan(what, 128, 1536, move |row, mut x| {
        x.iter_mut().for_each(|x| *x *= 4.0);
        let expected = some(x.len()).chain(0..64).map(|i| (i, plain::activate(f, f64::from(x[i])))).collect();
        // The input is made anew each time: its own outputs would decay to denormals.
        row.changes(x, 1);
        row.expect(expected, 1e-6);
        for cpu in Cpu::all() {
            row.ours(cpu, move |x| cpu.activate(f, x));
        }
        row.peer("rten-vecmath", peer);
    })
}
