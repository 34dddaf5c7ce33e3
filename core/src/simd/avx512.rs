//! AVX-512F: a vector is one `__m512`.

use super::{Simd, avx2};
use crate::line::{LANES, Line};
use core::arch::x86_64::*;

/// Proof that the CPU has AVX-512F.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// The proof.
    ///
    /// # Safety
    /// The CPU has AVX-512F, and the operating system saves its registers.
    #[inline(always)]
    pub const unsafe fn assume() -> Self {
        Avx512(())
    }
}

macro_rules! instruction {
    ($f:expr) => {
        // SAFETY: an `Avx512` exists only where the CPU has AVX-512F; loads and
        // stores touch the sixteen floats that are borrowed, at any alignment.
        unsafe { $f }
    };
}

/// The lanes before `length`, as a mask.
#[inline(always)]
fn lanes_before(length: usize) -> u16 {
    if length < LANES { (1 << length) - 1 } else { u16::MAX }
}

/// The two halves.
///
/// # Safety
/// The CPU has AVX-512F.
#[inline(always)]
unsafe fn halves(v: __m512) -> (__m256, __m256) {
    // SAFETY: the caller's promise.
    unsafe {
        let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(v));
        (_mm512_castps512_ps256(v), _mm256_castpd_ps(high))
    }
}

impl Simd for Avx512 {
    type V = __m512;
    const FUSED: bool = true;
    const VECTORS: usize = 32;

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        instruction!(_mm512_set1_ps(x))
    }
    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> __m512 {
        instruction!(_mm512_loadu_ps(x.as_ptr()))
    }
    #[inline(always)]
    fn store(self, v: __m512, out: &mut [f32; LANES]) {
        instruction!(_mm512_storeu_ps(out.as_mut_ptr(), v))
    }
    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        instruction!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        instruction!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        instruction!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        instruction!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        instruction!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        instruction!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn mul_add(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        instruction!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn select_lt(self, a: __m512, b: __m512, x: __m512, y: __m512) -> __m512 {
        instruction!(_mm512_mask_blend_ps(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b), y, x))
    }
    #[inline(always)]
    fn scale_by_pow2(self, x: __m512, n: __m512) -> __m512 {
        instruction!(_mm512_scalef_ps(x, n))
    }
    #[inline(always)]
    fn sum(self, line: &[f32; LANES]) -> f32 {
        let v = self.load(line);
        // SAFETY: as in `instruction`; AVX-512F includes AVX2.
        unsafe {
            let (low, high) = halves(v);
            avx2::sum(_mm256_add_ps(low, high))
        }
    }
    #[inline(always)]
    fn largest(self, line: &[f32; LANES]) -> f32 {
        let v = self.load(line);
        // SAFETY: as in `sum`.
        unsafe {
            let (low, high) = halves(v);
            avx2::largest(_mm256_max_ps(low, high))
        }
    }
    #[inline(always)]
    fn prefetch(self, line: &Line) {
        // SAFETY: a prefetch of borrowed memory; it neither reads nor faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(core::ptr::from_ref(line).cast()) }
    }
    #[inline(always)]
    fn sqrt(self, x: f32) -> f32 {
        // SAFETY: as in `sum`.
        unsafe { avx2::sqrt(x) }
    }
    #[inline(always)]
    fn load_part(self, x: &[f32], fill: f32) -> __m512 {
        let fill = self.splat(fill);
        // SAFETY: as in `instruction`; only the lanes that `x` has are read, and the
        // mask keeps the others from faulting.
        unsafe { _mm512_mask_loadu_ps(fill, lanes_before(x.len()), x.as_ptr()) }
    }
    #[inline(always)]
    fn store_part(self, v: __m512, out: &mut [f32]) {
        // SAFETY: as in `load_part`, written instead of read.
        unsafe { _mm512_mask_storeu_ps(out.as_mut_ptr(), lanes_before(out.len()), v) }
    }
    #[inline(always)]
    fn bytes(self, v: __m512, words: &mut [u32; 4]) {
        let bytes = instruction!(_mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
        // SAFETY: both are sixteen bytes, of any bits.
        *words = unsafe { core::mem::transmute::<__m128i, [u32; 4]>(bytes) };
    }
}
