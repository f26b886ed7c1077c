//! The types of elements that a test compares.

use core::fmt::Debug;

use crate::half::{bf16, f16};

mod sealed {
    pub trait Sealed {}
}

/// The type of a buffer's elements: an integer or a float.
pub trait Element: Copy + Debug + PartialEq + Send + Sync + sealed::Sealed + 'static {
    /// The largest relative error of one rounding: half the distance from 1 to the next number; 0 for integers.
    const ROUNDING: f64;
    /// The largest error of a result near 0: the smallest normal number, or for `f16` the smallest of all; 0 for
    /// integers.
    const SMALLEST: f64;
    /// The number of roundings that a result may be off by default.
    const ROUNDINGS: f64;
    /// Whether it is a float.
    const IS_FLOAT: bool;
    /// Converts to `f64`; large integers are rounded.
    fn to_f64(self) -> f64;
    /// Returns the distance from `expected`: 0 between two NaNs and between two infinities of one sign, infinite if
    /// only one is a NaN or infinite.
    fn error(self, expected: Self) -> f64;
}

macro_rules! integers {
    ($($ty:ident)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const ROUNDING: f64 = 0.0;
            const SMALLEST: f64 = 0.0;
            const ROUNDINGS: f64 = 0.0;
            const IS_FLOAT: bool = false;
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn error(self, expected: Self) -> f64 {
                (self as i128).abs_diff(expected as i128) as f64
            }
        }
    )*};
}

integers! { u8 u16 u32 u64 i8 i16 i32 i64 }

macro_rules! floats {
    ($($ty:ident: $rounding:expr, $smallest:expr, $roundings:expr;)*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {
            const ROUNDING: f64 = $rounding;
            const SMALLEST: f64 = $smallest;
            const ROUNDINGS: f64 = $roundings;
            const IS_FLOAT: bool = true;
            fn to_f64(self) -> f64 {
                self.into()
            }
            fn error(self, expected: Self) -> f64 {
                let (got, expected) = (self.to_f64(), expected.to_f64());
                match (got.is_nan(), expected.is_nan()) {
                    (true, true) => 0.0,
                    (false, false) if got == expected => 0.0,
                    (false, false) => (got - expected).abs(),
                    _ => f64::INFINITY,
                }
            }
        }
    )*};
}

floats! {
    f64: f64::EPSILON / 2.0, f64::MIN_POSITIVE, 8.0;
    f32: f32::EPSILON as f64 / 2.0, f32::MIN_POSITIVE as f64, 8.0;
    f16: 1.0 / 2048.0, 1.0 / 16_777_216.0, 2.0;
    bf16: 1.0 / 256.0, f32::MIN_POSITIVE as f64, 2.0;
}

/// Returns the bytes of the elements.
pub(super) fn to_bytes<T: Element>(elements: &[T]) -> Vec<u8> {
    // SAFETY: the sealed types have no padding, so every byte of the slice is initialised.
    unsafe { core::slice::from_raw_parts(elements.as_ptr().cast(), size_of_val(elements)) }.to_vec()
}

/// Returns the elements with these bytes; an incomplete last element is omitted.
pub(super) fn from_bytes<T: Element>(bytes: &[u8]) -> Vec<T> {
    let elements = bytes.chunks_exact(size_of::<T>());
    // SAFETY: every bit pattern is a value of the sealed types, and the chunk has the size of one.
    elements.map(|bytes| unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }).collect()
}

/// Returns whether these are the bytes of an element that no kernel has written, in memory filled with
/// [`NAN`](super::buffer::NAN); `false` for integers.
pub(super) fn is_unwritten<T: Element>(bytes: &[u8]) -> bool {
    T::IS_FLOAT && bytes.iter().all(|&byte| byte == super::buffer::NAN)
}

/// Returns the first element of a buffer of [`NAN`](super::buffer::NAN) that no kernel has written; `None` for integers.
pub(super) fn first_unwritten<T: Element>(bytes: &[u8]) -> Option<usize> {
    bytes.chunks_exact(size_of::<T>()).position(is_unwritten::<T>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_what_is_no_number() {
        assert_eq!(f32::NAN.error(f32::from_bits(0xffc0_0001)), 0.0);
        assert_eq!(f32::INFINITY.error(f32::INFINITY), 0.0);
        for (a, b) in
            [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::INFINITY, f32::NEG_INFINITY), (1.0, f32::INFINITY)]
        {
            assert_eq!(a.error(b), f64::INFINITY, "{a} {b}");
        }
        assert_eq!((-0.0f32).error(0.0), 0.0);
        assert_eq!(f16::from_f32(1.0).error(f16::from_f32(1.5)), 0.5);
    }

    #[test]
    fn integers_are_off_by_one_however_large() {
        assert_eq!(u64::MAX.error(u64::MAX - 1), 1.0);
        assert_eq!(i64::MIN.error(i64::MIN + 1), 1.0);
        assert_eq!(0u8.error(255), 255.0);
    }

    #[test]
    fn bytes_come_back() {
        let values = [1.5f64, -0.0, f64::NAN];
        let back: Vec<f64> = from_bytes(&to_bytes(&values));
        assert!(values.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()) && back.len() == 3);
    }
}
