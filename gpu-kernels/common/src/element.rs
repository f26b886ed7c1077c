//! Types of matrix elements: `f32`, `f16` and `bf16`. They are read and written 16 bytes at a time; arithmetic is in `f32`.

use cuda_std::half::{
    bf16, bf16_to_f32, bf16x2_max, bf16x2_to_f32, f16, f16_to_f32, f16x2_max, f16x2_to_f32, f32_to_bf16,
    f32_to_bf16x2, f32_to_f16, f32_to_f16x2,
};
use cuda_std::mem::{store_global, u32x2, u32x4};

/// The alignment of the address of a vector of elements: the bytes of one access.
pub const VECTOR_ALIGN: usize = 16;

/// A number in memory; kernels compute with it as `f32`.
pub trait Number: Copy + 'static {
    /// Returns the number, exactly.
    fn to_f32(self) -> f32;
    /// Returns the nearest number of this type, ties to even.
    fn from_f32(x: f32) -> Self;
}

/// A type that has `N` elements in 16 bytes.
///
/// # Safety
/// The type's size is 16 / `N`, its alignment is its size, and every bit pattern is a value: a pointer to `N` elements may
/// be cast to `*const u32x4` and read where it is aligned.
pub unsafe trait Element<const N: usize>: Output<N> {
    /// Returns the elements in these 16 bytes, in the order of memory.
    fn unpack(vector: u32x4) -> [f32; N];
    /// A vector in which every element is -inf.
    const NEG_INFINITY: u32x4;
    /// A vector in which every element is the smallest finite number.
    const MIN: u32x4;
    /// Returns the larger of each pair of elements; if one of them is NaN, the other.
    fn larger(a: u32x4, b: u32x4) -> u32x4;
}

/// A type whose elements are stored `N` at a time, by whole vectors: one of 8 bytes, one of 16, or two.
pub trait Output<const N: usize>: Number {
    /// The alignment of such a store, in bytes.
    const ALIGN: usize =
        if N * size_of::<Self>() < VECTOR_ALIGN { N * size_of::<Self>() } else { VECTOR_ALIGN };

    /// Rounds `values` to this type and writes them to global memory.
    ///
    /// # Safety
    /// `ptr` is aligned to [`Self::ALIGN`] and points to `N` elements that no other code uses.
    unsafe fn store(ptr: *mut Self, values: [f32; N]);
}

/// Returns a vector of four equal words.
const fn every(word: u32) -> u32x4 {
    u32x4::new(word, word, word, word)
}

/// Applies `op` to each pair of words.
#[inline(always)]
fn both(a: u32x4, b: u32x4, op: impl Fn(u32, u32) -> u32) -> u32x4 {
    let ([a, c, e, g], [b, d, f, h]) = (a.to_array(), b.to_array());
    u32x4::new(op(a, b), op(c, d), op(e, f), op(g, h))
}

impl Number for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }

    #[inline(always)]
    fn from_f32(x: f32) -> Self {
        x
    }
}

// SAFETY: four elements of 4 bytes, and every bit pattern is a number.
unsafe impl Element<4> for f32 {
    #[inline(always)]
    fn unpack(vector: u32x4) -> [f32; 4] {
        vector.to_array().map(f32::from_bits)
    }

    const NEG_INFINITY: u32x4 = every(0xff80_0000);
    const MIN: u32x4 = every(0xff7f_ffff);

    #[inline(always)]
    fn larger(a: u32x4, b: u32x4) -> u32x4 {
        both(a, b, |a, b| f32::from_bits(a).max(f32::from_bits(b)).to_bits())
    }
}

impl Output<4> for f32 {
    #[inline(always)]
    unsafe fn store(ptr: *mut Self, values: [f32; 4]) {
        // SAFETY: `ptr` is aligned, and points to four elements that only this thread writes.
        unsafe { store_global(ptr.cast(), u32x4::from(values.map(f32::to_bits))) };
    }
}

impl Output<8> for f32 {
    #[inline(always)]
    unsafe fn store(ptr: *mut Self, values: [f32; 8]) {
        let [a, b, c, d, e, f, g, h] = values.map(f32::to_bits);
        // SAFETY: `ptr` is aligned, and points to eight elements, which are two vectors.
        unsafe {
            store_global(ptr.cast(), u32x4::new(a, b, c, d));
            store_global(ptr.cast::<u32x4>().add(1), u32x4::new(e, f, g, h));
        }
    }
}

macro_rules! elements_of_16_bits {
    ($($ty:ident: $to_f32:ident, $from_f32:ident, $unpack:ident, $pack:ident, $max:ident, $neg_infinity:literal;)*) => {$(
        impl Number for $ty {
            #[inline(always)]
            fn to_f32(self) -> f32 {
                $to_f32(self)
            }

            #[inline(always)]
            fn from_f32(x: f32) -> Self {
                $from_f32(x)
            }
        }

        // SAFETY: eight elements of 2 bytes, and every bit pattern is a number.
        unsafe impl Element<8> for $ty {
            #[inline(always)]
            fn unpack(vector: u32x4) -> [f32; 8] {
                let [[a, b], [c, d], [e, f], [g, h]] = vector.to_array().map($unpack);
                [a, b, c, d, e, f, g, h]
            }

            const NEG_INFINITY: u32x4 = every($neg_infinity);
            const MIN: u32x4 = every($neg_infinity - 0x0001_0001);

            #[inline(always)]
            fn larger(a: u32x4, b: u32x4) -> u32x4 {
                both(a, b, $max)
            }
        }

        impl Output<8> for $ty {
            #[inline(always)]
            unsafe fn store(ptr: *mut Self, values: [f32; 8]) {
                let [a, b, c, d, e, f, g, h] = values;
                // SAFETY: `ptr` is aligned, and points to eight elements that only this thread writes.
                unsafe { store_global(ptr.cast(), u32x4::from([[a, b], [c, d], [e, f], [g, h]].map($pack))) };
            }
        }

        impl Output<4> for $ty {
            #[inline(always)]
            unsafe fn store(ptr: *mut Self, values: [f32; 4]) {
                let [a, b, c, d] = values;
                // SAFETY: `ptr` is aligned, and points to four elements that only this thread writes.
                unsafe { store_global(ptr.cast(), u32x2::from([[a, b], [c, d]].map($pack))) };
            }
        }
    )*};
}

elements_of_16_bits! {
    f16: f16_to_f32, f32_to_f16, f16x2_to_f32, f32_to_f16x2, f16x2_max, 0xfc00_fc00;
    bf16: bf16_to_f32, f32_to_bf16, bf16x2_to_f32, f32_to_bf16x2, bf16x2_max, 0xff80_ff80;
}
