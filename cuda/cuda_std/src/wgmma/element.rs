//! The types of the elements of A and B.

use crate::half::{bf16, f16};
use crate::mma::tf32;

/// The types that the instruction names.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    F16,
    Bf16,
    Tf32,
    E4m3,
}

/// An 8-bit number: a sign, 4 bits of exponent and 3 of mantissa. It has a NaN and no infinity, and its largest value
/// is 448 (PTX ISA, `.e4m3`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "PTX's own name, as f16 and bf16")]
#[repr(transparent)]
pub struct e4m3(u8);

impl e4m3 {
    /// Converts to the nearest number, ties to even. Larger numbers than 448 become 448.
    #[doc(alias = "cvt.rn.satfinite.e4m3x2.f32")]
    #[inline(always)]
    pub fn from_f32(x: f32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let pair: u16;
            // SAFETY: the instruction only computes a number.
            unsafe {
                core::arch::asm!("cvt.rn.satfinite.e4m3x2.f32 {}, {}, {};", out(reg16) pair, in(reg32) 0f32, in(reg32) x,
                    options(pure, nomem, nostack, preserves_flags));
            }
            Self(pair as u8)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let sign = (x.to_bits() >> 24) as u8 & 0x80;
            let magnitude = x.abs();
            if x.is_nan() {
                return Self(sign | 0x7f);
            }
            // The unit of the number's binade: 2^-9 for subnormal numbers.
            let exponent = ((magnitude.to_bits() >> 23) as i32 - 127).max(-6);
            let units = (magnitude * f32::from_bits(((127 + 3 - exponent.min(8)) as u32) << 23)).min(1e6);
            let rounded = units.round_ties_even() as u32;
            // The mantissa carries into the exponent; subnormal numbers have less than 8 units.
            let bits = ((exponent.min(8) + 6) as u32 * 8 + rounded).min(0x7e);
            Self(sign | bits as u8)
        }
    }

    /// Converts the number exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        let (exponent, mantissa) = (u32::from(self.0 >> 3 & 0xf), u32::from(self.0 & 7));
        let magnitude = match (exponent, mantissa) {
            (0xf, 7) => f32::NAN,
            (0, mantissa) => mantissa as f32 * f32::from_bits((127 - 9) << 23),
            (exponent, mantissa) => f32::from_bits((exponent + 120) << 23 | mantissa << 20),
        };
        if self.0 & 0x80 != 0 { -magnitude } else { magnitude }
    }

    /// Returns its bits.
    #[inline(always)]
    pub fn to_bits(self) -> u8 {
        self.0
    }

    /// Creates the number with these bits.
    #[inline(always)]
    pub fn from_bits(bits: u8) -> Self {
        Self(bits)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::f16 {}
    impl Sealed for super::bf16 {}
    impl Sealed for super::tf32 {}
    impl Sealed for super::e4m3 {}
}

/// An element of A and B: `f16`, `bf16`, [`tf32`] or [`e4m3`].
pub trait Element: Copy + sealed::Sealed {
    /// Columns of A and rows of B that one instruction multiplies: 32 bytes.
    const K: usize = 32 / size_of::<Self>();
    /// Elements in a row of a [`Panel`](super::Panel): 128 bytes.
    const IN_ROW: usize = 128 / size_of::<Self>();
    #[doc(hidden)]
    const NUMBER: Number;
}

/// A 16-bit element, `f16` or `bf16`: the types whose operands may be [`MnMajor`](super::MnMajor).
pub trait Element16: Element {
    #[doc(hidden)]
    fn pack(pair: [f32; 2]) -> u32;
}

impl Element for f16 {
    const NUMBER: Number = Number::F16;
}

impl Element for bf16 {
    const NUMBER: Number = Number::Bf16;
}

impl Element for tf32 {
    const NUMBER: Number = Number::Tf32;
}

impl Element for e4m3 {
    const NUMBER: Number = Number::E4m3;
}

impl Element16 for f16 {
    #[inline(always)]
    fn pack(pair: [f32; 2]) -> u32 {
        crate::half::f32_to_f16x2(pair)
    }
}

impl Element16 for bf16 {
    #[inline(always)]
    fn pack(pair: [f32; 2]) -> u32 {
        crate::half::f32_to_bf16x2(pair)
    }
}
