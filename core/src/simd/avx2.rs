//! AVX2 and FMA: a vector is two `__m256`.

use super::{Dot, Simd};
use crate::line::{Codes, LANES, Line};
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
        // 1.5 * 2^23 more, a float's last bit is worth one: the last bits are the exponent's.
        let biased = _mm256_add_ps(n, _mm256_set1_ps(12_582_912.0 + 127.0));
        _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(biased)))
    }
}

/// The sum of eight lanes by halves.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn sum(v: __m256) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let v = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_add_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_add_ss(v, _mm_movehdup_ps(v)))
    }
}

/// The largest of eight lanes.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn largest(v: __m256) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let v = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps::<1>(v));
        let v = _mm_max_ps(v, _mm_movehl_ps(v, v));
        _mm_cvtss_f32(_mm_max_ss(v, _mm_movehdup_ps(v)))
    }
}

/// The square root of one number. (The one of `libm` is an instruction of SSE, for which the
/// CPU must first put the wide registers aside.)
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
pub(super) unsafe fn sqrt(x: f32) -> f32 {
    // SAFETY: the caller's promise.
    unsafe {
        let x = _mm_set_ss(x);
        _mm_cvtss_f32(_mm_sqrt_ss(x))
    }
}

/// For each half of a line, -1 in the lanes before `length` and 0 in the others.
///
/// # Safety
/// The CPU has AVX2.
#[inline(always)]
unsafe fn lanes_before(length: usize) -> (__m256i, __m256i) {
    // SAFETY: the caller's promise.
    unsafe {
        let length = _mm256_set1_epi32(length.min(LANES) as i32);
        (
            _mm256_cmpgt_epi32(length, _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)),
            _mm256_cmpgt_epi32(length, _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15)),
        )
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
        let big = self.splat(12_582_912.0);
        let half = self.sub(self.mul_add(n, self.splat(0.5), big), big);
        let rest = self.sub(n, half);
        self.mul(self.mul(x, per_pair!(pow2, half)), per_pair!(pow2, rest))
    }
    #[inline(always)]
    fn sum(self, line: &[f32; LANES]) -> f32 {
        let v = self.load(line);
        // SAFETY: as in `per_pair`.
        unsafe { sum(_mm256_add_ps(v.0, v.1)) }
    }
    #[inline(always)]
    fn largest(self, line: &[f32; LANES]) -> f32 {
        let v = self.load(line);
        // SAFETY: as in `per_pair`.
        unsafe { largest(_mm256_max_ps(v.0, v.1)) }
    }
    #[inline(always)]
    fn prefetch(self, line: &Line) {
        // SAFETY: a prefetch of borrowed memory; it neither reads nor faults.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(core::ptr::from_ref(line).cast()) }
    }
    #[inline(always)]
    fn sqrt(self, x: f32) -> f32 {
        // SAFETY: as in `per_pair`.
        unsafe { sqrt(x) }
    }
    #[inline(always)]
    fn load_part(self, x: &[f32], fill: f32) -> Pair {
        let (from, fill) = (x.as_ptr(), self.splat(fill));
        // SAFETY: as in `per_pair`; only the lanes that `x` has are read, and a mask
        // keeps the others from faulting, wherever their address is.
        unsafe {
            let (low, high) = lanes_before(x.len());
            let first = _mm256_maskload_ps(from, low);
            let second = _mm256_maskload_ps(from.wrapping_add(8), high);
            Pair(
                _mm256_blendv_ps(fill.0, first, _mm256_castsi256_ps(low)),
                _mm256_blendv_ps(fill.1, second, _mm256_castsi256_ps(high)),
            )
        }
    }
    #[inline(always)]
    fn store_part(self, v: Pair, out: &mut [f32]) {
        let (to, length) = (out.as_mut_ptr(), out.len());
        // SAFETY: as in `load_part`, written instead of read.
        unsafe {
            let (low, high) = lanes_before(length);
            _mm256_maskstore_ps(to, low, v.0);
            _mm256_maskstore_ps(to.wrapping_add(8), high, v.1);
        }
    }
    #[inline(always)]
    fn bytes(self, v: Pair, words: &mut [u32; 4]) {
        // SAFETY: an `Avx2` exists only where the CPU has AVX2; the last is a change of type
        // between sixteen bytes of any bits.
        unsafe {
            let halves = _mm256_packs_epi32(_mm256_cvtps_epi32(v.0), _mm256_cvtps_epi32(v.1));
            // Each half of the register was packed by itself: its quarters back into order.
            let ordered = _mm256_permute4x64_epi64::<0b11_01_10_00>(halves);
            let low = _mm256_castsi256_si128(ordered);
            *words = core::mem::transmute::<__m128i, [u32; 4]>(_mm_packs_epi16(
                low,
                _mm256_extracti128_si256::<1>(ordered),
            ));
        }
    }
}

/// Sixteen whole numbers, eight at a time.
#[derive(Clone, Copy, Debug)]
pub struct Sums(pub(super) __m256i, pub(super) __m256i);

impl Dot for Avx2 {
    type Floats = Self;
    type Sums = Sums;
    const ROWS: usize = 4;
    const PANELS: usize = 2;

    #[inline(always)]
    fn floats(self) -> Self {
        self
    }
    #[inline(always)]
    fn start(self, _: i32) -> Sums {
        // SAFETY: an `Avx2` exists only where the CPU has AVX2.
        let zero = unsafe { _mm256_setzero_si256() };
        Sums(zero, zero)
    }
    #[inline(always)]
    fn dot(self, sums: Sums, x: u32, w: &Codes) -> Sums {
        // |w| · (±x) summed by pairs: at most 128 · 127 · 2 = 32512, so that sixteen bits
        // never saturate.
        //
        // SAFETY: an `Avx2` exists only where the CPU has AVX2; both halves of `w` are read.
        unsafe {
            let x = _mm256_set1_epi32(x as i32);
            let half = |sums, w| {
                let w = _mm256_xor_si256(_mm256_loadu_si256(w), _mm256_set1_epi8(-128));
                let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
                _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
            };
            let w = w.0.as_ptr().cast::<__m256i>();
            Sums(half(sums.0, w), half(sums.1, w.add(1)))
        }
    }
    #[inline(always)]
    fn sums(self, sums: Sums) -> Pair {
        // SAFETY: an `Avx2` exists only where the CPU has AVX2.
        unsafe { Pair(_mm256_cvtepi32_ps(sums.0), _mm256_cvtepi32_ps(sums.1)) }
    }
}
