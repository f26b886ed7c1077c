//! Device memory, and host memory that devices can access.

pub(crate) mod copy;
pub(crate) mod device;
mod host;
pub(crate) mod pointer;

pub use bytemuck;
pub use copy::DeviceCopy;
pub use cuda_std_macros::DeviceCopy;
pub use device::{AsyncCopyDestination, CopyDestination, DeviceBox, DeviceBuffer, DeviceSlice};
pub use host::{HostBuffer, Locked, LockedBuffer, Unified, UnifiedBuffer};
pub use pointer::DevicePointer;

use crate::error::CudaResult;
use crate::sys;

/// The free and the total bytes of the current device's memory.
pub fn mem_get_info() -> CudaResult<(usize, usize)> {
    let (mut free, mut total) = (0, 0);
    // SAFETY: the out parameters are valid.
    unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) }.ok()?;
    Ok((free, total))
}
