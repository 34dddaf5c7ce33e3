//! The kernels compiled for each kind of CPU, and the choice between them.

mod detect;

use core::ffi::CStr;

use crate::kernels::activation::{self, Activation};
use crate::kernels::attention::{self, AttentionShape, score_lines};
use crate::kernels::half::{self, Half, half_lines};
use crate::kernels::int8::{self, Int8};
use crate::kernels::matmul::{self, Matmul};
use crate::kernels::pack::{int8_lines, panel_lines};
use crate::kernels::{embedding, norm, softmax};
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
use crate::simd::NeonDot;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
use crate::simd::{Avx2, Avx512, Avx512Vnni, AvxVnni};
use crate::{error::Error, line::Line, simd::Baseline};
use detect::Features;

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
/// A `Cpu` is one byte: ask once ([`Cpu::detect`]) and pass it on. Every method
/// checks its shapes before it writes.
#[derive(Clone, Copy)]
pub struct Cpu {
    /// Its place in [`TABLES`].
    index: u8,
}

/// One backend's kernels. They are compiled here, not at their users' opt-level.
#[allow(clippy::type_complexity, reason = "a table of signatures: naming each would hide them")]
struct Kernels {
    name: &'static CStr,
    matmul: unsafe fn(&Matmul<'_>, &mut [f32]),
    quantize: unsafe fn(&[f32], usize, usize, &mut [Line]),
    matmul_int8: unsafe fn(&MatmulInt8<'_>, &mut [f32]),
    softmax: unsafe fn(&mut [f32], usize),
    layer_norm: unsafe fn(&mut [f32], usize, Option<&[f32]>, &[Line], &[Line], f32),
    rms_norm: unsafe fn(&mut [f32], usize, Option<&[f32]>, &[Line], f32),
    add: unsafe fn(&mut [f32], &[f32]),
    activate: unsafe fn(Activation, &mut [f32]),
    attention: unsafe fn(&Attention<'_>, &mut [Line], &mut [f32], Option<&mut [f32]>),
    embed: unsafe fn(&[Line], u32, usize, f32, &mut [f32]) -> Option<()>,
    nearest: unsafe fn(&[Line], usize, usize, &[f32]) -> (u32, f32),
}

/// What a product of eight-bit weights reads.
struct MatmulInt8<'a> {
    x: &'a [Line],
    depth: usize,
    w: Int8<'a>,
    bias: &'a [Line],
    activation: Activation,
    cols: usize,
}

/// What attention reads.
struct Attention<'a> {
    shape: &'a AttentionShape<'a>,
    query: &'a [f32],
    keys: &'a [Line],
    values: &'a [Line],
}

macro_rules! backend {
    ($table:ident, $name:literal, $simd:expr, $dot:expr $(, $feature:literal)?) => {
        static $table: Kernels = {
            $(#[target_feature(enable = $feature)])?
            fn quantize(x: &[f32], depth: usize, group: usize, out: &mut [Line]) {
                int8::quantize($simd, x, depth, group, out)
            }
            $(#[target_feature(enable = $feature)])?
            fn matmul_int8(m: &MatmulInt8<'_>, out: &mut [f32]) {
                int8::matmul($dot, m.x, m.depth, &m.w, m.bias, m.activation, out, m.cols)
            }
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
            Kernels {
                name: $name, matmul, quantize, matmul_int8, softmax, layer_norm, rms_norm, add, activate,
                attention, embed, nearest,
            }
        };
    };
}

/// A backend whose products of whole numbers have instructions of their own; all else is
/// that of another.
#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_feature = "neon", target_endian = "little")
))]
macro_rules! backend_with {
    ($table:ident, $name:literal, $of:ident, $dot:expr, $feature:literal) => {
        static $table: Kernels = {
            #[target_feature(enable = $feature)]
            fn matmul_int8(m: &MatmulInt8<'_>, out: &mut [f32]) {
                int8::matmul($dot, m.x, m.depth, &m.w, m.bias, m.activation, out, m.cols)
            }
            Kernels { name: $name, matmul_int8, ..$of }
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

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
macro_rules! avx_vnni {
    () => {
        // SAFETY: as in `avx2`, with AVX-VNNI.
        unsafe { AvxVnni::assume() }
    };
}
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
macro_rules! avx512_vnni {
    () => {
        // SAFETY: as in `avx2`, with AVX-512F and AVX512-VNNI.
        unsafe { Avx512Vnni::assume() }
    };
}
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
macro_rules! neon_dot {
    () => {
        // SAFETY: as in `avx2`, with `dotprod`.
        unsafe { NeonDot::assume() }
    };
}

backend!(BASELINE, c"baseline", Baseline::NEW, Baseline::NEW);
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
backend!(AVX2, c"avx2", avx2!(), avx2!(), "avx2,fma");
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
backend_with!(AVX_VNNI, c"avx2+vnni", AVX2, avx_vnni!(), "avx2,fma,avxvnni");
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
backend!(AVX512, c"avx512", avx512!(), avx2!(), "avx512f,avx2,fma");
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
backend_with!(AVX512_VNNI, c"avx512+vnni", AVX512, avx512_vnni!(), "avx512f,avx512vnni");
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
backend_with!(NEON_DOT, c"neon+dot", BASELINE, neon_dot!(), "dotprod");

/// Every backend that is compiled, slowest first, and what it needs of the CPU.
static TABLES: &[(&Kernels, Features)] = &[
    (&BASELINE, 0),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
    (&NEON_DOT, detect::DOT),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    (&AVX2, detect::AVX2),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    (&AVX_VNNI, detect::AVX2 | detect::AVX_VNNI),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    (&AVX512, detect::AVX2 | detect::AVX512),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    (&AVX512_VNNI, detect::AVX2 | detect::AVX512 | detect::AVX512_VNNI),
];

/// What C holds of each backend is the address of its place here.
#[cfg(feature = "ffi")]
static HANDLES: [u8; 8] = [0; 8];

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
        Cpu { index: 0 }
    }

    /// Every backend that runs here, slowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        let found = detect::features();
        let backends = (0..).zip(TABLES).filter(move |(_, (_, needs))| needs & !found == 0);
        backends.map(|(index, _)| Cpu { index })
    }

    /// Its kernels. Where there is one backend, the compiler knows them: those that a program
    /// does not call are not in it.
    #[inline(always)]
    fn kernels(self) -> &'static Kernels {
        match TABLES.get(usize::from(self.index)) {
            Some((kernels, _)) if TABLES.len() > 1 => kernels,
            _ => &BASELINE,
        }
    }

    /// `"baseline"`, `"avx2"`, `"avx2+vnni"`, `"avx512"`, `"avx512+vnni"` or `"neon+dot"`.
    pub fn name(self) -> &'static str {
        self.kernels().name.to_str().unwrap_or("")
    }

    /// The same, as C reads it.
    #[cfg(feature = "ffi")]
    pub(crate) fn c_name(self) -> &'static CStr {
        self.kernels().name
    }

    /// What C holds for this backend.
    #[cfg(feature = "ffi")]
    pub(crate) fn as_ptr(self) -> *const core::ffi::c_void {
        HANDLES.get(usize::from(self.index)).map_or(core::ptr::null(), core::ptr::from_ref).cast()
    }

    /// The backend of which [`Cpu::as_ptr`] gave `address`, which was the proof that it runs
    /// here. The address is compared, never followed.
    #[cfg(feature = "ffi")]
    pub(crate) fn from_ptr(address: *const core::ffi::c_void) -> Option<Self> {
        (0..).zip(TABLES).map(|(index, _)| Cpu { index }).find(|cpu| cpu.as_ptr() == address)
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
        let rows = check_matmul(x, depth, panels, bias, out, cols)?;
        let m = Matmul {
            x,
            x_stride: depth,
            rows,
            depth,
            panels,
            bias,
            activation,
            cols,
            stride: cols,
            add: false,
        };
        // SAFETY: a `Cpu` only means a table that runs here: `baseline` does everywhere,
        // `all` and `detect` take those whose features were found.
        unsafe { (self.kernels().matmul)(&m, out) };
        self.activate_sums(activation, out);
        Ok(())
    }

    /// [`Cpu::matmul`] of weights stored in sixteen bits, to the same bits as of the same weights in
    /// floats; `scratch` is [`half::SCRATCH`] lines. See [`half`].
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` is not whole rows, or another buffer is short.
    pub fn matmul_half(
        self,
        x: &[f32],
        depth: usize,
        w: Half<'_>,
        bias: &[Line],
        activation: Activation,
        scratch: &mut [Line],
        out: &mut [f32],
        cols: usize,
    ) -> Result<(), Error> {
        check_half(x, depth, w, bias, scratch, out, cols)?;
        let multiply = |m: &Matmul<'_>, out: &mut [f32]| {
            // SAFETY: as in `matmul`.
            unsafe { (self.kernels().matmul)(m, out) }
        };
        half::matmul(x, depth, w, bias, activation, scratch, out, cols, multiply);
        self.activate_sums(activation, out);
        Ok(())
    }

    /// Quantizes each row of `x[rows × depth]` to eight bits, into
    /// [`row_lines`](int8::row_lines)`(depth, group)` lines of `out`. See [`int8::quantize`].
    ///
    /// # Errors
    /// [`Error::Shape`] if `x` is not whole rows or `out` is short, [`Error::Config`] if `depth`
    /// is above [`DEEPEST`](int8::DEEPEST) or `group` no multiple of 16.
    pub fn quantize(self, x: &[f32], depth: usize, group: usize, out: &mut [Line]) -> Result<(), Error> {
        let rows = whole_rows(x, depth)?;
        check_int8(depth, group)?;
        check(out.len(), rows.saturating_mul(int8::row_lines(depth, group)))?;
        // SAFETY: as in `matmul`.
        unsafe { (self.kernels().quantize)(x, depth, group, out) };
        Ok(())
    }

    /// `out[rows × cols] = act(x · Wᵀ + bias)` of rows that [`Cpu::quantize`] made with
    /// the same `depth` and `w.group`; `out` tells the rows. See [`int8::matmul`].
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Config`] as [`Cpu::matmul`] and [`Cpu::quantize`].
    pub fn matmul_int8(
        self,
        x: &[Line],
        depth: usize,
        w: Int8<'_>,
        bias: &[Line],
        activation: Activation,
        out: &mut [f32],
        cols: usize,
    ) -> Result<(), Error> {
        let rows = whole_rows(out, cols)?;
        check_int8(depth, w.group)?;
        check(x.len(), rows.saturating_mul(int8::row_lines(depth, w.group)))?;
        let (codes, scales) = int8_lines(cols, depth, w.group);
        check(w.codes.len(), codes)?;
        check(w.scales.len(), scales)?;
        check(bias.len(), if bias.is_empty() { 0 } else { Line::count(cols) })?;
        let m = MatmulInt8 { x, depth, w, bias, activation, cols };
        // SAFETY: as in `matmul`.
        unsafe { (self.kernels().matmul_int8)(&m, out) };
        self.activate_sums(activation, out);
        Ok(())
    }

    /// The activations that a product leaves to a pass of their own.
    fn activate_sums(self, activation: Activation, out: &mut [f32]) {
        if !matches!(activation, Activation::Identity | Activation::Relu) {
            self.activate(activation, out);
        }
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
        unsafe { (self.kernels().softmax)(x, cols) };
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
        unsafe { (self.kernels().layer_norm)(x, cols, residual, gamma, beta, eps) };
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
        unsafe { (self.kernels().rms_norm)(x, cols, residual, gamma, eps) };
        Ok(())
    }

    /// `x += y`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `y` is shorter than `x`.
    pub fn add(self, x: &mut [f32], y: &[f32]) -> Result<(), Error> {
        let y = y.get(..x.len()).ok_or(Error::Shape { need: x.len() })?;
        // SAFETY: as in `matmul`.
        unsafe { (self.kernels().add)(x, y) };
        Ok(())
    }

    /// `x = activation(x)` for every number.
    pub fn activate(self, activation: Activation, x: &mut [f32]) {
        // SAFETY: as in `matmul`.
        unsafe { (self.kernels().activate)(activation, x) }
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
        unsafe { (self.kernels().attention)(&input, scores, out, weights) };
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
        unsafe { (self.kernels().embed)(table, token, d_model, scale, out) }
            .ok_or(Error::Token { token, vocab })
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
        Ok(unsafe { (self.kernels().nearest)(table, vocab, d_model, x) })
    }
}

