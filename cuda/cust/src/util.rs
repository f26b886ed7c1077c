//! Copies of host values on the device, by method.

use crate::error::CudaResult;
use crate::memory::{DeviceBox, DeviceBuffer, DeviceCopy, UnifiedBuffer};

/// A value's copy on the device.
pub trait DeviceCopyExt: DeviceCopy {
    /// Copies the value into memory of its own.
    fn as_dbox(&self) -> CudaResult<DeviceBox<Self>> {
        DeviceBox::new(self)
    }
}

impl<T: DeviceCopy> DeviceCopyExt for T {}

/// A slice's copy on the device.
pub trait SliceExt<T: DeviceCopy> {
    /// Copies the elements into memory of the device.
    fn as_dbuf(&self) -> CudaResult<DeviceBuffer<T>>;

    /// Copies the elements into memory that host and device share.
    fn as_unified_buf(&self) -> CudaResult<UnifiedBuffer<T>>;
}

impl<T: DeviceCopy> SliceExt<T> for [T] {
    fn as_dbuf(&self) -> CudaResult<DeviceBuffer<T>> {
        DeviceBuffer::from_slice(self)
    }

    fn as_unified_buf(&self) -> CudaResult<UnifiedBuffer<T>> {
        UnifiedBuffer::from_slice(self)
    }
}
