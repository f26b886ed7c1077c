//! 16-bit floating-point numbers: everything from the crate `half`, and conversions for kernels.
//!
//! Kernels store these types and compute in `f32`, so this module has only conversions. All round to nearest even. Values
//! that are too large become infinite, subnormal numbers are kept, and a NaN stays a NaN, although its payload may differ
//! between device and host. A packed pair is a `u32` with the first number in the low half, which is the order in memory.
//!
//! On the device, converting a number is one instruction (PTX ISA, `cvt`). From compute capability 8.0 on, so is
//! converting a pair to 16 bits; before, `f32_to_bf16` is a few integer instructions. Kernels should not call the methods
//! of the crate `half`, which convert bit by bit on the device.

pub use ::half::*;

/// Converts the number exactly.
#[doc(alias = "__bfloat162float")]
#[inline(always)]
pub fn bf16_to_f32(x: bf16) -> f32 {
    f32::from_bits(u32::from(x.to_bits()) << 16)
}

/// Converts the number exactly.
#[doc(alias = "cvt.f32.f16", alias = "__half2float")]
#[inline(always)]
pub fn f16_to_f32(x: f16) -> f32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let wide;
        // SAFETY: the instruction only computes a number.
        unsafe {
            core::arch::asm!("cvt.f32.f16 {}, {};", out(reg32) wide, in(reg16) x.to_bits(),
                options(pure, nomem, nostack, preserves_flags));
        }
        wide
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // `to_f32` is an instruction of the processor, which Miri does not know. `to_f32_const` computes the same with integers.
    if cfg!(miri) { x.to_f32_const() } else { x.to_f32() }
}

/// Converts to the nearest number with 8 bits of precision.
#[doc(alias = "cvt.rn.bf16.f32", alias = "__float2bfloat16_rn")]
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> bf16 {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    {
        let bits;
        // SAFETY: the instruction only computes a number.
        unsafe {
            core::arch::asm!("cvt.rn.bf16.f32 {}, {};", out(reg16) bits, in(reg32) x,
                options(pure, nomem, nostack, preserves_flags));
        }
        bf16::from_bits(bits)
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
    {
        let bits = x.to_bits();
        // Adds half a unit minus one, and one more if the kept part is odd, so ties go to even. The largest numbers
        // carry into infinity.
        let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1));
        bf16::from_bits((if x.is_nan() { bits | 0x0040_0000 } else { rounded } >> 16) as u16)
    }
}

/// Converts to the nearest number with 11 bits of precision.
#[doc(alias = "cvt.rn.f16.f32", alias = "__float2half_rn")]
#[inline(always)]
pub fn f32_to_f16(x: f32) -> f16 {
    #[cfg(target_arch = "nvptx64")]
    {
        let bits;
        // SAFETY: the instruction only computes a number.
        unsafe {
            core::arch::asm!("cvt.rn.f16.f32 {}, {};", out(reg16) bits, in(reg32) x,
                options(pure, nomem, nostack, preserves_flags));
        }
        f16::from_bits(bits)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    if cfg!(miri) { f16::from_f32_const(x) } else { f16::from_f32(x) }
}

/// Converts both numbers of a pair of `bf16` exactly, with a shift and a mask.
#[doc(alias = "__bfloat1622float2")]
#[inline(always)]
pub fn bf16x2_to_f32(pair: u32) -> [f32; 2] {
    [f32::from_bits(pair << 16), f32::from_bits(pair & 0xffff_0000)]
}

/// Converts both numbers of a pair of `f16` exactly.
#[doc(alias = "cvt.f32.f16", alias = "__half22float2")]
#[inline(always)]
pub fn f16x2_to_f32(pair: u32) -> [f32; 2] {
    [f16_to_f32(f16::from_bits(pair as u16)), f16_to_f32(f16::from_bits((pair >> 16) as u16))]
}

/// One instruction that packs a pair; its first operand becomes the upper half.
#[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
macro_rules! pack {
    ($ptx:literal, $low:ident, $high:ident) => {{
        let pair;
        // SAFETY: the instruction only computes a number.
        unsafe {
            core::arch::asm!(concat!($ptx, " {}, {}, {};"), out(reg32) pair, in(reg32) $high, in(reg32) $low,
                options(pure, nomem, nostack, preserves_flags));
        }
        pair
    }};
}

/// Packs the nearest `bf16` to each number as a pair.
#[doc(alias = "cvt.rn.bf16x2.f32", alias = "__floats2bfloat162_rn")]
#[inline(always)]
pub fn f32_to_bf16x2([low, high]: [f32; 2]) -> u32 {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    {
        pack!("cvt.rn.bf16x2.f32", low, high)
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
    {
        u32::from(f32_to_bf16(low).to_bits()) | u32::from(f32_to_bf16(high).to_bits()) << 16
    }
}

/// Packs the nearest `f16` to each number as a pair.
#[doc(alias = "cvt.rn.f16x2.f32", alias = "__floats2half2_rn")]
#[inline(always)]
pub fn f32_to_f16x2([low, high]: [f32; 2]) -> u32 {
    #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
    {
        pack!("cvt.rn.f16x2.f32", low, high)
    }
    #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
    {
        u32::from(f32_to_f16(low).to_bits()) | u32::from(f32_to_f16(high).to_bits()) << 16
    }
}

macro_rules! packed_max {
    ($($(#[$doc:meta])* $name:ident = $ptx:literal, $unpack:ident, $pack:ident;)*) => {$(
        $(#[$doc])*
        #[doc(alias = $ptx)]
        #[inline(always)]
        pub fn $name(a: u32, b: u32) -> u32 {
            #[cfg(all(target_arch = "nvptx64", target_feature = "sm_80"))]
            {
                let larger;
                // SAFETY: the instruction only computes numbers.
                unsafe {
                    core::arch::asm!(concat!($ptx, " {}, {}, {};"), out(reg32) larger, in(reg32) a, in(reg32) b,
                        options(pure, nomem, nostack, preserves_flags));
                }
                larger
            }
            #[cfg(not(all(target_arch = "nvptx64", target_feature = "sm_80")))]
            {
                let [[a, c], [b, d]] = [$unpack(a), $unpack(b)];
                $pack([a.max(b), c.max(d)])
            }
        }
    )*};
}

packed_max! {
    /// Returns the larger number in each half of the pairs; of a number and a NaN, the number.
    bf16x2_max = "max.bf16x2", bf16x2_to_f32, f32_to_bf16x2;
    /// Returns the larger number in each half of the pairs; of a number and a NaN, the number.
    f16x2_max = "max.f16x2", f16x2_to_f32, f32_to_f16x2;
}
