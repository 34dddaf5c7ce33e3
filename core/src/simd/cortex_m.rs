//! What a Cortex-M with floating-point registers does better than the compiler: a tile whose
//! sums stay in registers, by fused products and by loads of eight numbers an instruction.
//!
//! | tile | lanes at a time | a step of depth: loads, products, loop | instructions a product |
//! |---|---|---|---|
//! | 1 row | 16 | 3 + 16 + 2 | 1.31 |
//! | 2 rows | 8 | 4 + 16 + 2 | 1.38 |
//! | 3 rows | 8 | 6 + 24 + 2 | 1.33 |
//!
//! More rows at once read the weights less often, which is what flash memory makes wait.
//! (Compiled by the field: a stable compiler gives assembly no `f32` operands here, only
//! registers that it must not use meanwhile.)

use crate::line::{LANES, Line};
use core::arch::asm;

/// There is such a tile.
pub(super) const TILE: bool = true;
/// Rows that it has, at most.
pub(super) const ROWS: usize = 3;

/// `sums[i] += x[i][k] * w[k]` for each row and every `k` that all have, in order.
#[inline(always)]
pub(super) fn accumulate<const R: usize>(x: [&[f32]; R], w: &[Line], sums: &mut [[f32; LANES]; R]) {
    match (&x[..], &mut sums[..]) {
        ([x], [sums]) => one(x, w, sums),
        ([x, y], [x_sums, y_sums]) => two([x, y], w, [x_sums, y_sums]),
        ([x, y, z], [x_sums, y_sums, z_sums]) => three([x, y, z], w, [x_sums, y_sums, z_sums]),
        _ => {}
    }
}

fn one(x: &[f32], w: &[Line], sums: &mut [f32; LANES]) {
    let depth = x.len().min(w.len());
    if depth == 0 {
        return;
    }
    // SAFETY: `depth` numbers are read from `x` and as many lines from `w`, which have them, and
    // `sums` is read and written within its sixteen; the registers used are all named.
    unsafe {
        asm!(
            "vldmia {sums}, {{s0-s15}}",
            "2:",
            "vldmia {x}!, {{s24}}",
            "vldmia {w}!, {{s16-s23}}",
            "vfma.f32 s0, s16, s24", "vfma.f32 s1, s17, s24", "vfma.f32 s2, s18, s24", "vfma.f32 s3, s19, s24",
            "vfma.f32 s4, s20, s24", "vfma.f32 s5, s21, s24", "vfma.f32 s6, s22, s24", "vfma.f32 s7, s23, s24",
            "vldmia {w}!, {{s16-s23}}",
            "vfma.f32 s8, s16, s24", "vfma.f32 s9, s17, s24", "vfma.f32 s10, s18, s24", "vfma.f32 s11, s19, s24",
            "vfma.f32 s12, s20, s24", "vfma.f32 s13, s21, s24", "vfma.f32 s14, s22, s24", "vfma.f32 s15, s23, s24",
            "subs {depth}, #1",
            "bne 2b",
            "vstmia {sums}, {{s0-s15}}",
            x = inout(reg) x.as_ptr() => _,
            w = inout(reg) w.as_ptr() => _,
            depth = inout(reg) depth => _,
            sums = in(reg) sums.as_mut_ptr(),
            out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
            out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
            out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
            out("s24") _,
            options(nostack),
        );
    }
}

fn two(x: [&[f32]; 2], w: &[Line], sums: [&mut [f32; LANES]; 2]) {
    let depth = x[0].len().min(x[1].len()).min(w.len());
    let [x_sums, y_sums] = sums;
    if depth == 0 {
        return;
    }
    for half in 0..2 {
        // SAFETY: as in `one`; each half is eight of the sixteen lanes. `w` ends eight
        // floats beyond where the last line's half does, and is not read there.
        unsafe {
            asm!(
                "vldmia {x_sums}, {{s0-s7}}",
                "vldmia {y_sums}, {{s8-s15}}",
                "2:",
                "vldmia {x}!, {{s24}}",
                "vldmia {y}!, {{s25}}",
                "vldmia {w}!, {{s16-s23}}",
                "adds {w}, #32",
                "vfma.f32 s0, s16, s24", "vfma.f32 s1, s17, s24", "vfma.f32 s2, s18, s24", "vfma.f32 s3, s19, s24",
                "vfma.f32 s4, s20, s24", "vfma.f32 s5, s21, s24", "vfma.f32 s6, s22, s24", "vfma.f32 s7, s23, s24",
                "vfma.f32 s8, s16, s25", "vfma.f32 s9, s17, s25", "vfma.f32 s10, s18, s25", "vfma.f32 s11, s19, s25",
                "vfma.f32 s12, s20, s25", "vfma.f32 s13, s21, s25", "vfma.f32 s14, s22, s25", "vfma.f32 s15, s23, s25",
                "subs {depth}, #1",
                "bne 2b",
                "vstmia {x_sums}, {{s0-s7}}",
                "vstmia {y_sums}, {{s8-s15}}",
                x = inout(reg) x[0].as_ptr() => _,
                y = inout(reg) x[1].as_ptr() => _,
                w = inout(reg) w.as_ptr().cast::<f32>().wrapping_add(8 * half) => _,
                depth = inout(reg) depth => _,
                x_sums = in(reg) x_sums.as_mut_ptr().wrapping_add(8 * half),
                y_sums = in(reg) y_sums.as_mut_ptr().wrapping_add(8 * half),
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
                out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
                out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _, out("s25") _,
                options(nostack),
            );
        }
    }
}

