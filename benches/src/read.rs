//! The plain read: the sum of all lines with the widest vectors of this CPU, which nothing
//! that uses each weight once can beat.

use picoformer_core::{Cpu, Line};

/// The sum of `lines`.
pub fn read(cpu: Cpu, lines: &[Line]) -> f32 {
    match cpu.name() {
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX-512F.
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        "avx512" => unsafe { avx512(lines) },
        // SAFETY: a `Cpu` of this name exists only where the CPU has AVX2.
        #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
        "avx2" => unsafe { avx2(lines) },
        _ => sum(lines),
    }
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx512f")]
fn avx512(lines: &[Line]) -> f32 {
    sum(lines)
}

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
#[target_feature(enable = "avx2")]
fn avx2(lines: &[Line]) -> f32 {
    sum(lines)
}

/// Eight sums, so that none waits for the last addition.
#[inline(always)]
fn sum(lines: &[Line]) -> f32 {
    let mut sums = [[0.0; 16]; 8];
    let (eights, rest) = lines.as_chunks::<8>();
    for eight in eights {
        for (sums, line) in sums.iter_mut().zip(eight) {
            for (sum, x) in sums.iter_mut().zip(&line.0) {
                *sum += x;
            }
        }
    }
    sums.as_flattened().iter().sum::<f32>() + rest.iter().flat_map(|line| line.0).sum::<f32>()
}
