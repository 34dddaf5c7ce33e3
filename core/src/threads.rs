//! Several cores for one session: the core crate divides the work, whoever has threads runs it.

use crate::kernels::activation::Activation;
use crate::kernels::attention::{AttentionShape, Mask, score_lines};
use crate::kernels::half::{self, Half, half_lines};
use crate::kernels::int8::{Int8, row_lines};
use crate::kernels::pack::int8_lines;
use crate::line::{LANES, Line};
use crate::{Cpu, Error};

/// Runs two things at the same time, or one after the other: what a session needs of
/// threads. Without any, it is `&()`.
///
/// ```
/// use picoformer_core::Threads;
///
/// /// Two threads, started anew each time: slow, but threads.
/// struct Scoped;
///
/// impl Threads for Scoped {
///     fn count(&self) -> usize {
///         2
///     }
///     fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
///         std::thread::scope(|scope| {
///             scope.spawn(a);
///             b();
///         });
///     }
/// }
/// # let (mut x, mut y) = (0, 0);
/// # Scoped.join(&mut || x += 1, &mut || y += 2);
/// # assert_eq!((x, y), (1, 2));
/// ```
pub trait Threads: Sync {
    /// How many things can run at the same time.
    fn count(&self) -> usize;
    /// Runs both, and returns when both are done.
    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send));
}

/// No threads.
impl Threads for () {
    fn count(&self) -> usize {
        1
    }
    fn join(&self, a: &mut (dyn FnMut() + Send), b: &mut (dyn FnMut() + Send)) {
        a();
        b();
    }
}

/// The kernels, and the threads that they may use: rows are divided among these, and the
/// columns of a single row. A result's bits do not depend on their number.
#[derive(Clone, Copy)]
pub struct Workers<'t> {
    /// The kernels.
    pub cpu: Cpu,
    threads: &'t dyn Threads,
    count: usize,
}

/// No threads.
impl From<Cpu> for Workers<'static> {
    fn from(cpu: Cpu) -> Self {
        Workers { cpu, threads: &(), count: 1 }
    }
}

/// Multiply-adds, or ten numbers of other work, below which dividing takes longer than it
/// saves: about two microseconds.
const SMALL: usize = 200_000;

/// A norm of rows, and of their residual.
type Norm<'f> = dyn Fn(Cpu, &mut [f32], Option<&[f32]>) -> Result<(), Error> + Sync + 'f;

impl<'t> Workers<'t> {
    /// At most `most` of the threads.
    pub fn new(cpu: Cpu, threads: &'t dyn Threads, most: usize) -> Self {
        Workers { cpu, threads, count: threads.count().min(most).max(1) }
    }

    /// Two halves of the threads, and how many of `items` the first takes: `None` if they
    /// stay together.
    fn halves(self, items: usize, work: usize) -> Option<(Self, Self, usize)> {
        let first = self.count / 2;
        let items = (items * first).div_ceil(self.count.max(1));
        let divide = self.count > 1 && items > 0 && work >= SMALL;
        divide.then_some((
            Workers { count: first, ..self },
            Workers { count: self.count - first, ..self },
            items,
        ))
    }

    fn join(
        self,
        mut a: impl FnMut() -> Result<(), Error> + Send,
        mut b: impl FnMut() -> Result<(), Error> + Send,
    ) -> Result<(), Error> {
        let (mut first, mut second) = (Ok(()), Ok(()));
        self.threads.join(&mut || first = a(), &mut || second = b());
        first.and(second)
    }

