//! The numbers that `wgmma` multiplies.

use std::sync::OnceLock;

use super::super::half::widen;
use crate::instr::{HalfTy, WgmmaTy};

/// The f16 values of all 16-bit patterns.
fn halves() -> &'static [f32] {
    static HALVES: OnceLock<Vec<f32>> = OnceLock::new();
    HALVES.get_or_init(|| (0..=u16::MAX).map(|bits| widen(HalfTy::F16, bits)).collect())
}

/// The number in the low bits of `raw`.
#[inline]
pub(super) fn number(ty: WgmmaTy, raw: u64) -> f64 {
    match ty {
        WgmmaTy::Half(HalfTy::Bf16) => f64::from(f32::from_bits((raw as u32 & 0xffff) << 16)),
        WgmmaTy::Half(HalfTy::F16) => f64::from(halves()[raw as usize & 0xffff]),
        // tf32 uses only 19 bits.
        WgmmaTy::Tf32 => f64::from(f32::from_bits(raw as u32 & !0x1fff)),
        WgmmaTy::E4m3 => e4m3(raw as u8),
    }
}

/// The bits that an element uses.
pub(super) fn mask(ty: WgmmaTy) -> u64 {
    match ty {
        WgmmaTy::Half(_) => 0xffff,
        WgmmaTy::Tf32 => 0xffff_e000,
        WgmmaTy::E4m3 => 0xff,
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_eight_bits() {
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

    #[test]
    fn numbers_of_tf32_have_ten_bits_of_fraction() {
        assert_eq!(number(WgmmaTy::Tf32, u64::from((1.0f32 + 1.0 / 2048.0).to_bits())), 1.0);
        assert_eq!(number(WgmmaTy::Tf32, u64::from((1.0f32 + 1.0 / 1024.0).to_bits())), 1.0 + 1.0 / 1024.0);
    }
}
