//! SDOT, NEON's products of four bytes in one instruction, which CPUs since about 2018 have.
//!
//! It multiplies signed bytes: the weights, which lie as `w + 128`, get their highest bit flipped,
//! once for all rows of a tile.

use super::{Baseline, Dot, Simd};
use crate::line::{Codes, LANES};
use core::arch::aarch64::*;
use core::arch::asm;

/// Proof that the CPU has SDOT.
#[derive(Clone, Copy, Debug)]
pub struct NeonDot(Baseline);

impl NeonDot {
    /// The proof.
    ///
    /// # Safety
    /// The CPU has the extension `dotprod`.
    #[inline(always)]
    pub const unsafe fn assume() -> Self {
        NeonDot(Baseline::NEW)
    }
}

/// Quarters of a line of codes, and of sums.
const QUADS: usize = 4;

impl Dot for NeonDot {
    type Floats = Baseline;
    type Sums = [int32x4_t; QUADS];
    const ROWS: usize = 4;
    const PANELS: usize = 2;

    #[inline(always)]
    fn floats(self) -> Baseline {
        self.0
    }
    #[inline(always)]
    fn start(self, _: i32) -> Self::Sums {
        // SAFETY: the target has NEON.
        unsafe { [vdupq_n_s32(0); QUADS] }
    }
    #[inline(always)]
    fn dot(self, mut sums: Self::Sums, x: u32, w: &Codes) -> Self::Sums {
        let (quads, _) = w.0.as_chunks::<16>();
        unroll!(Q < QUADS {
            // SAFETY: the target has NEON, and sixteen bytes are read of as many. A `NeonDot`
            // exists only where the CPU has the instruction, which touches registers only.
            unsafe {
                let w = veorq_u8(vld1q_u8(quads[Q].as_ptr()), vdupq_n_u8(128));
                asm!(
                    "sdot {sums:v}.4s, {w:v}.16b, {x:v}.16b",
                    sums = inout(vreg) sums[Q], w = in(vreg) w, x = in(vreg) vdupq_n_u32(x),
                    options(pure, nomem, nostack, preserves_flags),
                );
            }
        });
        sums
    }
    #[inline(always)]
    fn sums(self, s: Baseline, sums: Self::Sums) -> <Baseline as Simd>::V {
        let mut line = [0.0; LANES];
        let (quads, _) = line.as_chunks_mut::<4>();
        unroll!(Q < QUADS {
            // SAFETY: the target has NEON, and four floats are written where four are.
            unsafe { vst1q_f32(quads[Q].as_mut_ptr(), vcvtq_f32_s32(sums[Q])) };
        });
        s.load(&line)
    }
}
