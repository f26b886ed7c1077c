//! Device memory, and host memory that devices can access.

mod copy;
mod device;
mod host;
mod pointer;

pub use crate::DeviceCopy;
pub use bytemuck;
pub use copy::DeviceCopy;
pub use device::{AsyncCopyDestination, CopyDestination, DeviceBox, DeviceBuffer, DeviceSlice};
pub use host::{HostBuffer, Locked, LockedBuffer, Unified, UnifiedBuffer};
pub use pointer::DevicePointer;

use crate::error::{CudaError, CudaResult};
use crate::sys;

/// The free and the total bytes of the current device's memory.
pub fn mem_get_info() -> CudaResult<(usize, usize)> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the out parameters are valid.
    unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }.ok()?;
    Ok((free, total))
}

/// The bytes of `elements` values of type `T`.
fn bytes_of<T>(elements: usize) -> CudaResult<usize> {
    const { assert!(align_of::<T>() <= 256, "the element's alignment is over the driver's") };
    let bytes = elements.checked_mul(size_of::<T>()).filter(|&bytes| bytes <= isize::MAX as usize);
    bytes.ok_or(CudaError::InvalidMemoryAllocation { elements, element_bytes: size_of::<T>() })
}
