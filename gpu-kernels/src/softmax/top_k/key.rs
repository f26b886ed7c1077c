//! Elements of a row as integers that are ordered as they are, all of them different.

use cuda_std::warp::WarpShuffleValue;

use crate::softmax::chunk::CHUNK;

/// A number as an integer that is ordered as it is. The zeros are equal.
#[inline(always)]
pub fn ordered(x: f32) -> u32 {
    // -0 becomes 0.
    let bits = (x + 0.0).to_bits();
    bits ^ ((bits.cast_signed() >> 31) as u32 | 1 << 31)
}

/// The number of [`ordered`].
#[inline(always)]
pub fn number(ordered: u32) -> f32 {
    f32::from_bits(if ordered >> 31 == 1 { ordered ^ 1 << 31 } else { !ordered })
}

/// The key of `x` in column `col`: larger for a larger `x`, and of equal ones for the smaller column. It is never 0, which stands
/// for no element.
///
/// NaN is above all others; a row with one has no order.
#[inline(always)]
pub fn key(x: f32, col: u32) -> u64 {
    let flipped = if x.is_nan() { u32::MAX } else { ordered(x) };
    u64::from(flipped) << 32 | u64::from(!col)
}

/// The element of a key.
#[inline(always)]
pub fn value(key: u64) -> f32 {
    number((key >> 32) as u32)
}

/// The column of a key.
#[inline(always)]
pub fn column(key: u64) -> u32 {
    !(key as u32)
}

/// How the elements of a chunk that may be among the largest are gathered and sorted.
pub trait Key: Copy + Ord + WarpShuffleValue {
    /// No element, which is less than any.
    const NONE: Self;

    /// An element as it is gathered: by as few instructions as can be.
    fn gathered(x: f32, col: u32) -> Self;

    /// What was gathered, as a key that can be compared.
    fn compared(self) -> Self;

    /// The key as [`key`] has it.
    fn whole(self) -> u64;
}

/// Of any numbers and columns.
impl Key for u64 {
    const NONE: Self = 0;

    #[inline(always)]
    fn gathered(x: f32, col: u32) -> Self {
        u64::from(x.to_bits()) << 32 | u64::from(col)
    }

    #[inline(always)]
    fn compared(self) -> Self {
        key(f32::from_bits((self >> 32) as u32), self as u32)
    }

    #[inline(always)]
    fn whole(self) -> u64 {
        self
    }
}

/// Of numbers of 16 bits, of which at least 13 of the lowest bits of an `f32` are 0, in the columns of a chunk.
impl Key for u32 {
    const NONE: Self = 0;

    #[inline(always)]
    fn gathered(x: f32, col: u32) -> Self {
        x.to_bits() | col
    }

    #[inline(always)]
    fn compared(self) -> Self {
        const COLUMN: u32 = CHUNK as u32 - 1;
        (ordered(f32::from_bits(self & !COLUMN)) & !COLUMN) | (COLUMN - (self & COLUMN))
    }

    #[inline(always)]
    fn whole(self) -> u64 {
        const COLUMN: u32 = CHUNK as u32 - 1;
        let is_positive = self >> 31 == 1;
        let x = if is_positive { self & !COLUMN } else { self | COLUMN };
        key(number(x), COLUMN - (self & COLUMN))
    }
}
