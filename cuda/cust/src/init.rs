//! Starts the driver, and its version.

use std::ffi::c_int;

use crate::context::Context;
use crate::device::Device;
use crate::error::CudaResult;
use crate::{fork, sys};

bitflags::bitflags! {
    /// Flags of [`init`]. There are none.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct CudaFlags: u32 {}
}

/// Loads the driver's library and initialises the driver. May be called more than once.
///
/// The driver then works in this process alone: in one that is forked later, all calls fail and drops do nothing.
pub fn init(flags: CudaFlags) -> CudaResult<()> {
    fork::watch();
    // SAFETY: cuInit may be called at any time; a wrong flag is an error code.
    unsafe { sys::cuInit(flags.bits()) }.ok()
}

/// Initialises the driver and makes the primary context of device 0 the calling thread's. The context must be kept
/// while CUDA is used.
///
/// # Errors
/// There is no driver or no device, or the context cannot be made.
#[must_use = "without the context all calls fail"]
pub fn quick_init() -> CudaResult<Context> {
    init(CudaFlags::empty())?;
    Context::new(Device::get_device(0)?)
}

/// The newest version of CUDA that the driver supports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CudaApiVersion {
    version: c_int,
}

impl CudaApiVersion {
    /// Queries the driver.
    pub fn get() -> CudaResult<Self> {
        // SAFETY: the out parameter is valid.
        let version = sys::out(|version| unsafe { sys::cuDriverGetVersion(version) })?;
        Ok(Self { version })
    }

    /// The major version: 12 for 12.8.
    pub fn major(self) -> i32 {
        self.version / 1000
    }

    /// The minor version: 8 for 12.8.
    pub fn minor(self) -> i32 {
        self.version % 1000 / 10
    }
}
