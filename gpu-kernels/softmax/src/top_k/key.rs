//! Elements of a row as integers with the same order, all of them different.

use cuda_std::warp::WarpShuffleValue;

use crate::chunk::CHUNK;

/// Returns an integer that orders like the number. The two zeros are equal.
#[inline(always)]
pub fn ordered(x: f32) -> u32 {
    // -0 becomes 0.
    let bits = (x + 0.0).to_bits();
    bits ^ ((bits.cast_signed() >> 31) as u32 | 1 << 31)
}

/// Returns the number of an integer that [`ordered`] returned.
#[inline(always)]
pub fn number(ordered: u32) -> f32 {
    f32::from_bits(if ordered >> 31 == 1 { ordered ^ 1 << 31 } else { !ordered })
}

/// Returns the key of `x` in column `col`: larger for a larger `x`; of equal ones, larger for the smaller column. It is
/// never 0, which means no element.
///
/// NaN is above all others; a row with NaN has no order.
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

/// How elements of a chunk that may be among the largest are gathered and sorted.
pub trait Key: Copy + Ord + WarpShuffleValue {
    /// No element; less than any.
    const NONE: Self;

    /// Returns an element in the form that is gathered, with as few instructions as possible.
    fn gathered(x: f32, col: u32) -> Self;

    /// Returns a gathered element as a key that can be compared.
    fn compared(self) -> Self;

    /// Returns the full key, as of [`key`].
    fn whole(self) -> u64;
}

/// Keys of any numbers and columns.
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

/// Keys of 16-bit numbers, whose `f32` has at least 13 zeros as its lowest bits, in the columns of a chunk.
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
