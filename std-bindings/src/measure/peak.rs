//! What this core's multipliers can do at best, measured without any kernel of ours:
//! independent chains of multiply-adds in registers, of the width that a backend has.

use picoformer_core::Cpu;

/// Measures the peak of `cpu`'s instructions in GFLOP/s: the best of several runs of
/// about half a millisecond. `None` where there is no such loop.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub fn peak(cpu: Cpu) -> Option<f64> {
    let chains: fn(u64) -> f64 = match cpu.name().split('+').next().unwrap_or_default() {
        "baseline" => x86::baseline,
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX2 and FMA.
        "avx2" => |steps| unsafe { x86::avx2(steps) },
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX-512F.
        "avx512" => |steps| unsafe { x86::avx512(steps) },
        _ => return None,
    };
    best(|| chains(1 << 18))
}

/// The same for products of bytes with exact sums, in G operations/s: VNNI, or without it the
/// four instructions that do not saturate.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub fn peak_int8(cpu: Cpu) -> Option<f64> {
    let chains: fn(u64) -> f64 = match cpu.name() {
        // SAFETY: a `Cpu` of either name exists only where the CPU has AVX2.
        "avx2" | "avx512" => |steps| unsafe { x86::bytes_avx2(steps) },
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX2 and AVX-VNNI.
        "avx2+vnni" => |steps| unsafe { x86::bytes_avx_vnni(steps) },
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX-512F and its VNNI.
        "avx512+vnni" => |steps| unsafe { x86::bytes_avx512_vnni(steps) },
        _ => return None,
    };
    best(|| chains(1 << 18))
}

/// There is no loop for this architecture.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
pub fn peak_int8(_: Cpu) -> Option<f64> {
    None
}

/// The best rate, in operations a nanosecond, of several runs that tell their operations.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
fn best(run: impl Fn() -> f64) -> Option<f64> {
    let once = |_| {
        let start = std::time::Instant::now();
        let operations = run();
        operations / start.elapsed().as_nanos().max(1) as f64
    };
    (0..12).map(once).reduce(f64::max)
}

/// There is no loop for this architecture.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
pub fn peak(_: Cpu) -> Option<f64> {
    None
}

/// The same with operands as a matmul's tile has them, from the nearest cache: what a product
/// can reach at best. `None` where there is no such loop.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub fn fed(cpu: Cpu) -> Option<f64> {
    let tile: fn(u64) -> f64 = match cpu.name().split('+').next().unwrap_or_default() {
        // SAFETY: as in `peak`.
        "avx2" => |steps| unsafe { x86::fed_avx2(steps) },
        // SAFETY: as in `peak`.
        "avx512" => |steps| unsafe { x86::fed_avx512(steps) },
        _ => return None,
    };
    best(|| tile(1 << 17))
}

