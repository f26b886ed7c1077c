//! Types that may be copied to a device.

use std::marker::PhantomData;
use std::num::{NonZeroU8, NonZeroU16, NonZeroU32, NonZeroU64, NonZeroU128, Wrapping};

use crate::error::{CudaError, CudaResult};

/// A type with values that mean the same on a device. The derive of the same name implements it if all fields implement it.
///
/// ```
/// #[derive(Clone, Copy, cust::DeviceCopy)]
/// struct Ray {
///     origin: [f32; 3],
///     direction: [f32; 3],
/// }
/// ```
///
/// A type with host addresses does not implement it:
///
/// ```compile_fail,E0277
/// #[derive(Clone, Copy, cust::DeviceCopy)]
/// struct Borrowed {
///     text: &'static str,
/// }
/// ```
///
/// # Safety
/// The type contains no address of host memory, neither as a reference nor as a pointer.
pub unsafe trait DeviceCopy: Copy {}

macro_rules! device_copy {
    ($($ty:ty)*) => {
        $(
            // SAFETY: its values contain no address.
            unsafe impl DeviceCopy for $ty {}
        )*
    };
}

device_copy! {
    () bool char f32 f64
    u8 u16 u32 u64 u128 usize
    i8 i16 i32 i64 i128 isize
    NonZeroU8 NonZeroU16 NonZeroU32 NonZeroU64 NonZeroU128
}

#[cfg(feature = "impl_half")]
device_copy! { half::f16 half::bf16 }

#[cfg(feature = "impl_glam")]
device_copy! { glam::Vec2 glam::Vec3 glam::Vec4 glam::IVec2 glam::IVec3 glam::IVec4 }

// SAFETY: it contains an address of device memory.
unsafe impl<T: DeviceCopy> DeviceCopy for super::pointer::DevicePointer<T> {}
// SAFETY: it contains only its elements.
unsafe impl<T: DeviceCopy, const N: usize> DeviceCopy for [T; N] {}
// SAFETY: same as for arrays.
unsafe impl<T: DeviceCopy> DeviceCopy for Option<T> {}
// SAFETY: same as for arrays.
unsafe impl<T: DeviceCopy, E: DeviceCopy> DeviceCopy for Result<T, E> {}
// SAFETY: same as for arrays.
unsafe impl<T: DeviceCopy> DeviceCopy for Wrapping<T> {}
// SAFETY: it contains nothing.
unsafe impl<T: ?Sized> DeviceCopy for PhantomData<T> {}

macro_rules! device_copy_tuples {
    ($($($name:ident)+;)*) => {
        $(
            // SAFETY: it contains only its elements.
            unsafe impl<$($name: DeviceCopy),+> DeviceCopy for ($($name,)+) {}
        )*
    };
}

device_copy_tuples! {
    A B;
    A B C;
    A B C D;
    A B C D E;
    A B C D E F;
    A B C D E F G;
    A B C D E F G H;
}

/// The bytes of `elements` values of type `T`.
pub(super) fn bytes_of<T>(elements: usize) -> CudaResult<usize> {
    const { assert!(align_of::<T>() <= 256, "the element's alignment is over the driver's") };
    let bytes = elements.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.ok_or(CudaError::InvalidMemoryAllocation { elements, element_bytes: size_of::<T>() })
}
