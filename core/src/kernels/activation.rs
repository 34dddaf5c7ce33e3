//! Activations: right to a few units in the last place, and no NaN from finite input.
//!
//! All are built on `exp`, kept in two parts where its power of two must come last:
//! a factor times a denormal would be wrong in most of its bits.
//!
//! How far each is off: [`numerics`](crate::numerics).

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

/// `(r, n)` with `exp(x) = exp(r) 2^n`: `|r|` below 0.3475 and `n` whole, for `x` in -150..=89.
#[inline(always)]
fn reduced<S: Simd>(s: S, x: S::V) -> (S::V, S::V) {
    // r = x - n ln 2 in two steps (Cody and Waite): the first part of ln 2 is so short
    // that its product is exact. Adding 1.5 * 2^23 rounds to a whole number.
    let big = s.splat(12_582_912.0);
    let n = s.sub(s.mul_add(x, s.splat(core::f32::consts::LOG2_E), big), big);
    let r = s.mul_add(n, s.splat(-0.693_359_4), x);
    (s.mul_add(n, s.splat(2.121_944_4e-4), r), n)
}

/// `(exp(r) - 1 - r) / r²` for `|r|` below 0.3475: a minimax fit, of which `exp` is off by 2^-28.
#[inline(always)]
fn exp_beyond_2_terms<S: Simd>(s: S, r: S::V) -> S::V {
    polynomial!(s, r, 0.001_381_422_2, 0.008_368_899, 0.041_668_404, 0.166_665_2, 0.499_999_94)
}

/// `exp(r) - 1` for `|r|` below 0.3475. A product with `exp(r)` is better as
/// `x + x (exp(r) - 1)`: the 1 has no part in rounding.
#[inline(always)]
fn expm1_near_0<S: Simd>(s: S, r: S::V) -> S::V {
    s.mul_add(s.mul(r, r), exp_beyond_2_terms(s, r), r)
}

/// `exp(r)` for `|r|` below 0.3475: within 0.7..1.42.
#[inline(always)]
fn exp_near_0<S: Simd>(s: S, r: S::V) -> S::V {
    let one = s.splat(1.0);
    if S::FUSED {
        // One step less, as good.
        return s.mul_add(r, s.mul_add(r, exp_beyond_2_terms(s, r), one), one);
    }
    s.add(expm1_near_0(s, r), one)
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
    let (r, n) = reduced(s, at_least_150_below_0(s, x));
    // Below -104 it is 0 to `f32`. To find that by scaling takes the CPU a hundred times as
    // long, and masked scores are all like that.
    s.scale_by_pow2(s.select_lt(x, s.splat(-104.0), s.splat(0.0), exp_near_0(s, r)), n)
}

/// `x` where it is at least -150; the exponential of both is 0 to `f32` beyond.
#[inline(always)]
fn at_least_150_below_0<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.splat(-150.0), x)
}

#[inline(always)]
fn relu<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.splat(0.0), x)
}

/// `|x|`.
#[inline(always)]
fn abs<S: Simd>(s: S, x: S::V) -> S::V {
    s.max(s.neg(x), x)
}

/// `x σ(x)`.
#[inline(always)]
fn silu<S: Simd>(s: S, x: S::V) -> S::V {
    let below = at_least_150_below_0(s, s.neg(abs(s, x)));
    let (r, n) = reduced(s, below);
    gate(s, x, below, r, n)
}

/// `x σ(u)` for `u` of the sign of `x` and `exp(-|u|) = exp(r) 2^n`, where `below` is -|u|.
#[inline(always)]
fn gate<S: Simd>(s: S, x: S::V, below: S::V, r: S::V, n: S::V) -> S::V {
    // With e = exp(-|u|), which cannot overflow: x / (1 + e), and for negative u
    // x e / (1 + e), whose power of two comes last. There x may stop at -1000: its
    // gate is 0 by then.
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    // From 110 on, the gate is 0 or 1 to `f32`.
    let p = s.select_lt(below, s.splat(-110.0), s.splat(-1.0), expm1_near_0(s, r));
    let e = s.scale_by_pow2(s.add(p, one), n);
    let x = s.max(s.splat(-1000.0), x);
    let y = s.div(s.select_lt(x, zero, s.mul_add(x, p, x), x), s.add(one, e));
    // Only the negative side is scaled: the other may be too large for it.
    s.select_lt(x, zero, s.scale_by_pow2(y, n), y)
}

