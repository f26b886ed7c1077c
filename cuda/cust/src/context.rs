//! Primary contexts: each device has one, which the parts of a program share.

use std::ffi::c_uint;
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
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Retains the device's primary context and makes it the calling thread's.
    ///
    /// # Errors
    /// The context cannot be made, as when the device has no memory left for it.
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
        // SAFETY: retained once by this object. A failure leaves the context to the end of the process.
        let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
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

    /// Sets how many bytes of stack each thread has where a kernel's own need is not known, because of recursion or of calls
    /// by pointers. Kernels whose need is known get it anyway.
    ///
    /// # Errors
    /// There is not so much memory for all threads that can be resident.
    pub fn set_stack_bytes(bytes: usize) -> CudaResult<()> {
        const CU_LIMIT_STACK_SIZE: c_uint = 0;
        // SAFETY: the call has no precondition.
        unsafe { sys::cuCtxSetLimit(CU_LIMIT_STACK_SIZE, bytes) }.ok()
    }

    /// Waits for all its work.
    pub fn synchronize() -> CudaResult<()> {
        // SAFETY: the call has no precondition.
        unsafe { sys::cuCtxSynchronize() }.ok()
    }
}
