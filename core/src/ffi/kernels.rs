//! The kernels alone: matmul, softmax, norms, activations.

use super::memory::{Out, apart, product, slice, slice_mut, slice_or_none, span};
use super::{Code, PfCpu, cpu, run};
use crate::Line;
use crate::kernels::activation::Activation;
use crate::kernels::pack::{pack_linear, panel_lines};
use crate::line::LANES;
use core::ffi::c_int;

/// The floats of so many lines.
pub(super) fn floats(lines: usize) -> Result<usize, Code> {
    product(lines, LANES)
}

pub(super) fn activation(number: c_int) -> Result<Activation, Code> {
    use Activation::*;
    let all = [Identity, Relu, GeluErf, GeluTanh, Silu, Tanh, Sigmoid, Exp];
    all.into_iter().find(|a| *a as c_int == number).ok_or(Code::Choice)
}

/// Floats of packed weights.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_matmul_packed_size(cols: usize, depth: usize, size: *mut usize) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let size = unsafe { Out::new(size) }?;
        size.set(floats(panel_lines(cols, depth))?);
        Ok(())
    })
}

/// Packs weights.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_matmul_pack(
    weights: *const f32,
    cols: usize,
    depth: usize,
    packed: *mut f32,
    size: usize,
) -> c_int {
    run(|| {
        let (len, lines) = (product(cols, depth)?, panel_lines(cols, depth));
        if size < floats(lines)? {
            return Err(Code::Shape);
        }
        let packed = packed.cast::<Line>();
        apart(&[span(packed, lines)], &[span(weights, len)])?;
        // SAFETY: the caller's promise; apart from each other.
        let (weights, packed) = unsafe { (slice(weights, len)?, slice_mut(packed, lines)?) };
        pack_linear(weights, cols, depth, packed);
        Ok(())
    })
}

/// The product with packed weights.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_matmul(
    cpu: *const PfCpu,
    x: *const f32,
    rows: usize,
    depth: usize,
    packed: *const f32,
    bias: *const f32,
    activation: c_int,
    cols: usize,
    out: *mut f32,
) -> c_int {
    run(|| {
        let (x_len, out_len) = (product(rows, depth)?, product(rows, cols)?);
        let (panels, lines) = (packed.cast::<Line>(), panel_lines(cols, depth));
        let (bias, bias_lines) = (bias.cast::<Line>(), Line::count(cols));
        apart(&[span(out, out_len)], &[span(x, x_len), span(panels, lines), span(bias, bias_lines)])?;
        let (cpu, activation) = (cpu::cpu(cpu)?, self::activation(activation)?);
        // SAFETY: the caller's promise; the output is apart from the inputs.
        let (x, panels, bias, out) = unsafe {
            (
                slice(x, x_len)?,
                slice(panels, lines)?,
                slice_or_none(bias, bias_lines)?.unwrap_or(&[]),
                slice_mut(out, out_len)?,
            )
        };
        Ok(cpu.matmul(x, depth, panels, bias, activation, out, cols)?)
    })
}

/// Softmax of rows.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_softmax(cpu: *const PfCpu, rows: usize, cols: usize, x: *mut f32) -> c_int {
    // SAFETY: the caller's promise.
    run(|| Ok(cpu::cpu(cpu)?.softmax(unsafe { slice_mut(x, product(rows, cols)?) }?, cols)?))
}

/// LayerNorm of rows.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_layer_norm(
    cpu: *const PfCpu,
    rows: usize,
    cols: usize,
    residual: *const f32,
    gamma: *const f32,
    beta: *const f32,
    eps: f32,
    x: *mut f32,
) -> c_int {
    run(|| {
        let (len, lines) = (product(rows, cols)?, Line::count(cols));
        let (gamma, beta) = (gamma.cast::<Line>(), beta.cast::<Line>());
        apart(&[span(x, len)], &[span(residual, len), span(gamma, lines), span(beta, lines)])?;
        let cpu = cpu::cpu(cpu)?;
        // SAFETY: the caller's promise; `x` is apart from the others.
        let (x, residual, gamma, beta) = unsafe {
            (
                slice_mut(x, len)?,
                slice_or_none(residual, len)?,
                slice(gamma, lines)?,
                slice_or_none(beta, lines)?.unwrap_or(&[]),
            )
        };
        Ok(cpu.layer_norm(x, cols, residual, gamma, beta, eps)?)
    })
}

/// RMSNorm of rows.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_rms_norm(
    cpu: *const PfCpu,
    rows: usize,
    cols: usize,
    residual: *const f32,
    gamma: *const f32,
    eps: f32,
    x: *mut f32,
) -> c_int {
    run(|| {
        let (len, lines) = (product(rows, cols)?, Line::count(cols));
        let gamma = gamma.cast::<Line>();
        apart(&[span(x, len)], &[span(residual, len), span(gamma, lines)])?;
        let cpu = cpu::cpu(cpu)?;
        // SAFETY: the caller's promise; `x` is apart from the others.
        let (x, residual, gamma) =
            unsafe { (slice_mut(x, len)?, slice_or_none(residual, len)?, slice(gamma, lines)?) };
        Ok(cpu.rms_norm(x, cols, residual, gamma, eps)?)
    })
}

/// A sum.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_add(cpu: *const PfCpu, y: *const f32, size: usize, x: *mut f32) -> c_int {
    run(|| {
        apart(&[span(x, size)], &[span(y, size)])?;
        let cpu = cpu::cpu(cpu)?;
        // SAFETY: the caller's promise; apart from each other.
        let (x, y) = unsafe { (slice_mut(x, size)?, slice(y, size)?) };
        Ok(cpu.add(x, y)?)
    })
}

/// An activation of every number.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pf_activate(
    cpu: *const PfCpu,
    activation: c_int,
    size: usize,
    x: *mut f32,
) -> c_int {
    run(|| {
        let (cpu, activation) = (cpu::cpu(cpu)?, self::activation(activation)?);
        // SAFETY: the caller's promise.
        cpu.activate(activation, unsafe { slice_mut(x, size) }?);
        Ok(())
    })
}
