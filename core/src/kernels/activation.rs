//! Activations: right to a few units in the last place, and no NaN from finite input.
//!
//! All are built on `exp`, kept in two parts where its power of two must come last:
//! a factor times a denormal would be wrong in most of its bits.
//!
//! The worst error found among every 61st `f32`, rounded up, in units in the last place:
//!
//! | | with fused products | without | |
//! |---|---|---|---|
//! | exp | 0.9 | 1.2 | |
//! | tanh | 1.4 | 1.4 | |
//! | sigmoid | 2.4 | 2.4 | |
//! | silu | 3.1 | 3.2 | |
//! | gelu_erf | 5.9 | 6.2 | on the negative side; the positive one is better |
//! | gelu_tanh | 210 | 210 | where it is near 1e-39, of rounding the exponent to `f32` |

use crate::line::LANES;
use crate::simd::Simd;

/// The function between two linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Activation {
    /// `x`.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// `x Φ(x)`, with the normal distribution's Φ.
    GeluErf,
    /// `x σ(2 √(2/π) (x + 0.044715 x³))`: the usual approximation of `GeluErf`.
    GeluTanh,
    /// `x σ(x)`.
    Silu,
    /// `tanh x`.
    Tanh,
    /// `σ(x) = 1 / (1 + exp(-x))`.
    Sigmoid,
    /// `exp x`.
    Exp,
}

/// `x = activation(x)` for every number.
#[inline(always)]
pub fn activate<S: Simd>(s: S, function: Activation, x: &mut [f32]) {
    // What is left of a line is one of its own, so that each function is compiled once.
    let (lines, tail) = x.as_chunks_mut::<LANES>();
    let mut last = [0.0; LANES];
    last.iter_mut().zip(&*tail).for_each(|(last, x)| *last = *x);
    let rest = if tail.is_empty() { &mut [][..] } else { core::slice::from_mut(&mut last) };
    for lines in [lines, rest] {
        macro_rules! each {
            ($f:ident) => {
                for part in 0..S::PARTS {
                    let s = s.part(part);
                    for x in &mut *lines {
                        s.store($f(s, s.load(x)), x);
                    }
                }
            };
        }
        // The choice is made once: a loop with one function in it is the faster one.
        match function {
            Activation::Identity => {}
            Activation::Relu => each!(relu),
            Activation::GeluErf => each!(gelu_erf),
            Activation::GeluTanh => each!(gelu_tanh),
            Activation::Silu => each!(silu),
            Activation::Tanh => each!(tanh),
            Activation::Sigmoid => each!(sigmoid),
            Activation::Exp => each!(exp),
        }
    }
    tail.iter_mut().zip(last).for_each(|(x, last)| *x = last);
}

/// `a polynomial in x`, by Horner's rule; the constant term comes last.
macro_rules! polynomial {
    ($s:ident, $x:expr, $first:literal $(, $next:literal)*) => {{
        let p = $s.splat($first);
        $( let p = $s.mul_add(p, $x, $s.splat($next)); )*
        p
    }};
}

/// `(r, n)` with `exp(x) = exp(r) 2^n`: `|r|` below 0.3475 and `n` whole.
///
/// `x` below -150 counts as that, which is 0 to `f32`; it must not be above 89.
#[inline(always)]
fn reduced<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    // r = x - n ln 2 in two steps (Cody and Waite): the first part of ln 2 is so short
    // that its product is exact. Adding 1.5 * 2^23 rounds to a whole number.
    let x = s.max(s.splat(-150.0), x);
    let big = s.splat(12_582_912.0);
    let n = s.sub(s.mul_add(x, s.splat(core::f32::consts::LOG2_E), big), big);
    let r = s.mul_add(n, s.splat(-0.693_359_4), x);
    (s.mul_add(n, s.splat(2.121_944_4e-4), r), n)
}

/// `exp(r)` for `|r|` below 0.3475: within 0.7..1.42.
#[inline(always)]
fn exp_near_0<S: Simd>(s: S, r: S::V) -> S::V {
    // A minimax fit of (exp(r) - 1 - r) / r², off by 2^-28.
    let q = polynomial!(s, r, 0.001_381_422_2, 0.008_368_899, 0.041_668_404, 0.166_665_2, 0.499_999_94);
    let one = s.splat(1.0);
    s.mul_add(r, s.mul_add(r, q, one), one)
}

/// `exp(x)`: denormal, 0 and infinite where it should be; -inf gives 0.
#[inline(always)]
fn exp<S: Simd>(s: S, x: S::V) -> S::V {
    // Above 89 it is infinite to `f32`.
    exp_below_89(s, s.min(s.splat(89.0), x))
}

/// `exp(x)` for `x` that is not above 89.
#[inline(always)]
pub(crate) fn exp_below_89<S: Simd>(s: S, x: S::V) -> S::V {
    let (r, n) = reduced(s, x);
    s.scale_by_pow2(zero_below(s, x, -104.0, exp_near_0(s, r)), n)
}

