//! Methods that copy host values to the device.

use crate::error::CudaResult;
use crate::memory::{DeviceBox, DeviceBuffer, DeviceCopy, UnifiedBuffer};

/// Copies a value to the device.
pub trait DeviceCopyExt: DeviceCopy {
    /// Copies the value to new device memory.
    fn as_dbox(&self) -> CudaResult<DeviceBox<Self>> {
        DeviceBox::new(self)
    }
}

impl<T: DeviceCopy> DeviceCopyExt for T {}

/// Copies a slice to the device.
pub trait SliceExt<T: DeviceCopy> {
    /// Copies the elements to new device memory.
    fn as_dbuf(&self) -> CudaResult<DeviceBuffer<T>>;

    /// Copies the elements to new memory that host and device share.
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
