//! For targets without vectors: two lanes at a time, in single registers.
//!
//! Sixteen lanes would be half of such a CPU's registers, or all of them, and each step of a
//! kernel would go through memory. So a kernel goes over its lines once for each two lanes
//! ([`Simd::PARTS`]); what it adds up stays in registers, and the bits are those of sixteen.
//!
//! On a Cortex-M4, four lanes at a time take as many instructions, and a quarter more flash;
//! one at a time a sixth more in attention, with a tenth less flash.

use super::{Dot, Simd};
use crate::line::{Codes, LANES, Line};

/// A Cortex-M with floating-point registers. (`cfg` does not know the feature; the other
/// profiles that have them have atomics of 64 bits.)
#[cfg(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", not(target_has_atomic = "64")))]
#[path = "cortex_m.rs"]
mod unit;

/// None that is known.
#[cfg(not(all(
    target_arch = "arm",
    target_os = "none",
    target_abi = "eabihf",
    not(target_has_atomic = "64")
)))]
mod unit {
    use super::{LANES, Line};

    pub(super) const TILE: bool = false;
    pub(super) fn accumulate<const R: usize>(_: [&[f32]; R], _: &[Line], _: &mut [[f32; LANES]; R]) {}
    pub(super) use libm::sqrtf as sqrt;
}

/// Products of whole numbers.
#[cfg_attr(
    all(target_arch = "arm", target_os = "none", target_abi = "eabihf", not(target_has_atomic = "64")),
    path = "dsp.rs"
)]
#[cfg_attr(
    not(all(target_arch = "arm", target_os = "none", target_abi = "eabihf", not(target_has_atomic = "64"))),
    path = "plain.rs"
)]
mod int8;

/// The instructions of a compile target without vectors, for one part of the lanes.
#[derive(Clone, Copy, Debug)]
pub struct Baseline {
    part: usize,
}

impl Baseline {
    /// The first part.
    pub const NEW: Self = Baseline { part: 0 };
}

/// Lanes of a part.
const PART: usize = 2;

/// `f` of each lane.
macro_rules! per_lane {
    (|$($x:ident),+| $f:expr) => {{
        macro_rules! lane {
            ($i:literal) => {{
                $( let $x = $x[$i]; )+
                $f
            }};
        }
        [lane!(0), lane!(1)]
    }};
}

/// `2^n` for whole `n` in -126..=127: the exponent's bits, put in their place.
#[inline(always)]
fn pow2(n: f32) -> f32 {
    // 1.5 * 2^23 more, a float's last bit is worth one: the last bits are the exponent's.
    f32::from_bits((n + (12_582_912.0 + 127.0)).to_bits() << 23)
}

/// Lane `i` with lane `i + 8`, then 4, 2, 1.
#[inline(always)]
fn by_halves(line: &[f32; LANES], f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut line = *line;
    for half in [8, 4, 2, 1] {
        // At opt-level `s` the loop stays one, and only the least says that a half is within.
        let (low, high) = line.split_at_mut(half.min(LANES));
        for (low, high) in low.iter_mut().zip(high) {
            *low = f(*low, *high);
        }
    }
    let [first, ..] = line;
    first
}

impl Simd for Baseline {
    type V = [f32; PART];
    const PARTS: usize = LANES / PART;
    const FUSED: bool = false;
    const TILE: bool = unit::TILE;
    // More rows at once need more registers than a soft float leaves, and more code.
    const VECTORS: usize = if cfg!(all(target_arch = "arm", target_abi = "eabi")) { 1 } else { 3 };