    /// [`Cpu::matmul`].
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
        let rows = out.len().checked_div(cols).unwrap_or(0);
        let work = out.len().saturating_mul(depth);
        // A single row is divided by panels.
        let items = if rows == 1 { cols / LANES } else { rows };
        // What is wrong is refused as a whole: no half is written.
        crate::cpu::check_matmul(x, depth, panels, bias, out, cols)?;
        let Some((a, b, first)) = self.halves(items, work) else {
            return self.cpu.matmul(x, depth, panels, bias, activation, out, cols);
        };
        if rows == 1 {
            let (left, right) = out.split_at_mut((first * LANES).min(out.len()));
            let (width, rest) = (left.len(), right.len());
            let at = first.saturating_mul(depth).min(panels.len());
            let (p, q) = panels.split_at(at);
            let (c, d) = bias.split_at(first.min(bias.len()));
            return self.join(
                || a.matmul(x, depth, p, c, activation, left, width),
                || b.matmul(x, depth, q, d, activation, right, rest),
            );
        }
        let (top, bottom) = out.split_at_mut((first * cols).min(out.len()));
        let (x, y) = x.split_at(first.saturating_mul(depth).min(x.len()));
        self.join(
            || a.matmul(x, depth, panels, bias, activation, top, cols),
            || b.matmul(y, depth, panels, bias, activation, bottom, cols),
        )
    }

    /// [`Cpu::matmul_half`], with [`half::SCRATCH`] lines of scratch for each thread.
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
        crate::cpu::check_half(x, depth, w, bias, scratch, out, cols)?;
        let need = self.count.saturating_mul(half::SCRATCH);
        if scratch.len() < need {
            return Err(Error::Shape { need });
        }
        let rows = out.len().checked_div(cols).unwrap_or(0);
        let items = if rows == 1 { cols / LANES } else { rows };
        let Some((a, b, first)) = self.halves(items, out.len().saturating_mul(depth)) else {
            return self.cpu.matmul_half(x, depth, w, bias, activation, scratch, out, cols);
        };
        let split = scratch.split_at_mut_checked(a.count.saturating_mul(half::SCRATCH));
        let (p, q) = split.ok_or(Error::Shape { need })?;
        if rows == 1 {
            let (left, right) = out.split_at_mut((first * LANES).min(out.len()));
            let (width, rest) = (left.len(), right.len());
            let (u, v) = w.halves.split_at(half_lines(width, depth).min(w.halves.len()));
            let (c, d) = bias.split_at(first.min(bias.len()));
            return self.join(
                || a.matmul_half(x, depth, Half { halves: u, ..w }, c, activation, p, left, width),
                || b.matmul_half(x, depth, Half { halves: v, ..w }, d, activation, q, right, rest),
            );
        }
        let (top, bottom) = out.split_at_mut((first * cols).min(out.len()));
        let (x, y) = x.split_at(first.saturating_mul(depth).min(x.len()));
        self.join(
            || a.matmul_half(x, depth, w, bias, activation, p, top, cols),
            || b.matmul_half(y, depth, w, bias, activation, q, bottom, cols),
        )
    }

    /// [`Cpu::quantize`] of `x`, into `quantized`, and [`Cpu::matmul_int8`].
    pub fn matmul_int8(
        self,
        x: &[f32],
        depth: usize,
        w: Int8<'_>,
        bias: &[Line],
        activation: Activation,
        quantized: &mut [Line],
        out: &mut [f32],
        cols: usize,
    ) -> Result<(), Error> {
        let rows = out.len().checked_div(cols).unwrap_or(0);
        let x =
            x.get(..rows.saturating_mul(depth)).ok_or(Error::Shape { need: rows.saturating_mul(depth) })?;
        if rows > 1 {
            return self.rows_int8(x, depth, w, bias, activation, quantized, out, cols);
        }
        self.cpu.quantize(x, depth, w.group, quantized)?;
        self.row_int8(quantized, depth, w, bias, activation, out)
    }

    /// Rows, divided among the threads.
    fn rows_int8(
        self,
        x: &[f32],
        depth: usize,
        w: Int8<'_>,
        bias: &[Line],
        activation: Activation,
        quantized: &mut [Line],
        out: &mut [f32],
        cols: usize,
    ) -> Result<(), Error> {
        let rows = out.len().checked_div(cols).unwrap_or(0);
        // Eight-bit products take about a third of the time.
        let Some((a, b, first)) = self.halves(rows, out.len().saturating_mul(depth) / 3) else {
            self.cpu.quantize(x, depth, w.group, quantized)?;
            return self.cpu.matmul_int8(quantized, depth, w, bias, activation, out, cols);
        };
        let need = rows.saturating_mul(row_lines(depth, w.group));
        let lines = first.saturating_mul(row_lines(depth, w.group));
        let (p, q) = quantized.split_at_mut_checked(lines).ok_or(Error::Shape { need })?;
        let (x, y) = x
            .split_at_checked(first.saturating_mul(depth))
            .ok_or(Error::Shape { need: rows.saturating_mul(depth) })?;
        let (top, bottom) = out.split_at_mut((first * cols).min(out.len()));
        self.join(
            || a.rows_int8(x, depth, w, bias, activation, p, top, cols),
            || b.rows_int8(y, depth, w, bias, activation, q, bottom, cols),
        )
    }

    /// One quantized row, divided by panels.
    fn row_int8(
        self,
        x: &[Line],
        depth: usize,
        w: Int8<'_>,
        bias: &[Line],
        activation: Activation,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let cols = out.len();
        let Some((a, b, first)) = self.halves(cols / LANES, cols.saturating_mul(depth) / 3) else {
            return self.cpu.matmul_int8(x, depth, w, bias, activation, out, cols);
        };
        let (left, right) = out.split_at_mut((first * LANES).min(out.len()));
        let (codes, scales) = int8_lines(first * LANES, depth, w.group);
        let (p, q) = w.codes.split_at(codes.min(w.codes.len()));
        let (s, t) = w.scales.split_at(scales.min(w.scales.len()));
        let (c, d) = bias.split_at(first.min(bias.len()));
        self.join(
            || a.row_int8(x, depth, Int8 { codes: p, scales: s, ..w }, c, activation, left),
            || b.row_int8(x, depth, Int8 { codes: q, scales: t, ..w }, d, activation, right),
        )
    }

    /// [`Cpu::layer_norm`].
    pub fn layer_norm(
        self,
        x: &mut [f32],
        cols: usize,
        residual: Option<&[f32]>,
        gamma: &[Line],
        beta: &[Line],
        eps: f32,
    ) -> Result<(), Error> {
        crate::cpu::check_norm(x, cols, residual, gamma)?;
        self.rows(x, cols, residual, &|cpu, x, residual| cpu.layer_norm(x, cols, residual, gamma, beta, eps))
    }

    /// [`Cpu::rms_norm`].
    pub fn rms_norm(
        self,
        x: &mut [f32],
        cols: usize,
        residual: Option<&[f32]>,
        gamma: &[Line],
        eps: f32,
    ) -> Result<(), Error> {
        crate::cpu::check_norm(x, cols, residual, gamma)?;
        self.rows(x, cols, residual, &|cpu, x, residual| cpu.rms_norm(x, cols, residual, gamma, eps))
    }

    /// `f` of some of the rows of `x`, and of `residual`.
    fn rows(self, x: &mut [f32], cols: usize, residual: Option<&[f32]>, f: &Norm<'_>) -> Result<(), Error> {
        let rows = x.len().checked_div(cols).unwrap_or(0);
        let divided = self.halves(rows, x.len().saturating_mul(10));
        let Some((a, b, first)) = divided else { return f(self.cpu, x, residual) };
        let (top, bottom) = x.split_at_mut((first * cols).min(x.len()));
        let (y, z) = match residual.and_then(|y| y.split_at_checked(top.len())) {
            Some((y, z)) => (Some(y), Some(z)),
            None => (None, None),
        };
        self.join(|| a.rows(top, cols, y, f), || b.rows(bottom, cols, z, f))
    }

    /// [`Cpu::attention`], with [`score_lines`] for each of the threads; whoever wants the
    /// weights gets them from one.
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
        let width = shape.heads.width();
        let each = score_lines(shape.keys);
        let work = shape.queries.saturating_mul(shape.keys).saturating_mul(2 * width);
        let whole = weights.is_none()
            && scores.len() >= each.saturating_mul(self.count)
            && out.len() == shape.queries.saturating_mul(width)
            && crate::cpu::check_attention(shape, query, keys, values, out).is_ok()
            // Flags of each query would have to be divided too.
            && !matches!(shape.mask, Mask::Arbitrary(_));
        let divided = self.halves(shape.queries, work).filter(|_| whole);
        let Some((a, b, first)) = divided else {
            return self.cpu.attention(shape, query, keys, values, scores, out, weights);
        };
        let (s, t) = scores.split_at_mut((each * a.count).min(scores.len()));
        let (top, bottom) = out.split_at_mut((first * width).min(out.len()));
        let rest = query.get(first * shape.query_stride..).unwrap_or_default();
        let upper = AttentionShape { queries: first, ..*shape };
        let lower = AttentionShape {
            queries: shape.queries - first,
            first: shape.first.saturating_add(first),
            ..*shape
        };
        self.join(
            || a.attention(&upper, query, keys, values, s, top, None),
            || b.attention(&lower, rest, keys, values, t, bottom, None),
        )
    }
}

impl core::fmt::Debug for Workers<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{:?} × {}", self.cpu, self.count)
    }
}
