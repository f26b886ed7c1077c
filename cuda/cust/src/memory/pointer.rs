//! Addresses in device memory.

use std::fmt;
use std::marker::PhantomData;

use super::copy::DeviceCopy;
use crate::sys::CUdeviceptr;

/// The address of a `T` in device memory, as a kernel takes it. The host cannot read through it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct DevicePointer<T: DeviceCopy> {
    address: CUdeviceptr,
    element: PhantomData<fn() -> T>,
}

impl<T: DeviceCopy> DevicePointer<T> {
    /// The pointer to this address.
    pub fn from_raw(address: CUdeviceptr) -> Self {
        Self { address, element: PhantomData }
    }

    /// The null pointer.
    pub fn null() -> Self {
        Self::from_raw(0)
    }

    /// Whether it is the null pointer.
    pub fn is_null(self) -> bool {
        self.address == 0
    }

    /// The address.
    pub fn as_raw(&self) -> CUdeviceptr {
        self.address
    }

    /// The address as a pointer, valid only on the device.
    pub fn as_ptr(&self) -> *const T {
        self.as_mut_ptr()
    }

    /// The address as a pointer, valid only on the device.
    pub fn as_mut_ptr(&self) -> *mut T {
        std::ptr::with_exposed_provenance_mut(self.address as usize)
    }

    /// The pointer `count` elements on.
    ///
    /// # Safety
    /// Both pointers are in one allocation, or at its end.
    pub unsafe fn offset(self, count: isize) -> Self {
        self.wrapping_offset(count)
    }

    /// The pointer `count` elements on.
    ///
    /// # Safety
    /// Both pointers are in one allocation, or at its end.
    pub unsafe fn add(self, count: usize) -> Self {
        self.wrapping_offset(count as isize)
    }

    /// The pointer `count` elements on, without restrictions.
    pub fn wrapping_offset(self, count: isize) -> Self {
        Self::from_raw(self.address.wrapping_add_signed((count as i64).wrapping_mul(size_of::<T>() as i64)))
    }

    /// The same address with another element type.
    pub fn cast<U: DeviceCopy>(self) -> DevicePointer<U> {
        DevicePointer::from_raw(self.address)
    }
}

impl<T: DeviceCopy> fmt::Pointer for DevicePointer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Pointer::fmt(&self.as_ptr(), f)
    }
}
