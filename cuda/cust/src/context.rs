//! Primary contexts: each device has one, shared by all parts of a program.

use std::ptr;

use crate::device::Device;
use crate::error::CudaResult;
use crate::sys::{self, CUcontext, CUdevice};

/// The primary context of a device. It lives until the last of these is dropped.
#[derive(Debug)]
pub struct Context {
    raw: CUcontext,
    device: CUdevice,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Context {}
// SAFETY: same as for `Send`.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the device's primary context and makes it the calling thread's.
    ///
    /// # Errors
    /// The context cannot be created, for example because the device has no memory left for it.
    pub fn new(device: Device) -> CudaResult<Self> {
        let mut raw = ptr::null_mut();
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuDevicePrimaryCtxRetain(&mut raw, device.as_raw()) }.ok()?;
        let context = Self { raw, device: device.as_raw() };
        CurrentContext::set_current(&context)?;
        Ok(context)
    }

    /// The driver's handle.
    pub fn as_raw(&self) -> CUcontext {
        self.raw
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: this object retained it once. After a failure the context lives until the process ends.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

/// A resource that a context limits; the numbers are those of `CUlimit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ResourceLimit {
    /// Bytes of stack per thread.
    StackSize = 0,
}

/// The calling thread's context.
#[derive(Debug)]
pub struct CurrentContext;

impl CurrentContext {
    /// Makes `context` the calling thread's.
    ///
    /// # Errors
    /// The context has been destroyed by its device's reset.
    pub fn set_current(context: &Context) -> CudaResult<()> {
        // SAFETY: the context is retained.
        unsafe { sys::cuCtxSetCurrent(context.raw) }.ok()
    }

    /// The context's limit of a resource.
    ///
    /// # Errors
    /// The device has no such limit.
    pub fn get_resource_limit(resource: ResourceLimit) -> CudaResult<usize> {
        let mut value = 0;
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuCtxGetLimit(&mut value, resource as sys::CUlimit) }.ok()?;
        Ok(value)
    }

    /// Sets the context's limit of a resource to `limit`, or the closest value that the device supports.
    ///
    /// # Errors
    /// The device has no such limit, or not enough memory for it.
    pub fn set_resource_limit(resource: ResourceLimit, limit: usize) -> CudaResult<()> {
        // SAFETY: the call accepts any value.
        unsafe { sys::cuCtxSetLimit(resource as sys::CUlimit, limit) }.ok()
    }

    /// Waits for all work of the context.
    pub fn synchronize() -> CudaResult<()> {
        // SAFETY: the call has no precondition.
        unsafe { sys::cuCtxSynchronize() }.ok()
    }
}
