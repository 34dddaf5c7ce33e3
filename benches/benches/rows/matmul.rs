//! `x · Wᵀ + b` with packed weights, up to sixteen rows, one row, small ones; and with GELU.

use super::peers::{Layer, Rten};
use picoformer_benches::read::read;
use picoformer_benches::row::{Plan, READ, Reference, Row, Work};
use picoformer_benches::{Buffer, plain, some};
use picoformer_core::kernels::activation::Activation;
use picoformer_core::kernels::pack::{pack_linear, panel_lines};
use picoformer_core::{Cpu, Line};
use rten_simd::SimdUnaryOp;
use rten_vecmath::Gelu;
use std::rc::Rc;

/// A peer's `out = x · Wᵀ + b`.
type Product = Box<dyn Fn(&[f32], &mut [f32])>;

pub(crate) fn rows() -> Vec<Plan> {
    let layers = [(128, 384, 384), (32, 384, 384), (128, 1536, 384), (32, 384, 1536), (256, 2048, 512)];
    let few = (1..=16).map(|rows| (rows, 384, 384));
    let others = [(1, 1536, 384), (1, 384, 1536), (16, 16, 16), (32, 32, 32), (64, 64, 64)];
    let shapes = layers.into_iter().chain(few).chain(others).map(|shape| (shape, Activation::Identity));
    shapes.chain([((128, 1536, 384), Activation::GeluErf)]).map(|(shape, f)| plan(shape, f)).collect()
}

fn plan((rows, cols, depth): (usize, usize, usize), f: Activation) -> Plan {
    let then = if f == Activation::Identity { "" } else { "_gelu_erf" };
    let reference = if rows == 1 { Reference::Read } else { Reference::Peak };
    let work = Work::Flops(2 * (rows * cols * depth) as u64);
    let what = format!("matmul_{rows}x{cols}x{depth}{then}");
    Plan::new(what, work, reference, move |row| fill(row, (rows, cols, depth), f))
}

fn fill(row: &mut Row, (rows, cols, depth): (usize, usize, usize), f: Activation) {
    let (x, mut weights) = (Rc::new(Buffer::random(1, rows * depth)), Buffer::random(2, cols * depth));
    // Products of about unit variance, as a layer has them: denormal results take a CPU long.
    weights.iter_mut().for_each(|w| *w *= 3.0 / (depth as f32).sqrt());
    let bias = Rc::new(Buffer::random(3, cols));
    let mut panels = vec![Line::ZERO; panel_lines(cols, depth)];
    pack_linear(&weights, cols, depth, &mut panels);
    let panels = Rc::new(panels);

    row.writes(rows * cols);
    let at = |r: usize, c: usize| {
        let product = plain::dot(&x[r * depth..][..depth], &weights[c * depth..][..depth]);
        (r * cols + c, plain::activate(f, product + f64::from(bias[c])))
    };
    row.expect(
        some(rows).flat_map(|r| some(cols).map(move |c| (r, c))).map(|(r, c)| at(r, c)).collect(),
        2e-5,
    );
    for cpu in Cpu::all() {
        let (x, panels, bias) = (x.clone(), panels.clone(), bias.clone());
        row.ours(cpu, move |out| cpu.matmul(&x, depth, &panels, bias.lines(), f, out, cols).unwrap());
    }
    let layer = || Layer::new(&weights, cols, depth, &bias);
    let fused = f != Activation::Identity;
    let mut peer = |how: &str, product: Product| {
        let x = x.clone();
        // None of them fuses: what they offer is a pass over the product.
        let how = if fused { format!("{how}+rten-vecmath") } else { how.into() };
        row.peer(&how, move |out| {
            product(&x, out);
            if fused {
                Gelu {}.map_mut(out);
            }
        });
    };
    let (a, b, c) = (layer(), layer(), Rten::new(layer(), true));
    peer("gemm", Box::new(move |x, out| a.gemm(x, out)));
    peer("matrixmultiply", Box::new(move |x, out| b.matrixmultiply(x, out)));
    peer("rten-gemm", Box::new(move |x, out| c.run(x, out)));
    if rows == 1 {
        let d = Rten::new(layer(), false);
        peer("rten-gemm-unpacked", Box::new(move |x, out| d.run(x, out)));
        let sum = weights.iter().map(|w| f64::from(*w)).sum();
        // In f32 and in another order: near enough to tell that all was read.
        row.expect(vec![(0, sum)], 1e-2);
        let cpu = Cpu::detect();
        row.peer(READ, move |out| out[0] = read(cpu, &panels));
    }
}
