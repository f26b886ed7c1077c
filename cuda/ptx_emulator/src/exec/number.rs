//! Floating-point numbers of all widths. The NaN that 16-bit operations return is 0x7fff; that of f32, 0x7fffffff.

use std::sync::OnceLock;

use crate::instr::{Kind, Round, Ty};

/// The only NaN that f32 operations return.
pub(crate) const NAN32: f32 = f32::from_bits(0x7fff_ffff);

/// The bits of an f32 result.
pub(crate) fn bits_of(x: f32) -> u64 {
    u64::from(if x.is_nan() { NAN32.to_bits() } else { x.to_bits() })
}

/// Flushes a subnormal number to a zero of its sign, if `ftz`.
pub(crate) fn flush(x: f32, ftz: bool) -> f32 {
    if ftz && x.is_subnormal() { 0f32.copysign(x) } else { x }
}

/// The bits that a number uses.
pub(crate) fn used(ty: Ty) -> u64 {
    if ty == Ty::TF32 { 0xffff_e000 } else { ty.mask() }
}

/// The number in the low bits of `raw`.
#[inline]
pub(crate) fn number(ty: Ty, raw: u64) -> f64 {
    match (ty.kind, ty.bits) {
        (Kind::Bf16, _) => f64::from(f32::from_bits((raw as u32 & 0xffff) << 16)),
        (Kind::Tf32, _) => f64::from(f32::from_bits(raw as u32 & !0x1fff)),
        (Kind::E4m3, _) => e4m3(raw as u8),
        (_, 16) => f64::from(halves()[raw as usize & 0xffff]),
        (_, 32) => f64::from(f32::from_bits(raw as u32)),
        _ => f64::from_bits(raw),
    }
}

/// The f16 values of all 16-bit patterns.
fn halves() -> &'static [f32] {
    static HALVES: OnceLock<Vec<f32>> = OnceLock::new();
    let half = |bits: u16| {
        let (field, fraction) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
        let magnitude = match (field, bits & 0x3ff) {
            (0x1f, 0) => f64::INFINITY,
            (0x1f, _) => f64::NAN,
            // A subnormal number has the exponent of the smallest normal one, and no implicit bit.
            (0, _) => fraction * 2f64.powi(-24),
            _ => (1024.0 + fraction) * 2f64.powi(field - 25),
        };
        (if bits >> 15 == 1 { -magnitude } else { magnitude }) as f32
    };
    HALVES.get_or_init(|| (0..=u16::MAX).map(half).collect())
}

/// A sign, four bits of exponent with bias 7, and three of fraction. There is one NaN and no infinity.
fn e4m3(bits: u8) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 3 & 15), f64::from(bits & 7));
    let magnitude = match (exponent, bits & 7) {
        (15, 7) => f64::NAN,
        (0, _) => fraction * 2f64.powi(-9),
        _ => (8.0 + fraction) * 2f64.powi(exponent - 10),
    };
    if bits >> 7 == 1 { -magnitude } else { magnitude }
}

/// Rounds to a number of 16 bits.
pub(crate) fn narrow(ty: Ty, round: Round, x: f32) -> u64 {
    // Bits of the fraction, and the exponent of the smallest normal number.
    let (fraction_bits, lowest) = if ty.kind == Kind::Bf16 { (7, -126) } else { (10, -14) };
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
    let units = magnitude / 2f64.powi(exponent - fraction_bits);
    let is_outward = round == Round::Up && sign == 0 || round == Round::Down && sign != 0;
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

/// `cvt.rna.tf32.f32`: rounds to 11 bits of precision, ties away from zero.
pub(crate) fn to_tf32(raw: u64) -> u64 {
    let x = f32::from_bits(raw as u32);
    if x.is_nan() {
        return u64::from(NAN32.to_bits() & !0x1fff);
    } else if x.is_infinite() {
        return raw;
    }
    // In units of the last place. A subnormal number has the exponent of the smallest normal one.
    let exponent = (x.abs().to_bits() >> 23).max(1) as i32 - 127 - 10;
    let unit = 2f64.powi(exponent);
    let rounded = (f64::from(x) / unit).round() * unit;
    u64::from((rounded as f32).to_bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_eight_and_of_19_bits() {
        let tf32 = |x: f32| number(Ty::TF32, u64::from(x.to_bits()));
        assert_eq!((tf32(1.0 + 1.0 / 2048.0), tf32(1.0 + 1.0 / 1024.0)), (1.0, 1.0 + 1.0 / 1024.0));
        for (bits, expected) in [
            (0x00, 0.0),
            (0x01, 0.001_953_125),
            (0x08, 0.015_625),
            (0x38, 1.0),
            (0x3c, 1.5),
            (0xb8, -1.0),
            (0x7e, 448.0),
        ] {
            assert_eq!(e4m3(bits), expected, "{bits:#04x}");
        }
        assert!(e4m3(0x7f).is_nan() && e4m3(0xff).is_nan());
    }
}