/// There is no loop for this architecture.
#[cfg(not(all(target_arch = "x86_64", target_feature = "sse2")))]
pub fn fed(_: Cpu) -> Option<f64> {
    None
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use core::arch::x86_64::*;
    use std::hint::black_box;

    /// `$steps` steps of `$chains` chains `x = x * a + b`, which tend to 2 and stay
    /// normal numbers. Gives the floating-point operations done.
    macro_rules! chains {
        ($steps:ident, $chains:literal, $lanes:literal, $splat:ident, $x:ident, $a:ident, $b:ident => $step:expr) => {{
            let ($a, $b) = ($splat(black_box(0.5)), $splat(black_box(1.0)));
            let mut all = [$splat(black_box(0.0)); $chains];
            for _ in 0..$steps {
                for x in &mut all {
                    let $x = *x;
                    *x = $step;
                }
            }
            black_box(all);
            ($steps * 2 * $chains * $lanes) as f64
        }};
    }

    #[cfg(not(target_feature = "fma"))]
    pub(super) fn baseline(steps: u64) -> f64 {
        // SAFETY: SSE2 is part of the compile target.
        chains!(steps, 12, 4, splat4, x, a, b => unsafe { _mm_add_ps(_mm_mul_ps(x, a), b) })
    }

    #[cfg(target_feature = "fma")]
    pub(super) fn baseline(steps: u64) -> f64 {
        // SAFETY: FMA is part of the compile target.
        chains!(steps, 12, 4, splat4, x, a, b => unsafe { _mm_fmadd_ps(x, a, b) })
    }

    fn splat4(x: f32) -> __m128 {
        // SAFETY: SSE2 is part of the compile target.
        unsafe { _mm_set1_ps(x) }
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn avx2(steps: u64) -> f64 {
        chains!(steps, 12, 8, _mm256_set1_ps, x, a, b => _mm256_fmadd_ps(x, a, b))
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(steps: u64) -> f64 {
        chains!(steps, 16, 16, _mm512_set1_ps, x, a, b => _mm512_fmadd_ps(x, a, b))
    }

    /// `$steps` steps of `$chains` chains of sums of products of `$bytes` bytes.
    macro_rules! bytes {
        ($steps:ident, $chains:literal, $bytes:literal, $splat:ident, $x:ident, $a:ident, $b:ident => $step:expr) => {{
            let ($a, $b) = ($splat(black_box(0x01020304)), $splat(black_box(0x04030201)));
            let mut all = [$splat(black_box(0)); $chains];
            for _ in 0..$steps {
                for x in &mut all {
                    let $x = *x;
                    *x = $step;
                }
            }
            black_box(all);
            ($steps * 2 * $chains * $bytes) as f64
        }};
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn bytes_avx2(steps: u64) -> f64 {
        let ones = _mm256_set1_epi16(1);
        bytes!(steps, 12, 32, _mm256_set1_epi32, x, a, b => {
            // The sign is taken of what changes, or it would be taken once for all.
            let pairs = _mm256_maddubs_epi16(b, _mm256_sign_epi8(a, x));
            _mm256_add_epi32(x, _mm256_madd_epi16(pairs, ones))
        })
    }

    #[target_feature(enable = "avx2,avxvnni")]
    pub(super) fn bytes_avx_vnni(steps: u64) -> f64 {
        bytes!(steps, 12, 32, _mm256_set1_epi32, x, a, b => _mm256_dpbusd_avx_epi32(x, a, b))
    }

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn bytes_avx512_vnni(steps: u64) -> f64 {
        bytes!(steps, 16, 64, _mm512_set1_epi32, x, a, b => _mm512_dpbusd_epi32(x, a, b))
    }

    /// `$steps` steps of six rows' numbers times `$vectors` vectors of weights, over and over
    /// the same 64 steps, which stay in the nearest cache.
    macro_rules! fed {
        ($steps:ident, $vectors:literal, $lanes:literal, $splat:ident, $load:ident, $fma:ident) => {{
            let x = black_box([[0.0f32; 64]; 6]);
            let w = black_box([[[0.0f32; $lanes]; $vectors]; 64]);
            let mut sums = [[$splat(0.0); $vectors]; 6];
            for _ in 0..$steps / 64 {
                let (x, w) = (black_box(&x), black_box(&w));
                macro_rules! step {
                    ($k:expr) => {
                        let mut line = [$splat(0.0); $vectors];
                        for (line, w) in line.iter_mut().zip(&w[$k]) {
                            // SAFETY: `w` is as many floats as are loaded.
                            *line = unsafe { $load(w.as_ptr()) };
                        }
                        for (sums, x) in sums.iter_mut().zip(x) {
                            for (sum, line) in sums.iter_mut().zip(line) {
                                *sum = $fma($splat(x[$k]), line, *sum);
                            }
                        }
                    };
                }
                // Four steps a turn, so that turning takes no time.
                for k in (0..64).step_by(4) {
                    step!(k);
                    step!(k + 1);
                    step!(k + 2);
                    step!(k + 3);
                }
            }
            black_box(sums);
            ($steps / 64 * 64 * 2 * 6 * $vectors * $lanes) as f64
        }};
    }

    #[target_feature(enable = "avx2,fma")]
    pub(super) fn fed_avx2(steps: u64) -> f64 {
        fed!(steps, 2, 8, _mm256_set1_ps, _mm256_loadu_ps, _mm256_fmadd_ps)
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn fed_avx512(steps: u64) -> f64 {
        fed!(steps, 4, 16, _mm512_set1_ps, _mm512_loadu_ps, _mm512_fmadd_ps)
    }
}
