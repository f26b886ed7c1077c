//! Floating-point arithmetic (PTX ISA, "Floating Point Instructions").
//!
//! A NaN result of an f32 operation is the canonical 0x7fffffff. The payload of an f64 NaN is the host's. Operations without
//! a rounding modifier are rounded one by one; the assembler may fuse them.

use core::cmp::Ordering;

use super::approx;
use super::exact::{direct32, direct64, sign_of_rest, sign_of_sum};
use super::int;
use crate::instr::{FloatCmp, FloatMode, FloatOp, FloatTy, FloatUnary, Round, Testp};

/// The only NaN that f32 operations return.
pub(super) const NAN32: f32 = f32::from_bits(0x7fff_ffff);

/// Flushes a subnormal number to a zero of its sign, if `ftz`.
pub(super) fn flush(x: f32, ftz: bool) -> f32 {
    if ftz && x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn f32_of(raw: u64, mode: FloatMode) -> f32 {
    flush(f32::from_bits(raw as u32), mode.ftz)
}

/// The bits of an f32 result, after saturation and flushing.
pub(super) fn finish32(x: f32, ftz: bool, sat: bool) -> u64 {
    let x = if sat { saturate(x) } else { x };
    let x = if x.is_nan() { NAN32 } else { flush(x, ftz) };
    u64::from(x.to_bits())
}

/// Clamps to 0..=1; NaN becomes 0.
pub(super) fn saturate(x: f32) -> f32 {
    // A negative zero becomes positive, too.
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

/// An operation of two operands.
#[inline]
pub(super) fn binary(op: FloatOp, mode: FloatMode, a: u64, b: u64) -> u64 {
    match mode.ty {
        FloatTy::F32 => {
            if op == FloatOp::Copysign {
                return (b & 0x7fff_ffff) | (a & 0x8000_0000);
            }
            let (a, b) = (f32_of(a, mode), f32_of(b, mode));
            let result = match (op, mode.round) {
                (FloatOp::Add, Round::Nearest) => a + b,
                (FloatOp::Sub, Round::Nearest) => a - b,
                (FloatOp::Mul, Round::Nearest) => a * b,
                (FloatOp::Div, Round::Nearest) => a / b,
                (FloatOp::DivApprox, _) => approx::divide(a, b),
                (FloatOp::DivFull, _) => (f64::from(a) / f64::from(b)) as f32,
                (FloatOp::Min { nan }, _) => extreme(a, b, nan, a < b || (a == b && a.is_sign_negative())),
                (FloatOp::Max { nan }, _) => extreme(a, b, nan, a > b || (a == b && a.is_sign_positive())),
                _ => directed_binary32(op, mode.round, a, b),
            };
            finish32(result, mode.ftz, mode.sat)
        }
        FloatTy::F64 => {
            let (a, b) = (f64::from_bits(a), f64::from_bits(b));
            let result = match (op, mode.round) {
                (FloatOp::Add, Round::Nearest) => a + b,
                (FloatOp::Sub, Round::Nearest) => a - b,
                (FloatOp::Mul, Round::Nearest) => a * b,
                (FloatOp::Div, Round::Nearest) => a / b,
                (FloatOp::Copysign, _) => b.copysign(a),
                (FloatOp::Min { nan }, _) => extreme(a, b, nan, a < b || (a == b && a.is_sign_negative())),
                (FloatOp::Max { nan }, _) => extreme(a, b, nan, a > b || (a == b && a.is_sign_positive())),
                _ => directed_binary64(op, mode.round, a, b),
            };
            result.to_bits()
        }
    }
}

/// The smaller or larger of two. Of a number and a NaN it is the number, unless `nan` is set.
fn extreme<T: Copy + PartialOrd + From<f32>>(a: T, b: T, nan: bool, a_wins: bool) -> T {
    let is_nan = |x: T| x.partial_cmp(&x).is_none();
    match (is_nan(a), is_nan(b)) {
        (false, false) => {
            if a_wins {
                a
            } else {
                b
            }
        }
        (true, false) if !nan => b,
        (false, true) if !nan => a,
        _ => T::from(NAN32),
    }
}

/// The sign of `a * b + c - r * s`, exactly.
type Sign = fn(a: f64, b: f64, c: f64, r: f64, s: f64) -> Ordering;

/// For f32 numbers: `r` is the rounded result. For two products: their difference is rounded with the right sign.
fn sign32(a: f64, b: f64, c: f64, r: f64, s: f64) -> Ordering {
    sign_of_rest(a * b, c, r * s)
}

fn sign64(a: f64, b: f64, c: f64, r: f64, s: f64) -> Ordering {
    sign_of_sum(&[(a, b), (c, 1.0), (-r, s)])
}

/// Compares the exact value with the rounded `r` if `r` has overflowed or an operand is not finite.
fn unbounded(r: f64, operands: &[f64]) -> Option<Ordering> {
    if r.is_nan() || operands.iter().any(|x| !x.is_finite()) {
        return Some(Ordering::Equal);
    }
    r.is_infinite().then_some(if r > 0.0 { Ordering::Less } else { Ordering::Greater })
}

/// Compares the exact result of `a op b` with the rounded `r`.
fn compare(sign: Sign, op: FloatOp, a: f64, b: f64, r: f64) -> Ordering {
    // A division by zero is exactly infinite.
    if op == FloatOp::Div && b == 0.0 {
        return Ordering::Equal;
    }
    unbounded(r, &[a, b]).unwrap_or_else(|| match op {
        FloatOp::Mul => sign(a, b, 0.0, r, 1.0),
        FloatOp::Div if b < 0.0 => sign(a, 1.0, 0.0, r, b).reverse(),
        FloatOp::Div => sign(a, 1.0, 0.0, r, b),
        FloatOp::Sub => sign(a, 1.0, -b, r, 1.0),
        _ => sign(a, 1.0, b, r, 1.0),
    })
}

/// Whether an exact zero sum of `x` and `y` is negative: when rounding down, unless both are positive.
fn is_negative_zero(round: Round, x: f64, y: f64) -> bool {
    round == Round::Down && !(x.is_sign_positive() && y.is_sign_positive())
}

macro_rules! directed {
    ($binary:ident, $fma:ident, $sqrt:ident, $float:ty, $direct:ident, $sign:ident) => {
        fn $binary(op: FloatOp, round: Round, a: $float, b: $float) -> $float {
            let nearest = match op {
                FloatOp::Mul => a * b,
                FloatOp::Div => a / b,
                FloatOp::Sub => a - b,
                _ => a + b,
            };
            let (wide_a, wide_b) = (f64::from(a), f64::from(b));
            let order = compare($sign, op, wide_a, wide_b, f64::from(nearest));
            let addend = if op == FloatOp::Sub { -wide_b } else { wide_b };
            let is_sum = matches!(op, FloatOp::Add | FloatOp::Sub);
            if is_sum && nearest == 0.0 && order == Ordering::Equal && is_negative_zero(round, wide_a, addend)
            {
                return -0.0;
            }
            $direct(nearest, order, round)
        }

        /// `a * b + c`, rounded once.
        pub(super) fn $fma(round: Round, a: $float, b: $float, c: $float) -> $float {
            let nearest = a.mul_add(b, c);
            if round == Round::Nearest {
                return nearest;
            }
            let (a, b, c, r) = (f64::from(a), f64::from(b), f64::from(c), f64::from(nearest));
            let order = unbounded(r, &[a, b, c]).unwrap_or_else(|| $sign(a, b, c, r, 1.0));
            let product = if (a.is_sign_negative()) != b.is_sign_negative() { -0.0 } else { 0.0 };
            if nearest == 0.0 && order == Ordering::Equal && is_negative_zero(round, product, c) {
                return -0.0;
            }
            $direct(nearest, order, round)
        }

        fn $sqrt(round: Round, a: $float) -> $float {
            let nearest = a.sqrt();
            if round == Round::Nearest || !nearest.is_finite() {
                return nearest;
            }
            let (a, r) = (f64::from(a), f64::from(nearest));
            $direct(nearest, $sign(a, 1.0, 0.0, r, r), round)
        }
    };
}
directed!(directed_binary32, fma32, sqrt32, f32, direct32, sign32);
directed!(directed_binary64, fma64, sqrt64, f64, direct64, sign64);

#[inline]
pub(super) fn fma(mode: FloatMode, a: u64, b: u64, c: u64) -> u64 {
    match mode.ty {
        FloatTy::F32 => {
            let result = fma32(mode.round, f32_of(a, mode), f32_of(b, mode), f32_of(c, mode));
            finish32(result, mode.ftz, mode.sat)
        }
        FloatTy::F64 => fma64(mode.round, f64::from_bits(a), f64::from_bits(b), f64::from_bits(c)).to_bits(),
    }
}

pub(super) fn unary(op: FloatUnary, mode: FloatMode, raw: u64) -> u64 {
    match mode.ty {
        FloatTy::F32 => {
            let a = f32_of(raw, mode);
            let result = match op {
                FloatUnary::Neg => -a,
                FloatUnary::Abs => a.abs(),
                FloatUnary::Sqrt => sqrt32(mode.round, a),
                FloatUnary::Rcp if mode.round == Round::Nearest => 1.0 / a,
                FloatUnary::Rcp => directed_binary32(FloatOp::Div, mode.round, 1.0, a),
                _ => approx::unary32(op, a),
            };
            finish32(result, mode.ftz, false)
        }
        FloatTy::F64 => {
            let a = f64::from_bits(raw);
            let result = match op {
                // PTX leaves a NaN open; a GPU keeps the payload, but neither the sign nor a signalling NaN.
                FloatUnary::Neg | FloatUnary::Abs if a.is_nan() => f64::from_bits(raw & !(1 << 63) | 1 << 51),
                FloatUnary::Neg => -a,
                FloatUnary::Abs => a.abs(),
                FloatUnary::Sqrt => sqrt64(mode.round, a),
                FloatUnary::Rcp if mode.round == Round::Nearest => 1.0 / a,
                FloatUnary::Rcp => directed_binary64(FloatOp::Div, mode.round, 1.0, a),
                _ => approx::unary64(op, mode.ftz, a),
            };
            result.to_bits()
        }
    }
}

#[inline]
pub(super) fn setp(cmp: FloatCmp, ty: FloatTy, ftz: bool, a: u64, b: u64) -> bool {
    let (a, b) = match ty {
        FloatTy::F32 => {
            let wide = |raw: u64| f64::from(flush(f32::from_bits(raw as u32), ftz));
            (wide(a), wide(b))
        }
        FloatTy::F64 => (f64::from_bits(a), f64::from_bits(b)),
    };
    let has_nan = a.is_nan() || b.is_nan();
    match cmp {
        FloatCmp::Num => !has_nan,
        FloatCmp::Nan => has_nan,
        FloatCmp::Ordered(cmp) => !has_nan && int::ordered(cmp, &a, &b),
        FloatCmp::Unordered(cmp) => has_nan || int::ordered(cmp, &a, &b),
    }
}

pub(super) fn testp(test: Testp, ty: FloatTy, raw: u64) -> bool {
    let class = match ty {
        FloatTy::F32 => f32::from_bits(raw as u32).classify(),
        FloatTy::F64 => f64::from_bits(raw).classify(),
    };
    use core::num::FpCategory::{Infinite, Nan, Normal, Subnormal};
    match test {
        Testp::Finite => !matches!(class, Infinite | Nan),
        Testp::Infinite => class == Infinite,
        Testp::Number => class != Nan,
        Testp::NotANumber => class == Nan,
        Testp::Normal => class == Normal,
        Testp::Subnormal => class == Subnormal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_way_for_f32_is_exact() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            // Covers all exponents. Every third value has few bits, so that sums cancel or are exact.
            let bits = (state >> 32) as u32;
            f32::from_bits(if bits.is_multiple_of(3) { bits & 0xfff0_0000 } else { bits })
        };
        for _ in 0..200_000 {
            let [a, b, c] = [next(), next(), next()];
            let [wide_a, wide_b, wide_c] = [a, b, c].map(f64::from);
            let agree = |r: f32, [a, b, c]: [f64; 3], s: f64| {
                let r = f64::from(r);
                if unbounded(r, &[a, b, c, s]).is_none() {
                    assert_eq!(
                        sign32(a, b, c, r, s),
                        sign64(a, b, c, r, s),
                        "{a:e} * {b:e} + {c:e} - {r:e} * {s:e}"
                    );
                }
            };
            agree(a.mul_add(b, c), [wide_a, wide_b, wide_c], 1.0);
            agree(a + c, [wide_a, 1.0, wide_c], 1.0);
            agree(a * b, [wide_a, wide_b, 0.0], 1.0);
            agree(a / b, [wide_a, 1.0, 0.0], wide_b);
            agree(a.abs().sqrt(), [wide_a.abs(), 1.0, 0.0], f64::from(a.abs().sqrt()));
        }
    }
}
