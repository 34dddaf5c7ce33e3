//! AVX-512F: a vector is one `__m512`.

use super::Simd;
use crate::line::LANES;
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
}
