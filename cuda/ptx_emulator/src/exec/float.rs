//! Floating-point arithmetic and conversions (PTX ISA, "Floating Point Instructions", "cvt").
//!
//! A NaN result of an f32 operation is the canonical 0x7fffffff. The payload of an f64 NaN is the host's. Operations without
//! a rounding modifier are rounded one by one; the assembler may fuse them. Approximate instructions are computed in f64 and
//! rounded: within the ISA's error bounds, not bit-identical to the hardware.

use core::num::FpCategory;

use super::exact::{Real, compare, direct};
use super::int::holds;
use super::number::{bits_of, flush, narrow, number};
use crate::instr::{Form, Kind, Round, Ty, flag};

/// Computes in the form's type, with flushed operands.
fn with(f: &Form, raw: [u64; 3], single: impl Fn([f32; 3]) -> f32, double: impl Fn([f64; 3]) -> f64) -> u64 {
    match f.ty.bits {
        32 => finish(f, single(raw.map(|raw| flush(f32::from_bits(raw as u32), f.has(flag::FTZ))))),
        _ => double(raw.map(f64::from_bits)).to_bits(),
    }
}

/// The bits of an f32 result, after saturation and flushing.
fn finish(f: &Form, x: f32) -> u64 {
    let x = if f.has(flag::SAT) { saturate(x) } else { x };
    bits_of(flush(x, f.has(flag::FTZ)))
}

/// Clamps to 0..=1; NaN and a negative zero become zero.
fn saturate(x: f32) -> f32 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

/// The result rounded as the instruction says, of the exact `(a * b + c) / s`; `addends` are those of a sum.
fn rounded<T: Real>(f: &Form, nearest: T, abc: [T; 3], s: T, addends: Option<[T; 2]>) -> T {
    let Some(round @ (Round::Zero | Round::Down | Round::Up)) = f.round else { return nearest };
    let order = compare::<T>(abc.map(Into::into), s.into(), nearest.into());
    // An exact zero sum is negative when rounding down, unless both addends are positive.
    let is_negative = |addends: [T; 2]| addends.map(Into::<f64>::into).iter().any(|x| x.is_sign_negative());
    if order.is_eq() && nearest.is_zero() && round == Round::Down && addends.is_some_and(is_negative) {
        return T::from(-0.0);
    }
    direct(nearest, order, round)
}

/// [`with`] the same expression for both types.
macro_rules! with {
    ($f:expr, $raw:expr, |$operands:pat_param| $result:expr) => {
        with($f, $raw, |$operands: [f32; 3]| $result, |$operands: [f64; 3]| $result)
    };
}

pub(crate) fn add(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    with!(f, [a, b, 0], |[a, b, _]| rounded(f, a + b, [a, 1.0, b], 1.0, Some([a, b])))
}

pub(crate) fn sub(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    with!(f, [a, b, 0], |[a, b, _]| rounded(f, a - b, [a, 1.0, -b], 1.0, Some([a, -b])))
}

pub(crate) fn mul(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    with!(f, [a, b, 0], |[a, b, zero]| rounded(f, a * b, [a, b, zero], 1.0, None))
}

pub(crate) fn div(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    with!(f, [a, b, 0], |[a, b, zero]| rounded(f, a / b, [a, 1.0, zero], b, None))
}

pub(crate) fn reciprocal(f: &Form, a: u64, _: u64, _: u64) -> u64 {
    with!(f, [a, 0, 0], |[a, zero, _]| rounded(f, 1.0 / a, [1.0, 1.0, zero], a, None))
}

pub(crate) fn root(f: &Form, a: u64, _: u64, _: u64) -> u64 {
    with!(f, [a, 0, 0], |[a, zero, _]| rounded(f, a.sqrt(), [a, 1.0, zero], a.sqrt(), None))
}

#[inline]
pub(crate) fn fma(f: &Form, a: u64, b: u64, c: u64) -> u64 {
    with!(f, [a, b, c], |[a, b, c]| {
        let product = if a.is_sign_negative() == b.is_sign_negative() { 0.0 } else { -0.0 };
        rounded(f, a.mul_add(b, c), [a, b, c], 1.0, Some([product, c]))
    })
}

