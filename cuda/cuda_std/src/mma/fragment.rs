//! A lane's share of a matrix.

use core::marker::PhantomData;

use super::Number;
use crate::half::{bf16, f16};
use crate::warp;

/// A number with 8 bits of exponent and 11 of precision, in the upper 19 bits of a word. A tensor core computes with it
/// when it is given `f32`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[allow(non_camel_case_types, reason = "PTX's own name, as f16 and bf16")]
#[repr(transparent)]
pub struct tf32(u32);

impl tf32 {
    /// Converts to the nearest number, ties away from zero; numbers that are too large become infinite.
    #[doc(alias = "cvt.rna.tf32.f32", alias = "__float_to_tf32")]
    #[inline(always)]
    pub fn from_f32(x: f32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let bits;
            // SAFETY: the instruction only computes a number.
            unsafe {
                core::arch::asm!("cvt.rna.tf32.f32 {}, {};", out(reg32) bits, in(reg32) x,
                    options(pure, nomem, nostack, preserves_flags));
            }
            Self(bits)
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let bits = x.to_bits();
            // Adds half a unit, then truncates; the largest numbers carry into infinity. A NaN must not carry.
            let rounded = if x.is_nan() { bits | 0x0040_0000 } else { bits.wrapping_add(0x1000) };
            Self(rounded & 0xffff_e000)
        }
    }

    /// Converts the number exactly.
    #[inline(always)]
    pub fn to_f32(self) -> f32 {
        f32::from_bits(self.to_bits())
    }

    /// Returns the bits; the lower 13 are zero.
    #[inline(always)]
    pub fn to_bits(self) -> u32 {
        // A device may leave anything in the lower bits.
        self.0 & 0xffff_e000
    }

    /// Returns a register of a fragment. Its lower 13 bits, which the tensor cores ignore, can be anything.
    #[inline(always)]
    pub fn to_register(self) -> u32 {
        self.0
    }

    /// Builds the number from the upper 19 of these bits.
    #[inline(always)]
    pub fn from_bits(bits: u32) -> Self {
        Self(bits & 0xffff_e000)
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::f16 {}
    impl Sealed for super::bf16 {}
    impl Sealed for super::tf32 {}
}

/// An element of A and B: `f16`, `bf16` or [`tf32`].
pub trait Element: Copy + sealed::Sealed {
    /// Columns of A and rows of B: 16, or 8 for [`tf32`].
    const K: usize;
    #[doc(hidden)]
    const NUMBER: Number;
    #[doc(hidden)]
    fn into_word(self) -> u32;
    #[doc(hidden)]
    fn from_word(word: u32) -> Self;
}

macro_rules! elements {
    ($($ty:ident, $number:ident, $k:literal, $bits:ty;)*) => {$(
        impl Element for $ty {
            const K: usize = $k;
            const NUMBER: Number = Number::$number;

            #[inline(always)]
            fn into_word(self) -> u32 {
                self.to_bits().into()
            }

            #[inline(always)]
            fn from_word(word: u32) -> Self {
                Self::from_bits(word as $bits)
            }
        }
    )*};
}

elements! {
    f16, F16, 16, u16;
    bf16, Bf16, 16, u16;
    tf32, Tf32, 8, u32;
}

/// Returns the number of a lane's group of four, and its index there (PTX ISA: `groupID`, `threadID_in_group`).
#[inline(always)]
const fn group(lane: u32) -> (usize, usize) {
    ((lane >> 2) as usize & 7, (lane & 3) as usize)
}

