//! The vectors of the compile target, through `wide`; they run wherever it does.

use super::{Dot, Simd};
use crate::line::{Codes, LANES};
use wide::{f32x4, i16x8, i32x4, u8x16};

/// The instructions of the compile target: SSE2, NEON or simd128.
#[derive(Clone, Copy, Debug)]
pub struct Baseline(());

impl Baseline {
    /// Every target has its own.
    pub const NEW: Self = Baseline(());
}

/// Sixteen floats, four at a time.
#[derive(Clone, Copy, Debug)]
pub struct Quad(f32x4, f32x4, f32x4, f32x4);

/// Whether `wide` uses NEON, which it does on 64-bit ARM only.
const NEON: bool = cfg!(all(target_arch = "aarch64", target_feature = "neon"));

macro_rules! per_quad {
    ($f:expr, $($x:expr),+) => { Quad($f($($x.0),+), $f($($x.1),+), $f($($x.2),+), $f($($x.3),+)) };
}

/// `2^n` for whole `n` in -126..=127: the exponent's bits, put in their place.
#[inline(always)]
fn pow2(n: f32x4) -> f32x4 {
    // 1.5 * 2^23 more, a float's last bit is worth one: the last bits are the exponent's.
    let biased = n + f32x4::new([12_582_912.0 + 127.0; 4]);
    wide::bytemuck::cast(wide::bytemuck::cast::<f32x4, i32x4>(biased) << 23)
}

impl Simd for Baseline {
    type V = Quad;
    const FUSED: bool = cfg!(any(
        all(target_feature = "sse2", target_feature = "fma"),
        all(target_arch = "aarch64", target_feature = "neon")
    ));
    const VECTORS: usize = if cfg!(all(target_arch = "aarch64", target_feature = "neon")) { 8 } else { 4 };

    #[inline(always)]
    fn splat(self, x: f32) -> Quad {
        // Not `f32x4::splat`, which is a call at opt-level `s` and `z`.
        let v = f32x4::new([x, x, x, x]);
        Quad(v, v, v, v)
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Quad {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] = *x;
        let v = f32x4::new;
        Quad(v([a, b, c, d]), v([e, f, g, h]), v([i, j, k, l]), v([m, n, o, p]))
    }
    #[inline(always)]
    fn store(self, v: Quad, out: &mut [f32; LANES]) {
        let ([a, b, c, d], [e, f, g, h]) = (v.0.to_array(), v.1.to_array());
        let ([i, j, k, l], [m, n, o, p]) = (v.2.to_array(), v.3.to_array());
        *out = [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p];
    }
    #[inline(always)]
    fn add(self, a: Quad, b: Quad) -> Quad {
        per_quad!(|x, y| x + y, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Quad, b: Quad) -> Quad {
        per_quad!(|x, y| x - y, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Quad, b: Quad) -> Quad {
        per_quad!(|x, y| x * y, a, b)
    }
    #[inline(always)]
    fn div(self, a: Quad, b: Quad) -> Quad {
        per_quad!(|x, y| x / y, a, b)
    }
    #[inline(always)]
    fn min(self, a: Quad, b: Quad) -> Quad {
        // x86 takes its second operand where either is NaN or both are zeros, simd128 and plain
        // floats their first; NEON gives NaN or the zero of its choice.
        match (cfg!(target_feature = "sse"), NEON) {
            (true, _) => per_quad!(f32x4::fast_min, a, b),
            (_, true) => self.select_lt(a, b, a, b),
            _ => per_quad!(f32x4::fast_min, b, a),
        }
    }
    #[inline(always)]
    fn max(self, a: Quad, b: Quad) -> Quad {
        match (cfg!(target_feature = "sse"), NEON) {
            (true, _) => per_quad!(f32x4::fast_max, a, b),
            (_, true) => self.select_lt(b, a, a, b),
            _ => per_quad!(f32x4::fast_max, b, a),
        }
    }
    #[inline(always)]
    fn mul_add(self, a: Quad, b: Quad, c: Quad) -> Quad {
        per_quad!(f32x4::mul_add, a, b, c)
    }
    #[inline(always)]
    fn select_lt(self, a: Quad, b: Quad, x: Quad, y: Quad) -> Quad {
        per_quad!(|a: f32x4, b: f32x4, x, y| a.simd_lt(b).bitselect(x, y), a, b, x, y)
    }
    #[inline(always)]
    fn scale_by_pow2(self, x: Quad, n: Quad) -> Quad {
        // In two halves, for each must be a normal float; the first is exact.
        let big = self.splat(12_582_912.0);
        let half = self.sub(self.mul_add(n, self.splat(0.5), big), big);
        let rest = self.sub(n, half);
        self.mul(self.mul(x, per_quad!(pow2, half)), per_quad!(pow2, rest))
    }
    #[inline(always)]
    fn sum(self, line: &[f32; LANES]) -> f32 {
        let v = self.load(line);
        let [a, b, c, d] = ((v.0 + v.2) + (v.1 + v.3)).to_array();
        (a + c) + (b + d)
    }
    #[inline(always)]
    fn largest(self, line: &[f32; LANES]) -> f32 {
        let v = self.load(line);
        let [a, b, c, d] = v.0.fast_max(v.2).fast_max(v.1.fast_max(v.3)).to_array();
        let max = |a: f32, b: f32| if a > b { a } else { b };
        max(max(a, c), max(b, d))
    }
    #[inline(always)]
    fn sqrt(self, x: f32) -> f32 {
        libm::sqrtf(x)
    }
}

/// The sums of sixteen columns: of each column two, over the even pairs of steps and the odd.
#[derive(Clone, Copy, Debug)]
pub struct Halves([i32x4; 8]);

impl Dot for Baseline {
    type Floats = Self;
    type Sums = Halves;
    const ROWS: usize = 1;
    const PANELS: usize = 1;

    #[inline(always)]
    fn floats(self) -> Self {
        self
    }
    #[inline(always)]
    fn start(self, offset: i32) -> Halves {
        let v = i32x4::new([offset, 0, offset, 0]);
        Halves([v; 8])
    }
    #[inline(always)]
    fn dot(self, Halves(mut sums): Halves, x: u32, w: &Codes) -> Halves {
        // No product of bytes as they are: 255 · 127 · 2 passes sixteen bits.
        let [a, b, c, d] = x.to_le_bytes().map(|x| x as i8 as i16);
        let x = i16x8::new([a, b, c, d, a, b, c, d]);
        let (quads, _) = w.0.as_chunks::<16>();
        unroll!(Q < QUADS {
            let quad = u8x16::new(quads[Q]);
            sums[2 * Q] += i16x8::from_u8x16_low(quad).dot(x);
            sums[2 * Q + 1] += i16x8::from_u8x16_high(quad).dot(x);
        });
        Halves(sums)
    }
    #[inline(always)]
    fn sums(self, Halves(sums): Halves) -> Quad {
        let quad = |a: i32x4, b: i32x4| {
            let ([a, b, c, d], [e, f, g, h]) = (a.to_array(), b.to_array());
            f32x4::from_i32x4(i32x4::new([a + b, c + d, e + f, g + h]))
        };
        let [a, b, c, d, e, f, g, h] = sums;
        Quad(quad(a, b), quad(c, d), quad(e, f), quad(g, h))
    }
}

/// Quarters of a line of codes.
const QUADS: usize = 4;