/// `neg` and `abs`. PTX leaves a NaN open; a GPU keeps the payload, but neither the sign nor a signalling NaN.
pub(crate) fn sign(f: &Form, a: u64, single: fn(f32) -> f32, double: fn(f64) -> f64) -> u64 {
    let quiet = |x: f64| f64::from_bits(x.to_bits() & !(1 << 63) | 1 << 51);
    with(f, [a, 0, 0], |[a, ..]| single(a), |[a, ..]| if a.is_nan() { quiet(a) } else { double(a) })
}

/// The smaller or larger of two. Of a number and a NaN it is the number, unless the instruction has `.NaN`.
fn extreme<T: Copy + PartialOrd + From<f32>>(f: &Form, a: T, b: T, a_wins: bool) -> T {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    match (is_nan(a), is_nan(b)) {
        (false, false) => {
            if a_wins {
                a
            } else {
                b
            }
        }
        (true, false) if !f.has(flag::NAN) => b,
        (false, true) if !f.has(flag::NAN) => a,
        _ => T::from(super::number::NAN32),
    }
}

pub(crate) fn min(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    with!(f, [a, b, 0], |[a, b, _]| extreme(f, a, b, a < b || (a == b && a.is_sign_negative())))
}

pub(crate) fn max(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    with!(f, [a, b, 0], |[a, b, _]| extreme(f, a, b, a > b || (a == b && a.is_sign_positive())))
}

/// `min` or `max` of two numbers of 16 bits. The result is one of the numbers, and f32 can represent all of them.
pub(crate) fn of_halves(f: &Form, a: u64, b: u64, of: fn(&Form, u64, u64, u64) -> u64) -> u64 {
    let wide = |raw: u64| u64::from((number(f.ty, raw & 0xffff) as f32).to_bits());
    let single = Form { ty: Ty { bits: 32, kind: Kind::Float }, ..*f };
    narrow(f.ty, Round::Nearest, f32::from_bits(of(&single, wide(a), wide(b), 0) as u32))
}

