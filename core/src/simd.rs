//! Sixteen lanes of `f32` on every target: the one vector type that kernels know.
//!
//! | backend | a vector is | chosen |
//! |---|---|---|
//! | [`Baseline`] | four `wide::f32x4`: SSE2, NEON, simd128 | by the compile target |
//! | [`Baseline`] without vectors | two floats: an eighth of the lanes at a time | likewise |
//! | `Avx2` | two `__m256` | by [`Cpu`](crate::Cpu) at run time |
//! | `Avx512` | one `__m512` | by [`Cpu`](crate::Cpu) at run time |
//!
//! Products of whole numbers ([`Dot`]) may have instructions of their own, asked for at run time:
//! `AvxVnni`, `Avx512Vnni`, `NeonDot`.
//!
//! The width never varies, so packed weights are the same bytes everywhere and a sum
//! over lanes has one order. Backends with fused products give the same bits in every kernel.

#[cfg_attr(
    not(any(
        target_feature = "sse2",
        target_feature = "simd128",
        all(target_arch = "aarch64", target_feature = "neon")
    )),
    path = "simd/scalar.rs"
)]
mod baseline;
pub use baseline::Baseline;

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
mod neon;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod vnni;
#[cfg(all(target_arch = "aarch64", target_feature = "neon", target_endian = "little"))]
pub use neon::NeonDot;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub use {
    avx2::Avx2,
    avx512::Avx512,
    vnni::{Avx512Vnni, AvxVnni},
};

use crate::line::{Codes, LANES, Line};

/// A set of vector instructions, as a value that exists only where the CPU has
/// them: holding one is the proof, so the methods are safe.
///
/// Kernels must be `#[inline(always)]` and must not pass vectors through closures:
/// code that is not inlined is compiled without the instructions.
pub trait Simd: Copy {
    /// Floats in registers: all sixteen lanes, or one part of them.
    type V: Copy;
    /// Parts that the sixteen lanes are taken in. A kernel does all its steps for one
    /// [`part`](Simd::part), then for the next; sums over lanes wait in a line.
    const PARTS: usize = 1;
    /// Whether [`mul_add`](Simd::mul_add) rounds once.
    const FUSED: bool;
    /// Vectors that fit the registers: how large a tile may be.
    const VECTORS: usize;
    /// Whether the backend has a tile of its own, [`accumulate`](Simd::accumulate), of one
    /// panel and 1 to 3 rows. Its products are fused.
    const TILE: bool = false;

    /// The same instructions for the lanes of one part, below [`PARTS`](Simd::PARTS): what it
    /// loads and stores.
    #[inline(always)]
    fn part(self, _part: usize) -> Self {
        self
    }

