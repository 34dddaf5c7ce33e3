//! The plain read: the sum of all lines with the widest vectors of this CPU, which nothing
//! that uses each weight once can beat.

use picoformer_core::{Cpu, Line};

/// The sum of `lines`.
pub fn read(cpu: Cpu, lines: &[Line]) -> f32 {
    match cpu.name().split('+').next().unwrap_or_default() {
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX-512F.
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        "avx512" => unsafe { x86::avx512(lines) },
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX2.
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        "avx2" => unsafe { x86::avx2(lines) },
        _ => {
            let add = |mut sums: [f32; 16], line: &Line| {
                sums.iter_mut().zip(line.0).for_each(|(sum, x)| *sum += x);
                sums
            };
            lines.iter().fold([0.0; 16], add).iter().sum()
        }
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod x86 {
    use core::arch::x86_64::*;
    use picoformer_core::Line;

    /// Eight vectors of sums, so that none waits for the last addition, on `$streams`
    /// streams side by side: more lines are then on their way from a far cache.
    macro_rules! sum {
        ($lines:ident, $streams:literal, $width:literal, $zero:expr, $load:ident, $add:ident, $store:ident) => {{
            let mut sums = [$zero; 8];
            let length = $lines.len() / $streams;
            for line in 0..length {
                for (i, sum) in sums.iter_mut().enumerate() {
                    let (stream, part) = (i % $streams, i / $streams);
                    let from = $lines[stream * length + line].0.as_ptr();
                    // SAFETY: eight vectors are the lines of all streams: a part is in its line.
                    *sum = $add(*sum, unsafe { $load(from.add(part * $width)) });
                }
            }
            let mut floats = [0.0f32; 8 * $width];
            for (floats, sum) in floats.chunks_exact_mut($width).zip(sums) {
                // SAFETY: the chunk is one vector long.
                unsafe { $store(floats.as_mut_ptr(), sum) };
            }
            let rest = &$lines[$streams * length..];
            floats.iter().chain(rest.iter().flat_map(|line| &line.0)).sum()
        }};
    }

    #[target_feature(enable = "avx512f")]
    pub(super) fn avx512(lines: &[Line]) -> f32 {
        sum!(lines, 8, 16, _mm512_setzero_ps(), _mm512_loadu_ps, _mm512_add_ps, _mm512_storeu_ps)
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn avx2(lines: &[Line]) -> f32 {
        sum!(lines, 4, 8, _mm256_setzero_ps(), _mm256_loadu_ps, _mm256_add_ps, _mm256_storeu_ps)
    }
}