/// An approximate function.
pub(crate) fn approximate(f: &Form, a: u64, of: fn(f64) -> f64) -> u64 {
    with(f, [a, 0, 0], |[a, ..]| of(f64::from(a)) as f32, |[a, ..]| of(a))
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: a coarse result whose lower half is zero.
pub(crate) fn coarse(a: u64, of: fn(f64) -> f64) -> u64 {
    let coarse = |x: f64| f64::from_bits(x.to_bits() & 0xffff_ffff_0000_0000);
    let flush = |x: f64| if x.is_subnormal() { 0f64.copysign(x) } else { x };
    // The lower half of the operand is ignored; a NaN stays one.
    let a = f64::from_bits(a);
    let result = of(if a.is_nan() { a } else { flush(coarse(a)) });
    if result.is_nan() { result } else { flush(coarse(result)) }.to_bits()
}

/// `div.approx.f32`, including the range of divisors for which the ISA gives no quotient.
pub(crate) fn divide_approximately(f: &Form, a: u64, b: u64, _: u64) -> u64 {
    let divide = |[a, b, _]: [f32; 3]| {
        let is_huge = b.is_finite() && b.abs() > f32::from_bits(0x7e80_0000);
        match (is_huge, a.is_finite()) {
            // The reciprocal of a divisor above 2^126 is subnormal.
            (true, true) => 0f32.copysign(a * b.signum()),
            (true, false) => f32::NAN,
            _ => (f64::from(a) / f64::from(b)) as f32,
        }
    };
    with(f, [a, b, 0], divide, |[a, b, _]| a / b)
}

/// Whether a comparison of floats holds: the ordered ones, then those that also hold for a NaN, then `num` and `nan`.
#[inline]
pub(crate) fn compares(f: &Form, a: u64, b: u64) -> bool {
    let [a, b] = [a, b].map(|raw| load(f.ty, f.has(flag::FTZ), raw));
    let has_nan = a.is_nan() || b.is_nan();
    match f.pick[0] {
        ordered @ 0..6 => !has_nan && holds(ordered, &a, &b),
        unordered @ 6..12 => has_nan || holds(unordered - 6, &a, &b),
        12 => !has_nan,
        _ => has_nan,
    }
}

/// `testp`: `finite`, `infinite`, `number`, `notanumber`, `normal`, `subnormal`.
pub(crate) fn test(f: &Form, a: u64, _: u64, _: u64) -> u64 {
    let class =
        if f.ty.bits == 32 { f32::from_bits(a as u32).classify() } else { f64::from_bits(a).classify() };
    u64::from(match f.pick[0] {
        0 => !matches!(class, FpCategory::Infinite | FpCategory::Nan),
        1 => class == FpCategory::Infinite,
        2 => class != FpCategory::Nan,
        3 => class == FpCategory::Nan,
        4 => class == FpCategory::Normal,
        _ => class == FpCategory::Subnormal,
    })
}

fn load(from: Ty, ftz: bool, raw: u64) -> f64 {
    match from.bits {
        32 => f64::from(flush(f32::from_bits(raw as u32), ftz)),
        _ => f64::from_bits(raw),
    }
}

fn integral(f: &Form, x: f64) -> f64 {
    match f.round {
        Some(Round::Nearest) => x.round_ties_even(),
        Some(Round::Zero) => x.trunc(),
        Some(Round::Down) => x.floor(),
        Some(Round::Up) => x.ceil(),
        None => x,
    }
}

/// `cvt` of a float to an integer.
pub(crate) fn to_integer(f: &Form, a: u64, _: u64, _: u64) -> u64 {
    let x = load(f.from, f.has(flag::FTZ), a);
    let value = if x.is_nan() {
        // Zero, or only the highest bit if either side has 64 bits.
        if f.from.bits == 64 || f.ty.bits == 64 { 1 << (f.ty.bits - 1) } else { 0 }
    } else {
        // Rust's conversion of a float to an integer saturates like the device's.
        let (min, max) = f.ty.limits();
        (integral(f, x) as i128).clamp(min, max) as u64
    };
    f.ty.extend(value)
}

/// `cvt` of an integer to a float. The result is finite: 2^64 is far below the largest f32.
pub(crate) fn from_integer(f: &Form, a: u64, _: u64, _: u64) -> u64 {
    let (value, round) = (f.from.value(a), f.round.unwrap_or_default());
    if f.ty.bits == 32 {
        let nearest = value as f32;
        return finish(f, direct(nearest, value.cmp(&(nearest as i128)), round));
    }
    let nearest = value as f64;
    let result = direct(nearest, value.cmp(&(nearest as i128)), round);
    if f.has(flag::SAT) { result.clamp(0.0, 1.0) } else { result }.to_bits()
}

/// `cvt` between floats, with a rounding to integral values, or to f32.
pub(crate) fn between(f: &Form, a: u64, rounds: bool) -> u64 {
    let x = load(f.from, f.has(flag::FTZ), a);
    let x = if rounds { x } else { integral(f, x) };
    if f.ty.bits == 32 {
        let nearest = x as f32;
        let excess = || compare::<f64>([x, 1.0, 0.0], 1.0, f64::from(nearest));
        return finish(
            f,
            if rounds { direct(nearest, excess(), f.round.unwrap_or_default()) } else { nearest },
        );
    }
    match f.has(flag::SAT) {
        true => if x.is_nan() { 0f64 } else { x.clamp(0.0, 1.0) + 0.0 }.to_bits(),
        false => x.to_bits(),
    }
}

/// `cvt` of an f32 to 16 bits.
pub(crate) fn to_half(f: &Form, a: u64) -> u64 {
    narrow(f.ty, f.round.unwrap_or_default(), flush(f32::from_bits(a as u32), f.has(flag::FTZ)))
}

/// `atom.add` of floats. Global memory flushes subnormal numbers; shared memory keeps them.
pub(crate) fn atomic_add(f: &Form, old: u64, b: u64, ftz: bool) -> u64 {
    let flags = if ftz { flag::FTZ } else { 0 };
    add(&Form { flags, round: None, ..*f }, old, b, 0)
}
