//! Products of whole numbers on a Cortex-M with the DSP extension: two multiply-adds in one
//! instruction, `SMLAD`, which multiplies halves of words.
//!
//! Weights are unsigned bytes: `UXTB16` makes halves of a word's steps 0 and 2, or 1 and 3. The
//! codes of `x` are laid out as halves once for several passes, each of which goes down the
//! depth with the sums in registers.
//!
//! | tile | columns a pass | a word's four steps: loads, halves, products, loop | instructions a product |
//! |---|---|---|---|
//! | 1 row | 4 | 3 + 8 + 8 + 1/2 | 1.22 |
//! | 2 rows | 2 | 3 + 4 + 8 + 1/2 | 0.97 |
//!
//! All M4 and M7 have the extension. An M33 may lack it, but hardly any that has a
//! floating-point unit does: that target means both here.

use crate::line::{Codes, LANES};
use core::arch::asm;

/// Rows of the largest tile.
pub(super) const ROWS: usize = 2;
/// Panels of the largest tile, of one row: two would save a tenth of its instructions, and cost a
/// third of the product's code.
pub(super) const PANELS: usize = 1;

/// Words of `x` that are laid out at a time: the stack has 16 bytes for each.
const WORDS: usize = 16;

/// `sums[row][panel][column] += Σ w[panel][column][k] · x[row][k]` over the depth that all have.
#[inline(always)]
pub(super) fn accumulate<const R: usize, const P: usize>(
    x: [&[u32]; R],
    w: [&[Codes]; P],
    sums: &mut [[[i32; LANES]; P]; R],
) {
    match (&x[..], &mut sums[..]) {
        ([x], [sums]) => one(x, &w, sums),
        ([x, y], [x_sums, y_sums]) => two(x, y, &w, x_sums, y_sums),
        _ => {}
    }
}

/// The codes of a word as halves: steps 0 and 2, steps 1 and 3.
#[inline(always)]
fn halves(word: u32) -> [u32; 2] {
    let (even, odd);
    // SAFETY: every CPU that this is compiled for has the instruction, which touches registers
    // only.
    unsafe {
        asm!(".arch armv7e-m", "sxtb16 {even}, {word}", "sxtb16 {odd}, {word}, ror #8",
            word = in(reg) word, even = out(reg) even, odd = lateout(reg) odd,
            options(pure, nomem, nostack, preserves_flags));
    }
    [even, odd]
}

/// Four steps of depth, then four times that while there are as many.
macro_rules! down_the_depth {
    ($($line:literal),+) => {
        concat!(
            ".arch armv7e-m\n",
            "subs {n}, #4\n", "blo 3f\n",
            "2:\n", $($line, "\n",)+ $($line, "\n",)+ $($line, "\n",)+ $($line, "\n",)+
            "subs {n}, #4\n", "bhs 2b\n",
            "3:\n", "adds {n}, #4\n", "beq 5f\n",
            "4:\n", $($line, "\n",)+
            "subs {n}, #1\n", "bne 4b\n",
            "5:",
        )
    };
}