    /// `x` in every lane.
    fn splat(self, x: f32) -> Self::V;
    /// The floats of a line, aligned or not.
    fn load(self, x: &[f32; LANES]) -> Self::V;
    /// The floats of a line, written, aligned or not.
    fn store(self, v: Self::V, out: &mut [f32; LANES]);
    /// `a + b`.
    fn add(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a - b`.
    fn sub(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b`.
    fn mul(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a / b`.
    fn div(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a < b ? a : b`: where either is NaN or both are zeros, `b`.
    fn min(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a > b ? a : b`: where either is NaN or both are zeros, `b`.
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once if [`FUSED`](Simd::FUSED), else twice.
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// `a < b ? x : y` in each lane; `y` where `a` or `b` is NaN.
    fn select_lt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V;
    /// `x * 2^n` rounded once, also into denormals.
    ///
    /// `n` is whole and in -250..=250; `x` is zero, NaN or within 2^-50..2^50.
    fn scale_by_pow2(self, x: Self::V, n: Self::V) -> Self::V;

    /// `-x`.
    #[inline(always)]
    fn neg(self, x: Self::V) -> Self::V {
        self.mul(x, self.splat(-1.0))
    }

    /// `|x|`; of NaN, NaN.
    #[inline(always)]
    fn abs(self, x: Self::V) -> Self::V {
        self.max(x, self.neg(x))
    }

    /// The sum of a line, by halves: lane `i` and lane `i + 8`, then 4, 2, 1.
    fn sum(self, line: &[f32; LANES]) -> f32;
    /// The largest of a line; NaN may or may not be seen.
    fn largest(self, line: &[f32; LANES]) -> f32;

    /// Asks for a line that will be read soon; changes nothing.
    #[inline(always)]
    fn prefetch(self, _line: &Line) {}

    /// `sums[i] += x[i][k] * w[k]` for each row and every `k` that all have, in order; only
    /// where there is a [`TILE`](Simd::TILE).
    #[inline(always)]
    fn accumulate<const R: usize>(self, _x: [&[f32]; R], _w: &[Line], _sums: &mut [[f32; LANES]; R]) {}

    /// The square root of one number.
    fn sqrt(self, x: f32) -> f32;

    /// Whole numbers of -127..=127 as bytes, four a word, the first lowest; `out` has the words
    /// of sixteen, of which those of this part are written, as many as there are.
    #[inline(always)]
    fn store_bytes(self, v: Self::V, out: &mut [u32]) {
        let mut line = [0.0; LANES];
        self.store(v, &mut line);
        for (word, floats) in out.iter_mut().zip(line.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(floats.map(|x| x as i32 as u8));
        }
    }

    /// The floats of `x`, at most sixteen, and `fill` in the lanes beyond them.
    #[inline(always)]
    fn load_part(self, x: &[f32], fill: f32) -> Self::V {
        let mut line = [fill; LANES];
        for (lane, x) in line.iter_mut().zip(x) {
            *lane = *x;
        }
        self.load(&line)
    }

    /// Stores as many lanes as `out` has.
    #[inline(always)]
    fn store_part(self, v: Self::V, out: &mut [f32]) {
        let mut line = [0.0; LANES];
        self.store(v, &mut line);
        for (x, lane) in out.iter_mut().zip(line) {
            *x = lane;
        }
    }
}

/// Products of whole numbers: sixteen columns by four steps of depth at a time, exact.
///
/// A weight `w` of -127..=127 lies in memory as `w + 128`. A backend that multiplies it as
/// it lies starts a sum at -128 times the sum of `x`; one that multiplies `w` starts at 0.
pub trait Dot: Copy {
    /// The vectors of floats that go with it.
    type Floats: Simd;
    /// Sixteen sums, perhaps not yet wholly added up.
    type Sums: Copy;
    /// Rows of the largest tile, of one panel.
    const ROWS: usize;
    /// Panels of the largest tile, of one row.
    const PANELS: usize;
    /// Whether the backend has a loop over the depth of its own,
    /// [`accumulate`](Dot::accumulate).
    const TILE: bool = false;

    /// The vectors of floats.
    fn floats(self) -> Self::Floats;
    /// Sums of nothing, where `offset` is -128 times the sum of all `x` to come.
    fn start(self, offset: i32) -> Self::Sums;
    /// `sums[column] += Σ w[column][i] · x[i]` over four `i`; the lowest byte of `x` is `x[0]`.
    fn dot(self, sums: Self::Sums, x: u32, w: &Codes) -> Self::Sums;
    /// [`dot`](Dot::dot) of each row and panel, over every word and line that all have; only
    /// where there is a [`TILE`](Dot::TILE).
    #[inline(always)]
    fn accumulate<const R: usize, const P: usize>(
        self,
        _x: [&[u32]; R],
        _w: [&[Codes]; P],
        _sums: &mut [[Self::Sums; P]; R],
    ) {
    }
    /// The sums that are the lanes of `s`, all or one part, each rounded to a float.
    fn sums(self, s: Self::Floats, sums: Self::Sums) -> <Self::Floats as Simd>::V;
}