fn three(x: [&[f32]; 3], w: &[Line], sums: [&mut [f32; LANES]; 3]) {
    let depth = x[0].len().min(x[1].len()).min(x[2].len()).min(w.len());
    let [x_sums, y_sums, z_sums] = sums;
    if depth == 0 {
        return;
    }
    for half in 0..2 {
        // SAFETY: as in `two`.
        unsafe {
            asm!(
                "vldmia {x_sums}, {{s0-s7}}",
                "vldmia {y_sums}, {{s8-s15}}",
                "vldmia {z_sums}, {{s16-s23}}",
                "2:",
                "vldmia {x}!, {{s28}}",
                "vldmia {y}!, {{s29}}",
                "vldmia {z}!, {{s30}}",
                "vldmia {w}!, {{s24-s27}}",
                "vfma.f32 s0, s24, s28", "vfma.f32 s1, s25, s28", "vfma.f32 s2, s26, s28", "vfma.f32 s3, s27, s28",
                "vfma.f32 s8, s24, s29", "vfma.f32 s9, s25, s29", "vfma.f32 s10, s26, s29", "vfma.f32 s11, s27, s29",
                "vfma.f32 s16, s24, s30", "vfma.f32 s17, s25, s30", "vfma.f32 s18, s26, s30", "vfma.f32 s19, s27, s30",
                "vldmia {w}!, {{s24-s27}}",
                "adds {w}, #32",
                "vfma.f32 s4, s24, s28", "vfma.f32 s5, s25, s28", "vfma.f32 s6, s26, s28", "vfma.f32 s7, s27, s28",
                "vfma.f32 s12, s24, s29", "vfma.f32 s13, s25, s29", "vfma.f32 s14, s26, s29", "vfma.f32 s15, s27, s29",
                "vfma.f32 s20, s24, s30", "vfma.f32 s21, s25, s30", "vfma.f32 s22, s26, s30", "vfma.f32 s23, s27, s30",
                "subs {depth}, #1",
                "bne 2b",
                "vstmia {x_sums}, {{s0-s7}}",
                "vstmia {y_sums}, {{s8-s15}}",
                "vstmia {z_sums}, {{s16-s23}}",
                x = inout(reg) x[0].as_ptr() => _,
                y = inout(reg) x[1].as_ptr() => _,
                z = inout(reg) x[2].as_ptr() => _,
                w = inout(reg) w.as_ptr().cast::<f32>().wrapping_add(8 * half) => _,
                depth = inout(reg) depth => _,
                x_sums = in(reg) x_sums.as_mut_ptr().wrapping_add(8 * half),
                y_sums = in(reg) y_sums.as_mut_ptr().wrapping_add(8 * half),
                z_sums = in(reg) z_sums.as_mut_ptr().wrapping_add(8 * half),
                out("s0") _, out("s1") _, out("s2") _, out("s3") _, out("s4") _, out("s5") _, out("s6") _, out("s7") _,
                out("s8") _, out("s9") _, out("s10") _, out("s11") _, out("s12") _, out("s13") _, out("s14") _, out("s15") _,
                out("s16") _, out("s17") _, out("s18") _, out("s19") _, out("s20") _, out("s21") _, out("s22") _, out("s23") _,
                out("s24") _, out("s25") _, out("s26") _, out("s27") _, out("s28") _, out("s29") _, out("s30") _,
                options(nostack),
            );
        }
    }
}

/// The square root.
#[inline(always)]
pub(super) fn sqrt(x: f32) -> f32 {
    let mut root = x;
    // SAFETY: every CPU of the target has the instruction, which touches registers only.
    unsafe {
        asm!("vmov s0, {0}", "vsqrt.f32 s0, s0", "vmov {0}, s0", inout(reg) root, out("s0") _,
            options(pure, nomem, nostack));
    }
    root
}
