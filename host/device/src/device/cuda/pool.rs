//! Device memory that is allocated and freed in the order of streams, so that neither waits.
//!
//! The source is the CUDA driver API's reference, section "Stream Ordered Memory Allocator".

use std::ffi::c_int;
use std::ptr;

use cust::error::CudaError;
use cust::stream::Stream;
use cust::sys::{self, CUmemPoolProps, CUmemoryPool};

use super::super::error::DeviceError;
use super::found::driver;
use super::handles;

/// The pool of a device. What is freed stays in it for later allocations.
pub(super) struct Pool {
    pub(super) raw: CUmemoryPool,
    /// Frees what several streams have used. It waits for them, and nothing waits for it.
    pub(super) frees: Stream,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// Creates a pool; `None` if the device has no pools, so that allocations and frees wait.
    pub fn new(ordinal: u32) -> Result<Option<Self>, DeviceError> {
        let (mut raw, properties) = (ptr::null_mut(), CUmemPoolProps::of_device(ordinal as c_int));
        // SAFETY: the out parameter and the properties are valid.
        let created = unsafe { sys::cuMemPoolCreate(&mut raw, &properties) }.ok();
        if let Err(CudaError::NotSupported | CudaError::StubLibrary) = created {
            return Ok(None);
        }
        driver(created, || "creating a memory pool".to_owned())?;
        let pool = Self { raw, frees: handles::stream()? };
        let (mut kept, mut may_wait) = (u64::MAX, 0 as c_int);
        // SAFETY: the attributes have these types. A stream that waits for another one's free could wait for a kernel that in
        // turn waits for this stream.
        let set = unsafe {
            let kept = sys::cuMemPoolSetAttribute(
                raw,
                sys::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
                (&raw mut kept).cast(),
            );
            let waits = sys::CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
            kept.ok().and_then(|()| sys::cuMemPoolSetAttribute(raw, waits, (&raw mut may_wait).cast()).ok())
        };
        driver(set, || "setting up a memory pool".to_owned())?;
        Ok(Some(pool))
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: the pool is this object's. Its memory in use is released when it is freed, with the context at the latest.
        let _ = unsafe { sys::cuMemPoolDestroy(self.raw) };
    }
}
