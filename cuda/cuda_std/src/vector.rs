//! Vectors of two or four numbers, aligned so that one instruction moves them.

macro_rules! vectors {
    ($($(#[$doc:meta])* $name:ident($element:ty, $len:literal, $align:literal) { $($field:ident),* })*) => {$(
        $(#[$doc])*
        #[allow(non_camel_case_types, reason = "the name is the element type and the number of elements")]
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        #[repr(C, align($align))]
        pub struct $name {
            $(#[doc = concat!("Element ", stringify!($field), ".")] pub $field: $element,)*
        }

        impl $name {
            /// The elements in order.
            #[inline(always)]
            #[allow(clippy::too_many_arguments, reason = "one argument an element")]
            pub const fn new($($field: $element),*) -> Self {
                Self { $($field),* }
            }

            /// Creates a vector with every element `value`.
            #[inline(always)]
            pub const fn splat(value: $element) -> Self {
                Self { $($field: value),* }
            }

            /// The elements in order.
            #[inline(always)]
            pub const fn to_array(self) -> [$element; $len] {
                [$(self.$field),*]
            }
        }

        impl From<[$element; $len]> for $name {
            #[inline(always)]
            fn from([$($field),*]: [$element; $len]) -> Self {
                Self { $($field),* }
            }
        }

        impl From<$name> for [$element; $len] {
            #[inline(always)]
            fn from(vector: $name) -> Self {
                vector.to_array()
            }
        }

        // SAFETY: `repr(C)` of one element type without padding; every bit pattern is a value.
        unsafe impl super::mem::Vector for $name {}
    )*};
}

vectors! {
    /// Four `f32`, 16 bytes, aligned to 16.
    #[doc(alias = "float4")]
    f32x4(f32, 4, 16) { x, y, z, w }
    /// Four `u32`, 16 bytes, aligned to 16.
    #[doc(alias = "uint4")]
    u32x4(u32, 4, 16) { x, y, z, w }
    /// Two `f32`, 8 bytes, aligned to 8.
    #[doc(alias = "float2")]
    f32x2(f32, 2, 8) { x, y }
    /// Two `u32`, 8 bytes, aligned to 8.
    #[doc(alias = "uint2")]
    u32x2(u32, 2, 8) { x, y }
}
