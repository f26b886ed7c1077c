//! Approximate instructions, computed in f64 and rounded: within the ISA's error bounds, not bit-identical to the hardware.

use crate::instr::FloatUnary;

/// `div.approx.f32`, including the range of divisors for which the ISA gives no quotient.
pub(super) fn divide(a: f32, b: f32) -> f32 {
    let is_huge = b.is_finite() && b.abs() > f32::from_bits(0x7e80_0000);
    match (is_huge, a.is_finite()) {
        // The reciprocal of a divisor above 2^126 is subnormal.
        (true, true) => 0f32.copysign(a * b.signum()),
        (true, false) => f32::NAN,
        _ => (f64::from(a) / f64::from(b)) as f32,
    }
}

pub(super) fn unary32(op: FloatUnary, a: f32) -> f32 {
    let x = f64::from(a);
    let result = match op {
        FloatUnary::RcpApprox => 1.0 / x,
        FloatUnary::SqrtApprox => x.sqrt(),
        FloatUnary::RsqrtApprox => 1.0 / x.sqrt(),
        FloatUnary::Ex2 => x.exp2(),
        FloatUnary::Lg2 => x.log2(),
        FloatUnary::Sin => x.sin(),
        FloatUnary::Cos => x.cos(),
        // The other operations are exact and handled in `float.rs`.
        _ => x.tanh(),
    };
    result as f32
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx{.ftz}.f64`: a coarse result whose lower half is zero.
pub(super) fn unary64(op: FloatUnary, ftz: bool, a: f64) -> f64 {
    let coarse = |x: f64| f64::from_bits(x.to_bits() & 0xffff_ffff_0000_0000);
    let flush = |x: f64| if ftz && x.is_subnormal() { 0f64.copysign(x) } else { x };
    if !ftz {
        return 1.0 / a.sqrt();
    }
    // The lower half of the operand is ignored; a NaN stays one.
    let x = if a.is_nan() { a } else { flush(coarse(a)) };
    let result = if op == FloatUnary::RcpApprox { 1.0 / x } else { 1.0 / x.sqrt() };
    if result.is_nan() { result } else { flush(coarse(result)) }
}