macro_rules! fragments {
    ($($(#[$doc:meta])* $name:ident, $registers:literal, $letter:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T> {
            registers: [u32; $registers],
            element: PhantomData<T>,
        }

        impl<T: Element> $name<T> {
            /// The number of elements per lane.
            pub const ELEMENTS: usize = $registers * Self::IN_REGISTER;
            /// The number of elements per register.
            const IN_REGISTER: usize = T::K / 8;

            #[doc = concat!("The fragment of these registers, as [`ldmatrix`](super::ldmatrix) gives them: the elements")]
            /// in order, the first of two in the lower half of a register.
            #[inline(always)]
            pub fn from_registers(registers: [u32; $registers]) -> Self {
                Self { registers, element: PhantomData }
            }

            /// Returns its registers.
            #[inline(always)]
            pub fn registers(self) -> [u32; $registers] {
                self.registers
            }

            #[doc = concat!("The calling lane's fragment of the matrix ", $letter, " whose element at `(row, column)` is")]
            /// `f(row, column)`; `f` is called for the lane's elements only.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn from_fn(mut f: impl FnMut(usize, usize) -> T) -> Self {
                let (lane, mut registers, mut i) = (warp::lane_id(), [0; $registers], 0);
                while i < Self::ELEMENTS {
                    let (row, column) = Self::position(lane, i);
                    registers[i / Self::IN_REGISTER] |= f(row, column).into_word() << Self::shift(i);
                    i += 1;
                }
                Self::from_registers(registers)
            }

            /// Returns element `i` of the lane, below [`ELEMENTS`](Self::ELEMENTS).
            ///
            /// # Panics
            /// If there is no such element.
            #[inline(always)]
            #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
            pub fn element(self, i: usize) -> T {
                T::from_word(self.registers[i / Self::IN_REGISTER] >> Self::shift(i))
            }

            /// The number of bits by which an element is shifted in its register.
            const fn shift(i: usize) -> usize {
                i % Self::IN_REGISTER * 16
            }
        }
    )*};
}

fragments! {
    /// A lane's share of A, 16 rows of [`K`](Element::K) columns: four registers; each holds two neighbours of a row, or
    /// one [`tf32`].
    FragmentA, 4, "A";
    /// A lane's share of B, [`K`](Element::K) rows of 8 columns: two registers; each holds two neighbours of a column, or
    /// one [`tf32`].
    FragmentB, 2, "B";
}

impl<T: Element> FragmentA<T> {
    /// Row and column of element `i` of a lane.
    #[inline(always)]
    pub const fn position(lane: u32, i: usize) -> (usize, usize) {
        let ((group, place), register) = (group(lane), i / Self::IN_REGISTER);
        let column = place * Self::IN_REGISTER + i % Self::IN_REGISTER;
        (group + register % 2 * 8, column + register / 2 * (T::K / 2))
    }
}

impl<T: Element> FragmentB<T> {
    /// Row and column of element `i` of a lane.
    #[inline(always)]
    pub const fn position(lane: u32, i: usize) -> (usize, usize) {
        let ((group, place), register) = (group(lane), i / Self::IN_REGISTER);
        let row = place * Self::IN_REGISTER + i % Self::IN_REGISTER;
        (row + register * (T::K / 2), group)
    }
}

/// A lane's share of C and D, 16 rows of 8 columns: two neighbours of a row, and two of the row 8 further down.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(transparent)]
pub struct FragmentC(pub [f32; 4]);

impl FragmentC {
    /// The number of elements per lane.
    pub const ELEMENTS: usize = 4;

    /// The fragment of a matrix of zeros.
    pub const ZERO: FragmentC = FragmentC([0.0; 4]);

    /// Row and column of element `i` of a lane.
    #[inline(always)]
    pub const fn position(lane: u32, i: usize) -> (usize, usize) {
        let (group, place) = group(lane);
        (group + i / 2 * 8, place * 2 + i % 2)
    }

    /// Returns the calling lane's fragment of the matrix with the elements `f(row, column)`; `f` is called for the
    /// lane's elements only.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn from_fn(mut f: impl FnMut(usize, usize) -> f32) -> Self {
        let lane = warp::lane_id();
        Self(core::array::from_fn(|i| {
            let (row, column) = Self::position(lane, i);
            f(row, column)
        }))
    }

    /// Calls `f` with row, column and value of each of the calling lane's elements.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn for_each(self, mut f: impl FnMut(usize, usize, f32)) {
        let (lane, mut i) = (warp::lane_id(), 0);
        while i < Self::ELEMENTS {
            let (row, column) = Self::position(lane, i);
            f(row, column, self.0[i]);
            i += 1;
        }
    }
}