/// `p`, but 0 where `x < bound`, for which what comes of it is 0 to `f32`: to find that by
/// scaling takes the CPU a hundred times as long, and masked scores are all like that.
#[inline(always)]
fn zero_below<S: Simd>(s: S, x: S::V, bound: f32, p: S::V) -> S::V {
    s.select_lt(x, s.splat(bound), s.splat(0.0), p)
}

#[inline(always)]
fn relu<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.splat(0.0), x)
}

#[inline(always)]
fn silu<S: Simd>(s: S, x: S::V) -> S::V {
    gate(s, x, x)
}

#[inline(always)]
fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    gate(s, s.splat(1.0), x)
}

/// `|x|`.
#[inline(always)]
fn abs<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.neg(x), x)
}

/// `x σ(u)`, for `x` of the sign of `u`, or 1.
#[inline(always)]
fn gate<S: Simd>(s: S, x: S::V, u: S::V) -> S::V {
    // With e = exp(-|u|), which cannot overflow: x / (1 + e), and for negative u
    // x e / (1 + e), whose power of two comes last. There x may stop at -1000: its
    // gate is 0 by then.
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    let below = s.neg(abs(s, u));
    let (r, n) = reduced(s, below);
    let p = zero_below(s, below, -110.0, exp_near_0(s, r));
    let e = s.scale_by_pow2(p, n);
    let x = s.max(s.splat(-1000.0), x);
    let y = s.div(s.select_lt(u, zero, s.mul(x, p), x), s.add(one, e));
    // Only the negative side is scaled: the other may be too large for it.
    s.select_lt(u, zero, s.scale_by_pow2(y, n), y)
}

/// `tanh(x)`.
#[inline(always)]
fn tanh<S: Simd>(s: S, x: S::V) -> S::V {
    // Below 0.625 the odd polynomial (a minimax fit), above it 1 - 2 / (exp(2|x|) + 1),
    // which would cancel near 0.
    let (one, two) = (s.splat(1.0), s.splat(2.0));
    let square = s.mul(x, x);
    let p =
        polynomial!(s, square, -0.005_704_987_3, 0.020_639_088, -0.053_739_715, 0.133_314_42, -0.333_332_8);
    let small = s.mul_add(s.mul(x, square), p, x);

    let t = abs(s, x);
    let e = exp(s, s.mul(t, two));
    let large = s.sub(one, s.div(two, s.add(e, one)));
    let large = s.select_lt(x, s.splat(0.0), s.neg(large), large);
    s.select_lt(t, s.splat(0.625), small, large)
}

/// `x Φ(x)`.
#[inline(always)]
fn gelu_erf<S: Simd>(s: S, x: S::V) -> S::V {
    // With t = |x|, Φ(-t) = exp(-t²/2) R(t), where R falls slowly from 1/2 like 1/t (it
    // is half the scaled complementary error function of t/√2). Then
    //     x < 0:  -t Φ(-t)
    //     x >= 0:  x - t Φ(-t)
    // R is a rational fit on 0..16, off by 2^-27, whose coefficients are all positive:
    // nothing cancels. At 16 the tail is 0 to f32.
    let t = s.min(s.splat(16.0), abs(s, x));
    let (square, rest) = square(s, t);
    let minus_half = s.splat(-0.5);
    let exponent = s.mul(square, minus_half);
    let (r, n) = reduced(s, exponent);
    let p = zero_below(s, exponent, -104.0, exp_near_0(s, s.mul_add(rest, minus_half, r)));
    let above = polynomial!(s, t, 0.004_222_137_3, 0.041_341_75, 0.185_329_32, 0.441_108_8, 0.5);
    let below = polynomial!(s, t, 0.010_583_231, 0.103_633_94, 0.475_000_95, 1.211_181, 1.680_102_6, 1.0);
    let tail = s.scale_by_pow2(s.mul(s.mul(t, s.div(above, below)), p), n);
    s.sub(s.max(s.splat(0.0), x), tail)
}

/// `x²` as a rounded number and what rounding left.
#[inline(always)]
fn square<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    let square = s.mul(x, x);
    let minus = s.neg(square);
    if S::FUSED {
        return (square, s.mul_add(x, x, minus));
    }
    // Without a fused product (Dekker 1971): the halves of x have so few bits that
    // their products are exact.
    let c = s.mul(x, s.splat(4097.0));
    let high = s.sub(c, s.sub(c, x));
    let low = s.sub(x, high);
    let cross = s.mul(s.add(high, high), low);
    (square, s.add(s.add(s.add(s.mul(high, high), minus), cross), s.mul(low, low)))
}

/// `x σ(2 √(2/π) (x + 0.044715 x³))`.
#[inline(always)]
fn gelu_tanh<S: Simd>(s: S, x: S::V) -> S::V {
    // Beyond 30 either way σ is 0 or 1, and the cube must not overflow.
    let t = s.min(s.splat(30.0), s.max(s.splat(-30.0), x));
    let cubic = s.mul_add(s.mul(t, t), s.splat(0.044_715 * 1.595_769_2), s.splat(1.595_769_2));
    gate(s, x, s.mul(t, cubic))
}
