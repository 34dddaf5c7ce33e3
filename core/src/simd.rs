//! Sixteen lanes of `f32` on every target: the one vector type that kernels know.
//!
//! | backend | a vector is | chosen |
//! |---|---|---|
//! | [`Baseline`] | four `wide::f32x4`: SSE2, NEON, simd128, plain floats | by the compile target |
//! | `Avx2` | two `__m256` | by [`Cpu`](crate::Cpu) at run time |
//! | `Avx512` | one `__m512` | by [`Cpu`](crate::Cpu) at run time |
//!
//! The width never varies, so packed weights are the same bytes everywhere and a sum
//! over lanes has one order. `Avx2` and `Avx512` give the same bits in every kernel.

mod baseline;
pub use baseline::Baseline;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub use {avx2::Avx2, avx512::Avx512};

use crate::line::LANES;

/// A set of vector instructions, as a value that exists only where the CPU has
/// them: holding one is the proof, so the methods are safe.
///
/// Kernels must be `#[inline(always)]` and must not pass vectors through closures:
/// code that is not inlined is compiled without the instructions.
pub trait Simd: Copy {
    /// Sixteen floats in registers.
    type V: Copy;
    /// Whether [`mul_add`](Simd::mul_add) rounds once.
    const FUSED: bool;
    /// Vectors that fit the registers: how large a tile may be.
    const VECTORS: usize;

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// Sixteen floats from memory, aligned or not.
    fn load(self, x: &[f32; LANES]) -> Self::V;
    /// Sixteen floats to memory, aligned or not.
    fn store(self, v: Self::V, out: &mut [f32; LANES]);
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a < b ? a : b`: where either is NaN, `b` (on NEON: NaN).
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a > b ? a : b`: where either is NaN, `b` (on NEON: NaN).
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once if [`FUSED`](Simd::FUSED), else twice.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a < b ? x : y` in each lane; `y` where `a` or `b` is NaN.
    fn select_lt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// `x * 2^n` rounded once, also into denormals.
    ///
    /// `n` is whole and in -250..=250; `x` is zero, NaN or within 2^-50..2^50.
    fn scale_by_pow2(self, x: Self::V, n: Self::V) -> Self::V;

    /// The nearest whole number, ties to even, for `|x|` below 2^22.
    #[inline(always)]
    fn round(self, x: Self::V) -> Self::V {
        // The last bit of a float in 2^23..2^24 is worth one, so adding
        // 1.5 * 2^23 rounds, and subtracting it leaves the rounded number.
        let big = self.splat(12_582_912.0);
        self.sub(self.add(x, big), big)
    }

    /// `-x`.
    #[inline(always)]
    fn neg(self, x: Self::V) -> Self::V {
        self.mul(x, self.splat(-1.0))
    }

    /// The sum of the lanes, by halves: lane `i` and lane `i + 8`, then 4, 2, 1.
    #[inline(always)]
    fn sum(self, v: Self::V) -> f32 {
        let mut x = [0.0; LANES];
        self.store(v, &mut x);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = x;
        let [a, b, c, d, e, f, g, h] = [a + i, b + j, c + k, d + l, e + m, f + n, g + o, h + p];
        let [a, b, c, d] = [a + e, b + f, c + g, d + h];
        (a + c) + (b + d)
    }

    /// The largest lane; NaN lanes may or may not be seen.
    #[inline(always)]
    fn largest(self, v: Self::V) -> f32 {
        let mut x = [0.0; LANES];
        self.store(v, &mut x);
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = x;
        let max = |a: f32, b: f32| if a > b { a } else { b };
        let [a, b, c, d] = [max(a, i), max(b, j), max(c, k), max(d, l)];
        let [e, f, g, h] = [max(e, m), max(f, n), max(g, o), max(h, p)];
        max(max(max(a, e), max(c, g)), max(max(b, f), max(d, h)))
    }
}

/// The last floats of a row as a whole vector, `fill` beyond them.
#[inline(always)]
pub(crate) fn padded(tail: &[f32], fill: f32) -> [f32; LANES] {
    let mut line = [fill; LANES];
    for (lane, x) in line.iter_mut().zip(tail) {
        *lane = *x;
    }
    line
}

/// Stores as many lanes as `out` has.
#[inline(always)]
pub(crate) fn store_part<S: Simd>(s: S, v: S::V, out: &mut [f32]) {
    let mut line = [0.0; LANES];
    s.store(v, &mut line);
    for (x, lane) in out.iter_mut().zip(line) {
        *x = lane;
    }
}
