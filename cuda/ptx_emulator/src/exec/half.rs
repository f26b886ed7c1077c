//! 16-bit numbers (PTX ISA, "Half Precision Floating Point Instructions" and "cvt").
//!
//! A NaN becomes the canonical one of its type: 0x7fff for 16 bits, 0x7fffffff for f32.

use super::float::{self, NAN32, flush};
use crate::instr::{CvtHalf, FloatMode, FloatTy, HalfExtreme, HalfTy, Round};

/// The bits of the result of converting `a`, and `b` for a pair.
pub(super) fn convert(cvt: CvtHalf, ftz: bool, a: u64, b: u64) -> u64 {
    let narrow = |ty, round, raw: u64| narrow(ty, round, flush(f32::from_bits(raw as u32), ftz));
    match cvt {
        CvtHalf::Widen(ty) => u64::from(widen(ty, a as u16).to_bits()),
        CvtHalf::Narrow(ty, round) => narrow(ty, round, a),
        // The first operand is the upper half.
        CvtHalf::Pack(ty, round) => narrow(ty, round, a) << 16 | narrow(ty, round, b),
    }
}

/// The smaller or larger of two numbers, or of two pairs.
pub(super) fn extreme(kind: HalfExtreme, a: u64, b: u64) -> u64 {
    let mode = FloatMode { ty: FloatTy::F32, round: Round::Nearest, ftz: false, sat: false };
    // The result is one of the numbers, and f32 can represent all of them.
    let one = |a: u64, b: u64| {
        let wide = |raw: u64| u64::from(widen(kind.ty, raw as u16).to_bits());
        let result = float::binary(kind.op, mode, wide(a), wide(b));
        narrow(kind.ty, Round::Nearest, f32::from_bits(result as u32))
    };
    if kind.packed { one(a >> 16, b >> 16) << 16 | one(a, b) } else { one(a, b) }
}

/// Bits of the fraction, and the exponent of the smallest normal number.
fn format(ty: HalfTy) -> (u32, i32) {
    match ty {
        HalfTy::F16 => (10, -14),
        HalfTy::Bf16 => (7, -126),
    }
}

pub(super) fn widen(ty: HalfTy, bits: u16) -> f32 {
    let (fraction_bits, lowest) = format(ty);
    let magnitude = u32::from(bits & 0x7fff);
    let (field, fraction) = (magnitude >> fraction_bits, magnitude & ((1 << fraction_bits) - 1));
    let value = if field == (0x7fff >> fraction_bits) {
        if fraction == 0 { f32::INFINITY } else { return NAN32 }
    } else {
        // A subnormal number has the exponent of the smallest normal one, and no implicit bit.
        let whole = if field == 0 { fraction } else { fraction | 1 << fraction_bits };
        let exponent = lowest + field.max(1) as i32 - 1 - fraction_bits as i32;
        (f64::from(whole) * 2f64.powi(exponent)) as f32
    };
    if bits >> 15 == 1 { -value } else { value }
}

fn narrow(ty: HalfTy, round: Round, x: f32) -> u64 {
    let (fraction_bits, lowest) = format(ty);
    let infinity = 0x8000 - (1u64 << fraction_bits);
    let sign = u64::from(x.is_sign_negative()) << 15;
    if x.is_nan() {
        return 0x7fff;
    } else if x.is_infinite() {
        return sign | infinity;
    }
    // In units of the last place. A normal number is at least 2^fraction_bits and less than twice that.
    let magnitude = f64::from(x.abs());
    let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(lowest);
    let units = magnitude / 2f64.powi(exponent - fraction_bits as i32);
    let is_outward = match round {
        Round::Nearest | Round::Zero => false,
        Round::Up => sign == 0,
        Round::Down => sign != 0,
    };
    let rounded = match round {
        Round::Nearest => units.round_ties_even(),
        _ if is_outward => units.ceil(),
        _ => units.floor(),
    };
    // The implicit bit and a carry add one to the exponent's field.
    let bits = (((exponent - lowest) as u64) << fraction_bits) + rounded as u64;
    let largest = if round == Round::Nearest || is_outward { infinity } else { infinity - 1 };
    sign | bits.min(largest)
}