    #[inline(always)]
    fn part(self, part: usize) -> Self {
        Baseline { part }
    }
    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        [x; PART]
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        x.as_chunks().0.get(self.part % Self::PARTS).copied().unwrap_or_default()
    }
    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32; LANES]) {
        if let Some(out) = out.as_chunks_mut().0.get_mut(self.part % Self::PARTS) {
            *out = v;
        }
    }
    #[inline(always)]
    fn add(self, a: Self::V, b: Self::V) -> Self::V {
        per_lane!(|a, b| a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::V, b: Self::V) -> Self::V {
        per_lane!(|a, b| a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::V, b: Self::V) -> Self::V {
        per_lane!(|a, b| a * b)
    }
    #[inline(always)]
    fn div(self, a: Self::V, b: Self::V) -> Self::V {
        per_lane!(|a, b| a / b)
    }
    #[inline(always)]
    fn min(self, a: Self::V, b: Self::V) -> Self::V {
        per_lane!(|a, b| if a < b { a } else { b })
    }
    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        per_lane!(|a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn mul_add(self, a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        per_lane!(|a, b, c| a * b + c)
    }
    #[inline(always)]
    fn select_lt(self, a: Self::V, b: Self::V, x: Self::V, y: Self::V) -> Self::V {
        per_lane!(|a, b, x, y| if a < b { x } else { y })
    }
    #[inline(always)]
    fn scale_by_pow2(self, x: Self::V, n: Self::V) -> Self::V {
        // In two halves, for each must be a normal float; the first is exact.
        per_lane!(|x, n| {
            let half = (n * 0.5 + 12_582_912.0) - 12_582_912.0;
            x * pow2(half) * pow2(n - half)
        })
    }
    #[inline(always)]
    fn abs(self, x: Self::V) -> Self::V {
        x.map(f32::abs)
    }
    #[inline(always)]
    fn sum(self, line: &[f32; LANES]) -> f32 {
        by_halves(line, |a, b| a + b)
    }
    #[inline(always)]
    fn largest(self, line: &[f32; LANES]) -> f32 {
        by_halves(line, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    fn sqrt(self, x: f32) -> f32 {
        unit::sqrt(x)
    }
    #[inline(always)]
    fn accumulate<const R: usize>(self, x: [&[f32]; R], w: &[Line], sums: &mut [[f32; LANES]; R]) {
        unit::accumulate(x, w, sums);
    }
    #[inline(always)]
    fn load_part(self, x: &[f32], fill: f32) -> Self::V {
        let x = x.get(self.part * PART..).unwrap_or_default();
        let lane = |i: usize| x.get(i).copied().unwrap_or(fill);
        [lane(0), lane(1)]
    }
    #[inline(always)]
    fn store_part(self, v: Self::V, out: &mut [f32]) {
        let out = out.get_mut(self.part * PART..).unwrap_or_default();
        for (x, lane) in out.iter_mut().zip(v) {
            *x = lane;
        }
    }
    #[inline(always)]
    fn store_bytes(self, v: Self::V, out: &mut [u32]) {
        // Each part is half a word. As in `pow2`: a conversion would have to check what it is given.
        let half = self.part % 2 * 16;
        if let Some(word) = out.get_mut(self.part / 2) {
            let [a, b] = v.map(|x| u32::from((x + 12_582_912.0).to_bits() as u8));
            *word = (*word & !(0xffff << half)) | ((a | (b << 8)) << half);
        }
    }
}

impl Dot for Baseline {
    type Floats = Self;
    type Sums = [i32; LANES];
    const ROWS: usize = int8::ROWS;
    const PANELS: usize = int8::PANELS;
    const TILE: bool = true;

    #[inline(always)]
    fn floats(self) -> Self {
        self
    }
    #[inline(always)]
    fn start(self, offset: i32) -> [i32; LANES] {
        [offset; LANES]
    }
    #[inline(always)]
    fn dot(self, sums: [i32; LANES], x: u32, w: &Codes) -> [i32; LANES] {
        let mut sums = [[sums]];
        Dot::accumulate(self, [&[x]], [core::slice::from_ref(w)], &mut sums);
        let [[sums]] = sums;
        sums
    }
    #[inline(always)]
    fn accumulate<const R: usize, const P: usize>(
        self,
        x: [&[u32]; R],
        w: [&[Codes]; P],
        sums: &mut [[[i32; LANES]; P]; R],
    ) {
        int8::accumulate(x, w, sums);
    }
    #[inline(always)]
    fn sums(self, s: Self, sums: [i32; LANES]) -> <Self as Simd>::V {
        let part = sums.as_chunks::<PART>().0.get(s.part).copied().unwrap_or_default();
        part.map(|sum| sum as f32)
    }
}
