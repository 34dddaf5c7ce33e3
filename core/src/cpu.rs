//! The one place that asks the CPU, and the kernels compiled for each answer.

use crate::kernels::activation::{self, Activation};
use crate::kernels::attention::{self, AttentionShape, score_lines};
use crate::kernels::matmul::{self, Matmul};
use crate::kernels::pack::panel_lines;
use crate::kernels::{embedding, norm, softmax};
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd::{Avx2, Avx512};
use crate::{error::Error, line::Line, simd::Baseline};

/// The CPU's kernels. Holding one is the proof that they run here.
///
/// ```
/// use picoformer_core::Cpu;
/// let mut row = [1.0, 2.0, f32::NEG_INFINITY];
/// Cpu::detect().softmax(&mut row, 3)?;
/// assert!((row[1] - 0.731_058_6).abs() < 1e-6 && row[2] == 0.0);
/// # Ok::<(), picoformer_core::Error>(())
/// ```
///
/// A `Cpu` is one pointer: ask once ([`Cpu::detect`]) and pass it on. Every method
/// checks its shapes before it writes.
#[derive(Clone, Copy)]
pub struct Cpu(&'static Kernels);

/// One backend's kernels. They are compiled here, not at their users' opt-level.
#[allow(clippy::type_complexity, reason = "a table of signatures: naming each would hide them")]
struct Kernels {
    name: &'static str,
    matmul: unsafe fn(&Matmul<'_>, &mut [f32]),
    softmax: unsafe fn(&mut [f32], usize),
    layer_norm: unsafe fn(&mut [f32], usize, Option<&[f32]>, &[Line], &[Line], f32),
    rms_norm: unsafe fn(&mut [f32], usize, Option<&[f32]>, &[Line], f32),
    add: unsafe fn(&mut [f32], &[f32]),
    activate: unsafe fn(Activation, &mut [f32]),
    attention: unsafe fn(&Attention<'_>, &mut [Line], &mut [f32], Option<&mut [f32]>),
    embed: unsafe fn(&[Line], u32, usize, f32, &mut [f32]) -> Option<()>,
    nearest: unsafe fn(&[Line], usize, usize, &[f32]) -> (u32, f32),
}

/// What attention reads.
struct Attention<'a> {
    shape: &'a AttentionShape<'a>,
    query: &'a [f32],
    keys: &'a [Line],
    values: &'a [Line],
}

macro_rules! backend {
    ($table:ident, $name:literal, $simd:expr $(, $feature:literal)?) => {
        static $table: Kernels = {
            $(#[target_feature(enable = $feature)])?
            fn matmul(m: &Matmul<'_>, out: &mut [f32]) { matmul::matmul($simd, m, out) }
            $(#[target_feature(enable = $feature)])?
            fn softmax(x: &mut [f32], cols: usize) { softmax::softmax_rows($simd, x, cols) }
            $(#[target_feature(enable = $feature)])?
            fn layer_norm(x: &mut [f32], cols: usize, y: Option<&[f32]>, gamma: &[Line], beta: &[Line], eps: f32) {
                norm::layer_norm($simd, x, cols, y, gamma, beta, eps)
            }
            $(#[target_feature(enable = $feature)])?
            fn rms_norm(x: &mut [f32], cols: usize, y: Option<&[f32]>, gamma: &[Line], eps: f32) {
                norm::rms_norm($simd, x, cols, y, gamma, eps)
            }
            $(#[target_feature(enable = $feature)])?
            fn add(x: &mut [f32], y: &[f32]) { norm::add($simd, x, y) }
            $(#[target_feature(enable = $feature)])?
            fn activate(f: Activation, x: &mut [f32]) { activation::activate($simd, f, x) }
            $(#[target_feature(enable = $feature)])?
            fn attention(a: &Attention<'_>, scores: &mut [Line], out: &mut [f32], weights: Option<&mut [f32]>) {
                attention::attention($simd, a.shape, a.query, a.keys, a.values, scores, out, weights)
            }
            $(#[target_feature(enable = $feature)])?
            fn embed(table: &[Line], token: u32, d_model: usize, scale: f32, out: &mut [f32]) -> Option<()> {
                embedding::embed($simd, table, token, d_model, scale, out)
            }
            $(#[target_feature(enable = $feature)])?
            fn nearest(table: &[Line], vocab: usize, d_model: usize, x: &[f32]) -> (u32, f32) {
                embedding::nearest($simd, table, vocab, d_model, x)
            }
            Kernels { name: $name, matmul, softmax, layer_norm, rms_norm, add, activate, attention, embed, nearest }
        };
    };
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
macro_rules! avx2 {
    () => {
        // SAFETY: used only in functions that enable AVX2 and FMA, whose callers (all
        // unsafe) promise that the CPU has them.
        unsafe { Avx2::assume() }
    };
}
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
macro_rules! avx512 {
    () => {
        // SAFETY: as in `avx2`, with AVX-512F.
        unsafe { Avx512::assume() }
    };
}

backend!(BASELINE, "baseline", Baseline::NEW);
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
backend!(AVX2, "avx2", avx2!(), "avx2,fma");
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
backend!(AVX512, "avx512", avx512!(), "avx512f");

/// Every backend that is compiled, slowest first.
static TABLES: &[&Kernels] = &[
    &BASELINE,
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    &AVX2,
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    &AVX512,
];

/// How many of [`TABLES`] run here.
#[cfg(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(any(target_os = "none", target_os = "uefi", target_env = "sgx", miri))
))]
fn count() -> usize {
    use core::arch::x86_64::{__cpuid, __cpuid_count, _xgetbv};

    #[target_feature(enable = "xsave")]
    fn saved_registers() -> u64 {
        // SAFETY: the caller has seen OSXSAVE, so the instruction is there.
        unsafe { _xgetbv(0) }
    }
    let bit = |x: u32, n: u32| x >> n & 1 == 1;
    if __cpuid(0).eax < 7 {
        return 1;
    }
    let (leaf1, leaf7) = (__cpuid(1), __cpuid_count(7, 0));
    let (fma, xsave, osxsave) = (bit(leaf1.ecx, 12), bit(leaf1.ecx, 26), bit(leaf1.ecx, 27));
    let (avx2, avx512f) = (bit(leaf7.ebx, 5), bit(leaf7.ebx, 16));
    if !(fma && xsave && osxsave && avx2) {
        return 1;
    }
    // SAFETY: CPUID says that XSAVE is there and that the operating system uses it.
    let saved = unsafe { saved_registers() };
    match (saved & 0x6 == 0x6, avx512f && saved & 0xe6 == 0xe6) {
        (true, true) => 3,
        (true, false) => 2,
        (false, _) => 1,
    }
}

#[cfg(not(all(
    target_arch = "x86_64",
    target_feature = "sse2",
    not(any(target_os = "none", target_os = "uefi", target_env = "sgx", miri))
)))]
fn count() -> usize {
    1
}

/// Refuses a buffer of fewer than `need` elements.
const fn check(have: usize, need: usize) -> Result<(), Error> {
    if have < need { Err(Error::Shape { need }) } else { Ok(()) }
}

impl Cpu {
    /// The fastest kernels that run here.
    ///
    /// CPUID may trap to a hypervisor (tens of microseconds): ask once.
    pub fn detect() -> Self {
        Self::all().last().unwrap_or(Self::baseline())
    }

    /// The kernels of the compile target, which run everywhere.
    pub const fn baseline() -> Self {
        Cpu(&BASELINE)
    }

    /// Every backend that runs here, slowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        TABLES.iter().take(count()).map(|&table| Cpu(table))
    }

    /// `"baseline"`, `"avx2"` or `"avx512"`.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// `out[rows × cols] = act(x[rows × depth] · Wᵀ + bias)`; `out` tells the rows.
    ///
    /// `panels` is `W[cols × depth]` packed by [`pack_linear`](crate::kernels::pack::pack_linear);
    /// `bias` is `ceil(cols / 16)` lines, or empty for none. See [`matmul::matmul`].
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` is not whole rows, or another buffer is short.
    pub fn matmul(
        self,
        x: &[f32],
        depth: usize,
        panels: &[Line],
        bias: &[Line],
        activation: Activation,
        out: &mut [f32],
        cols: usize,
    ) -> Result<(), Error> {
        let m = Matmul { x, depth, panels, bias, activation, cols };
        check_matmul(&m, out)?;
        // SAFETY: a `Cpu` only holds a table that runs here: `baseline` does everywhere,
        // `all` and `detect` take as many as `count` found.
        unsafe { (self.0.matmul)(&m, out) };
        Ok(())
    }

    /// Softmax of each row of `x[rows × cols]`, in place: `e^(x - max) / Σ`.
    ///
    /// Entries of -inf give 0, a row of nothing else zeros; finite input gives finite
    /// output.
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` is not whole rows.
    pub fn softmax(self, x: &mut [f32], cols: usize) -> Result<(), Error> {
        whole_rows(x, cols)?;
        // SAFETY: as in `matmul`.
        unsafe { (self.0.softmax)(x, cols) };
        Ok(())
    }

    /// LayerNorm of each row of `x + residual`, in place. See [`norm::layer_norm`].
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` is not whole rows, or another buffer is short.
    pub fn layer_norm(
        self,
        x: &mut [f32],
        cols: usize,
        residual: Option<&[f32]>,
        gamma: &[Line],
        beta: &[Line],
        eps: f32,
    ) -> Result<(), Error> {
        check_norm(x, cols, residual, gamma)?;
        check(beta.len(), if beta.is_empty() { 0 } else { Line::count(cols) })?;
        // SAFETY: as in `matmul`.
        unsafe { (self.0.layer_norm)(x, cols, residual, gamma, beta, eps) };
        Ok(())
    }

    /// RMSNorm of each row of `x + residual`, in place. See [`norm::rms_norm`].
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` is not whole rows, or another buffer is short.
    pub fn rms_norm(
        self,
        x: &mut [f32],
        cols: usize,
        residual: Option<&[f32]>,
        gamma: &[Line],
        eps: f32,
    ) -> Result<(), Error> {
        check_norm(x, cols, residual, gamma)?;
        // SAFETY: as in `matmul`.
        unsafe { (self.0.rms_norm)(x, cols, residual, gamma, eps) };
        Ok(())
    }

    /// `x += y`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `y` is shorter than `x`.
    pub fn add(self, x: &mut [f32], y: &[f32]) -> Result<(), Error> {
        let y = y.get(..x.len()).ok_or(Error::Shape { need: x.len() })?;
        // SAFETY: as in `matmul`.
        unsafe { (self.0.add)(x, y) };
        Ok(())
    }

    /// `x = activation(x)` for every number.
    pub fn activate(self, activation: Activation, x: &mut [f32]) {
        // SAFETY: as in `matmul`.
        unsafe { (self.0.activate)(activation, x) }
    }

    /// Attention of `query` to packed keys and values, into `out[queries × width]`.
    ///
    /// `scores` is scratch of [`score_lines`]`(shape.keys)`; `weights`, if any, receives
    /// `[heads × queries × keys]`. See [`attention::attention`].
    ///
    /// # Errors
    /// [`Error::Shape`] if a buffer or the mask is short, or `keys` is above `capacity`.
    pub fn attention(
        self,
        shape: &AttentionShape<'_>,
        query: &[f32],
        keys: &[Line],
        values: &[Line],
        scores: &mut [Line],
        out: &mut [f32],
        weights: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        if shape.queries == 0 || shape.heads.width() == 0 {
            return Ok(());
        }
        check_attention(shape, query, keys, values, out)?;
        check(scores.len(), score_lines(shape.keys))?;
        if let Some(weights) = &weights {
            let rows = shape.heads.heads.saturating_mul(shape.queries);
            check(weights.len(), rows.saturating_mul(shape.keys))?;
        }
        let input = Attention { shape, query, keys, values };
        // SAFETY: as in `matmul`.
        unsafe { (self.0.attention)(&input, scores, out, weights) };
        Ok(())
    }

    /// `out[d_model] = table[token] * scale`, from rows of `ceil(d_model / 16)` lines.
    ///
    /// # Errors
    /// [`Error::Token`] if the table has no such row, [`Error::Shape`] if `out` is short.
    pub fn embed(
        self,
        table: &[Line],
        token: u32,
        d_model: usize,
        scale: f32,
        out: &mut [f32],
    ) -> Result<(), Error> {
        check(out.len(), d_model)?;
        let vocab = table.len().checked_div(Line::count(d_model)).unwrap_or(0) as u32;
        // SAFETY: as in `matmul`.
        unsafe { (self.0.embed)(table, token, d_model, scale, out) }.ok_or(Error::Token { token, vocab })
    }

    /// [`Cpu::embed`] from the output projection's panels, which the embedding is tied to.
    ///
    /// # Errors
    /// [`Error::Token`] if there is no such panel, [`Error::Shape`] if `out` is short.
    pub fn embed_tied(
        self,
        panels: &[Line],
        token: u32,
        d_model: usize,
        scale: f32,
        out: &mut [f32],
    ) -> Result<(), Error> {
        check(out.len(), d_model)?;
        let vocab = panels.len().checked_div(d_model).unwrap_or(0).saturating_mul(16) as u32;
        embedding::embed_tied(panels, token, d_model, scale, out).ok_or(Error::Token { token, vocab })
    }

    /// The row of `table[vocab]` with the largest dot product with `x`, and that product.
    /// See [`embedding::nearest`].
    ///
    /// # Errors
    /// [`Error::Shape`] if the table or `x` is short.
    pub fn nearest(
        self,
        table: &[Line],
        vocab: usize,
        d_model: usize,
        x: &[f32],
    ) -> Result<(u32, f32), Error> {
        check(table.len(), vocab.saturating_mul(Line::count(d_model)))?;
        let x = x.get(..d_model).ok_or(Error::Shape { need: d_model })?;
        // SAFETY: as in `matmul`.
        Ok(unsafe { (self.0.nearest)(table, vocab, d_model, x) })
    }
}

/// The rows that `x` is.
fn whole_rows(x: &[f32], cols: usize) -> Result<usize, Error> {
    let rows = x.len().checked_div(cols).unwrap_or(0);
    if cols == 0 || x.len() == rows * cols { Ok(rows) } else { Err(Error::Shape { need: (rows + 1) * cols }) }
}

/// What [`Cpu::matmul`] needs.
pub(crate) fn check_matmul(m: &Matmul<'_>, out: &[f32]) -> Result<(), Error> {
    let rows = whole_rows(out, m.cols)?;
    check(m.x.len(), rows.saturating_mul(m.depth))?;
    check(m.panels.len(), panel_lines(m.cols, m.depth))?;
    check(m.bias.len(), if m.bias.is_empty() { 0 } else { Line::count(m.cols) })
}

/// What [`Cpu::attention`] needs, of one query or more; scratch and weights apart.
pub(crate) fn check_attention(
    shape: &AttentionShape<'_>,
    query: &[f32],
    keys: &[Line],
    values: &[Line],
    out: &[f32],
) -> Result<(), Error> {
    let (heads, queries, width) = (shape.heads, shape.queries, shape.heads.width());
    let before = shape.query_stride.saturating_mul(queries.saturating_sub(1));
    check(shape.capacity, shape.keys)?;
    check(query.len(), before.saturating_add(width))?;
    check(keys.len(), heads.key_lines(shape.capacity))?;
    check(values.len(), heads.value_lines(shape.capacity))?;
    check(out.len(), queries.saturating_mul(width))?;
    check(shape.mask.len(), shape.mask.need(queries, shape.keys))
}

pub(crate) fn check_norm(
    x: &[f32],
    cols: usize,
    residual: Option<&[f32]>,
    gamma: &[Line],
) -> Result<(), Error> {
    whole_rows(x, cols)?;
    check(residual.map_or(x.len(), <[f32]>::len), x.len())?;
    check(gamma.len(), Line::count(cols))
}

impl core::fmt::Debug for Cpu {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Cpu({})", self.0.name)
    }
}
