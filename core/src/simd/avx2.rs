//! AVX2 and FMA: a vector is two `__m256`.

use super::Simd;
use crate::line::LANES;
use core::arch::x86_64::*;

/// Proof that the CPU has AVX2 and FMA.
#[derive(Clone, Copy, Debug)]
pub struct Avx2(());

impl Avx2 {
    /// The proof.
    ///
    /// # Safety
    /// The CPU has AVX2 and FMA, and the operating system saves their registers.
    #[inline(always)]
    pub const unsafe fn assume() -> Self {
        Avx2(())
    }
}

/// Sixteen floats, eight at a time.
#[derive(Clone, Copy, Debug)]
pub struct Pair(__m256, __m256);

macro_rules! per_pair {
    ($f:path, $($x:expr),+) => {
        // SAFETY: an `Avx2` exists only where the CPU has AVX2 and FMA, and these
        // instructions touch registers only.
        unsafe { Pair($f($($x.0),+), $f($($x.1),+)) }
    };
}

/// `a < b ? x : y`.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn select_lt(a: __m256, b: __m256, x: __m256, y: __m256) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe { _mm256_blendv_ps(y, x, _mm256_cmp_ps::<_CMP_LT_OQ>(a, b)) }
}

/// `2^n` for whole `n` in -126..=127: the exponent's bits, put in their place.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn pow2(n: __m256) -> __m256 {
    // SAFETY: the caller's promise.
    unsafe {
        let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent))
    }
}

impl Simd for Avx2 {
    type V = Pair;
    const FUSED: bool = true;
    const VECTORS: usize = 8;

    #[inline(always)]
    fn splat(self, x: f32) -> Pair {
        // SAFETY: as in `per_pair`.
        let v = unsafe { _mm256_set1_ps(x) };
        Pair(v, v)
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Pair {
        let x = x.as_ptr();
        // SAFETY: as in `per_pair`, and two times eight floats are read of the
        // sixteen that `x` borrows, at any alignment.
        unsafe { Pair(_mm256_loadu_ps(x), _mm256_loadu_ps(x.add(8))) }
    }
    #[inline(always)]
    fn store(self, v: Pair, out: &mut [f32; LANES]) {
        let out = out.as_mut_ptr();
        // SAFETY: as in `load`, written instead of read.
        unsafe {
            _mm256_storeu_ps(out, v.0);
            _mm256_storeu_ps(out.add(8), v.1);
        }
    }
    #[inline(always)]
    fn add(self, a: Pair, b: Pair) -> Pair {
        per_pair!(_mm256_add_ps, a, b)
    }
    #[inline(always)]
    fn sub(self, a: Pair, b: Pair) -> Pair {
        per_pair!(_mm256_sub_ps, a, b)
    }
    #[inline(always)]
    fn mul(self, a: Pair, b: Pair) -> Pair {
        per_pair!(_mm256_mul_ps, a, b)
    }
    #[inline(always)]
    fn div(self, a: Pair, b: Pair) -> Pair {
        per_pair!(_mm256_div_ps, a, b)
    }
    #[inline(always)]
    fn min(self, a: Pair, b: Pair) -> Pair {
        per_pair!(_mm256_min_ps, a, b)
    }
    #[inline(always)]
    fn max(self, a: Pair, b: Pair) -> Pair {
        per_pair!(_mm256_max_ps, a, b)
    }
    #[inline(always)]
    fn mul_add(self, a: Pair, b: Pair, c: Pair) -> Pair {
        per_pair!(_mm256_fmadd_ps, a, b, c)
    }
    #[inline(always)]
    fn select_lt(self, a: Pair, b: Pair, x: Pair, y: Pair) -> Pair {
        per_pair!(select_lt, a, b, x, y)
    }
    #[inline(always)]
    fn scale_by_pow2(self, x: Pair, n: Pair) -> Pair {
        // In two halves, for each must be a normal float; the first is exact.
        let half = self.round(self.mul(n, self.splat(0.5)));
        let rest = self.sub(n, half);
        self.mul(self.mul(x, per_pair!(pow2, half)), per_pair!(pow2, rest))
    }
}
