//! VNNI, the products of four bytes in one instruction: in 512 bits, and in 256.
//!
//! It multiplies unsigned bytes, the weights as they lie, by signed ones.

use super::avx2::{Pair, Sums};
use super::{Avx2, Avx512, Dot};
use crate::line::Codes;
use core::arch::x86_64::*;

/// Proof that the CPU has AVX-512F and its VNNI.
#[derive(Clone, Copy, Debug)]
pub struct Avx512Vnni(Avx512);

/// Proof that the CPU has AVX2, FMA and AVX-VNNI.
#[derive(Clone, Copy, Debug)]
pub struct AvxVnni(Avx2);

impl Avx512Vnni {
    /// The proof.
    ///
    /// # Safety
    /// The CPU has AVX-512F and AVX512-VNNI, and the operating system saves their registers.
    #[inline(always)]
    pub const unsafe fn assume() -> Self {
        // SAFETY: the caller's promise.
        Avx512Vnni(unsafe { Avx512::assume() })
    }
}

impl AvxVnni {
    /// The proof.
    ///
    /// # Safety
    /// The CPU has AVX2, FMA and AVX-VNNI, and the operating system saves their registers.
    #[inline(always)]
    pub const unsafe fn assume() -> Self {
        // SAFETY: the caller's promise.
        AvxVnni(unsafe { Avx2::assume() })
    }
}

impl Dot for Avx512Vnni {
    type Floats = Avx512;
    type Sums = __m512i;
    const ROWS: usize = 6;
    const PANELS: usize = 8;

    #[inline(always)]
    fn floats(self) -> Avx512 {
        self.0
    }
    #[inline(always)]
    fn start(self, offset: i32) -> __m512i {
        // SAFETY: an `Avx512Vnni` exists only where the CPU has AVX-512F.
        unsafe { _mm512_set1_epi32(offset) }
    }
    #[inline(always)]
    fn dot(self, sums: __m512i, x: u32, w: &Codes) -> __m512i {
        // SAFETY: it exists only where the CPU has VNNI; the 64 bytes of `w` are read.
        unsafe {
            let w = _mm512_loadu_si512(w.0.as_ptr().cast());
            _mm512_dpbusd_epi32(sums, w, _mm512_set1_epi32(x as i32))
        }
    }
    #[inline(always)]
    fn sums(self, _: Avx512, sums: __m512i) -> __m512 {
        // SAFETY: as in `start`.
        unsafe { _mm512_cvtepi32_ps(sums) }
    }
}

impl Dot for AvxVnni {
    type Floats = Avx2;
    type Sums = Sums;
    const ROWS: usize = 6;
    const PANELS: usize = 4;

    #[inline(always)]
    fn floats(self) -> Avx2 {
        self.0
    }
    #[inline(always)]
    fn start(self, offset: i32) -> Sums {
        // SAFETY: an `AvxVnni` exists only where the CPU has AVX2.
        let offset = unsafe { _mm256_set1_epi32(offset) };
        Sums(offset, offset)
    }
    #[inline(always)]
    fn dot(self, sums: Sums, x: u32, w: &Codes) -> Sums {
        // SAFETY: it exists only where the CPU has AVX-VNNI; both halves of `w` are read.
        unsafe {
            let (x, w) = (_mm256_set1_epi32(x as i32), w.0.as_ptr().cast::<__m256i>());
            let half = |sums, w| _mm256_dpbusd_avx_epi32(sums, _mm256_loadu_si256(w), x);
            Sums(half(sums.0, w), half(sums.1, w.add(1)))
        }
    }
    #[inline(always)]
    fn sums(self, s: Avx2, sums: Sums) -> Pair {
        self.0.sums(s, sums)
    }
}