/// What every product of eight-bit weights needs.
const fn check_int8(depth: usize, group: usize) -> Result<(), Error> {
    if depth > int8::DEEPEST {
        return Err(Error::Config("the depth of eight-bit weights must be at most 2^15"));
    }
    if !group.is_multiple_of(16) && group < depth {
        return Err(Error::Config("groups of eight-bit weights must be a multiple of 16"));
    }
    Ok(())
}

/// The rows that `x` is.
fn whole_rows(x: &[f32], cols: usize) -> Result<usize, Error> {
    let rows = x.len().checked_div(cols).unwrap_or(0);
    if cols == 0 || x.len() == rows * cols { Ok(rows) } else { Err(Error::Shape { need: (rows + 1) * cols }) }
}

/// What [`Cpu::matmul`] needs; gives the rows.
pub(crate) fn check_matmul(
    x: &[f32],
    depth: usize,
    panels: &[Line],
    bias: &[Line],
    out: &[f32],
    cols: usize,
) -> Result<usize, Error> {
    let rows = whole_rows(out, cols)?;
    check(x.len(), rows.saturating_mul(depth))?;
    check(panels.len(), panel_lines(cols, depth))?;
    check(bias.len(), if bias.is_empty() { 0 } else { Line::count(cols) })?;
    Ok(rows)
}

/// What [`Cpu::matmul_half`] needs, `scratch` of one thread.
pub(crate) fn check_half(
    x: &[f32],
    depth: usize,
    w: Half<'_>,
    bias: &[Line],
    scratch: &[Line],
    out: &[f32],
    cols: usize,
) -> Result<(), Error> {
    let rows = whole_rows(out, cols)?;
    check(x.len(), rows.saturating_mul(depth))?;
    check(w.halves.len(), half_lines(cols, depth))?;
    check(bias.len(), if bias.is_empty() { 0 } else { Line::count(cols) })?;
    check(scratch.len(), half::SCRATCH)
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
        write!(f, "Cpu({})", self.name())
    }
}