fn one(x: &[u32], w: &[&[Codes]], sums: &mut [[i32; LANES]]) {
    let mut laid = [[0; 2]; WORDS];
    for (at, x) in x.chunks(WORDS).enumerate() {
        for (to, x) in laid.iter_mut().zip(x) {
            *to = halves(*x);
        }
        for (w, sums) in w.iter().zip(&mut *sums) {
            let w = w.get(at * WORDS..).unwrap_or_default();
            let n = x.len().min(w.len());
            for (four, [a, b, c, d]) in sums.as_chunks_mut().0.iter_mut().enumerate() {
                // SAFETY: `n` pairs are read from `laid`, which has at least the `x.len()` of a
                // chunk, and 16 bytes of each of `n` lines from `w`, which has them, at the
                // column: `four` is less than 4. The last load moves `w` beyond them and reads
                // no more.
                unsafe {
                    asm!(
                        down_the_depth!(
                            "ldrd {even}, {odd}, [{x}], #8",
                            "ldrd {v}, {u}, [{w}, #8]",
                            "uxtb16 {t}, {v}", "uxtb16 {v}, {v}, ror #8",
                            "smlad {c}, {t}, {even}, {c}", "smlad {c}, {v}, {odd}, {c}",
                            "uxtb16 {t}, {u}", "uxtb16 {u}, {u}, ror #8",
                            "smlad {d}, {t}, {even}, {d}", "smlad {d}, {u}, {odd}, {d}",
                            "ldrd {v}, {u}, [{w}], #64",
                            "uxtb16 {t}, {v}", "uxtb16 {v}, {v}, ror #8",
                            "smlad {a}, {t}, {even}, {a}", "smlad {a}, {v}, {odd}, {a}",
                            "uxtb16 {t}, {u}", "uxtb16 {u}, {u}, ror #8",
                            "smlad {b}, {t}, {even}, {b}", "smlad {b}, {u}, {odd}, {b}"
                        ),
                        n = inout(reg) n => _,
                        x = inout(reg) laid.as_ptr() => _,
                        w = inout(reg) w.as_ptr().cast::<[u32; 4]>().wrapping_add(four) => _,
                        a = inout(reg) *a, b = inout(reg) *b, c = inout(reg) *c, d = inout(reg) *d,
                        even = out(reg) _, odd = out(reg) _, u = out(reg) _, v = out(reg) _, t = out(reg) _,
                        options(readonly, nostack),
                    );
                }
            }
        }
    }
}

fn two(x: &[u32], y: &[u32], w: &[&[Codes]], x_sums: &mut [[i32; LANES]], y_sums: &mut [[i32; LANES]]) {
    let mut laid = [[0; 4]; WORDS];
    for (at, (x, y)) in x.chunks(WORDS).zip(y.chunks(WORDS)).enumerate() {
        for ((to, x), y) in laid.iter_mut().zip(x).zip(y) {
            let ([x_even, x_odd], [y_even, y_odd]) = (halves(*x), halves(*y));
            *to = [x_even, y_even, x_odd, y_odd];
        }
        for ((w, x_sums), y_sums) in w.iter().zip(&mut *x_sums).zip(&mut *y_sums) {
            let w = w.get(at * WORDS..).unwrap_or_default();
            let n = x.len().min(y.len()).min(w.len());
            let (x_sums, y_sums) = (x_sums.as_chunks_mut().0, y_sums.as_chunks_mut().0);
            for (two, ([a, b], [c, d])) in x_sums.iter_mut().zip(y_sums).enumerate() {
                // SAFETY: as in `one`, with four numbers of `laid` and 8 bytes of each line:
                // `two` is less than 8.
                unsafe {
                    asm!(
                        down_the_depth!(
                            "ldrd {v}, {u}, [{w}], #64",
                            "ldrd {p}, {q}, [{x}], #8",
                            "uxtb16 {t}, {v}",
                            "smlad {a}, {t}, {p}, {a}", "smlad {c}, {t}, {q}, {c}",
                            "uxtb16 {t}, {u}",
                            "smlad {b}, {t}, {p}, {b}", "smlad {d}, {t}, {q}, {d}",
                            "ldrd {p}, {q}, [{x}], #8",
                            "uxtb16 {t}, {v}, ror #8",
                            "smlad {a}, {t}, {p}, {a}", "smlad {c}, {t}, {q}, {c}",
                            "uxtb16 {t}, {u}, ror #8",
                            "smlad {b}, {t}, {p}, {b}", "smlad {d}, {t}, {q}, {d}"
                        ),
                        n = inout(reg) n => _,
                        x = inout(reg) laid.as_ptr() => _,
                        w = inout(reg) w.as_ptr().cast::<[u32; 2]>().wrapping_add(two) => _,
                        a = inout(reg) *a, b = inout(reg) *b, c = inout(reg) *c, d = inout(reg) *d,
                        p = out(reg) _, q = out(reg) _, u = out(reg) _, v = out(reg) _, t = out(reg) _,
                        options(readonly, nostack),
                    );
                }
            }
        }
    }
}