/// `1 / (1 + exp(-x))`.
#[inline(always)]
fn sigmoid<S: Simd>(s: S, x: S::V) -> S::V {
    // As `gate`, with what rounding left of 1 + e: y / (d + left) is near y - y left / d,
    // for which a line through 1 / d will do.
    let (zero, one) = (s.splat(0.0), s.splat(1.0));
    let below = at_least_150_below_0(s, s.neg(abs(s, x)));
    let (r, n) = reduced(s, below);
    let p = s.select_lt(below, s.splat(-104.0), zero, exp_near_0(s, r));
    let e = s.scale_by_pow2(p, n);
    let d = s.add(one, e);
    let left = s.sub(e, s.sub(d, one));
    let y = s.div(s.select_lt(x, zero, p, one), d);
    let share = s.mul(left, s.mul_add(d, s.splat(-8.0 / 17.0), s.splat(24.0 / 17.0)));
    let y = s.mul_add(s.neg(y), share, y);
    s.select_lt(x, zero, s.scale_by_pow2(y, n), y)
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
    // R is B / (√(2π) t B + A), a rational fit: what rounding does to t B is above and below,
    // and goes away for large t. All coefficients are positive: nothing cancels. At 16 the
    // tail is 0 to f32.
    let t = s.min(s.splat(16.0), abs(s, x));
    let (square, left) = square(s, t);
    let minus_half = s.splat(-0.5);
    let exponent = s.mul(square, minus_half);
    let (r, n) = reduced(s, exponent);
    let p = expm1_near_0(s, s.mul_add(left, minus_half, r));
    // As in `exp_below_89`.
    let p = s.select_lt(exponent, s.splat(-104.0), s.splat(-1.0), p);
    let above = s.mul(
        t,
        polynomial!(s, t, 0.001_849_118_2, 0.022_204_66, 0.127_383_37, 0.422_903_54, 0.812_615_7, 0.75),
    );
    let a = polynomial!(s, t, 0.004_635_543_6, 0.055_634_46, 0.310_559_12, 0.942_087, 1.5);
    let ratio = s.div(above, s.mul_add(above, s.splat(2.506_628_3), a));
    let tail = s.scale_by_pow2(s.mul_add(ratio, p, ratio), n);
    s.sub(s.max(s.splat(0.0), x), tail)
}

/// `x σ(2 √(2/π) (x + 0.044715 x³))`.
#[inline(always)]
fn gelu_tanh<S: Simd>(s: S, x: S::V) -> S::V {
    // From 11 on either way σ is 0 or 1.
    let (u, left) = cubic(s, s.min(s.splat(11.0), abs(s, x)));
    let below = s.neg(u);
    let (r, n) = reduced(s, below);
    gate(s, x, below, s.sub(r, left), n)
}

/// `t²` for `t` in 0..=16, as a rounded number and what rounding left.
#[inline(always)]
fn square<S: Simd>(s: S, t: S::V) -> (S::V, S::V) {
    if S::FUSED {
        let square = s.mul(t, t);
        return (square, s.mul_add(t, t, s.neg(square)));
    }
    // Without a fused product, by a head so short that its square is exact.
    let (head, tail) = head(s, t);
    sum(s, s.mul(head, head), s.mul(tail, s.add(t, head)))
}

/// `2 √(2/π) (t + 0.044715 t³)` for `t` in 0..=11, as a rounded number and what rounding left:
/// an exponential makes of a last place of 100 a hundred of its own.
#[inline(always)]
fn cubic<S: Simd>(s: S, t: S::V) -> (S::V, S::V) {
    // t (C + D t²), each constant with what rounding left. C is short, so that a difference
    // of it and what it was added to is exact.
    let (c, c_left) = (s.splat(1.595_769_9), s.splat(-7.605_964_4e-7));
    let (d, d_left) = (s.splat(0.071_354_814), s.splat(2.398_832_5e-9));
    if S::FUSED {
        let (square, left) = square(s, t);
        let slope = s.mul_add(square, d, c);
        let constants = s.mul_add(left, d, s.mul_add(square, d_left, c_left));
        let left = s.add(s.mul_add(square, d, s.sub(c, slope)), constants);
        let u = s.mul(t, slope);
        return (u, s.mul_add(t, left, s.mul_add(t, slope, s.neg(u))));
    }
    // With t = head + tail: head (C + D head²) + tail (C + 3 D head t), but for a tail³ too
    // small to matter. C + D head² is a short number, by which the product is exact, and the
    // rest, for which D is 9/128 and a rest: that product is exact, too.
    let (head, tail) = head(s, t);
    let square = s.mul(head, head);
    let big = s.splat(24_576.0);
    let short = s.sub(s.add(s.mul_add(square, d, c), big), big);
    let rest = s.mul_add(square, s.splat(9.0 / 128.0), s.sub(c, short));
    let rest = s.add(rest, s.mul_add(square, s.splat(0.001_042_316_3), c_left));
    let slope = s.mul_add(s.mul(head, t), s.splat(3.0 * 0.071_354_814), c);
    sum(s, s.mul(head, short), s.mul_add(head, rest, s.mul(tail, slope)))
}

/// `t` in 0..=16 as a multiple of 2^-7, and what is left.
#[inline(always)]
fn head<S: Simd>(s: S, t: S::V) -> (S::V, S::V) {
    let big = s.splat(98_304.0);
    let head = s.sub(s.add(t, big), big);
    (head, s.sub(t, head))
}

/// `a + b` rounded, and what rounding left, for `|a|` that is not below `|b|`.
#[inline(always)]
fn sum<S: Simd>(s: S, a: S::V, b: S::V) -> (S::V, S::V) {
    let sum = s.add(a, b);
    (sum, s.add(s.sub(a, sum), b))
}
