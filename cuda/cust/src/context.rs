//! Contexts: a device's primary one, shared by all parts of a program, or one of another library.

use std::collections::BTreeMap;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::error::{CudaError, CudaResult};
use crate::fork::is_forked;
use crate::sys::{self, CUcontext, CUdevice};

/// A context. A device's primary context lives until the last of these, and the last stream, event, module and memory that was
/// created in it, is dropped. A context of another library lives as long as that library keeps it.
#[derive(Debug)]
pub struct Context {
    raw: CUcontext,
    /// The device whose primary context this object has retained.
    retained: Option<CUdevice>,
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
        let context = Self { raw, retained: Some(device.as_raw()) };
        CurrentContext::set_current(&context)?;
        Ok(context)
    }

    /// Wraps a context of another library, which is neither retained nor released, and makes it the calling thread's.
    ///
    /// # Errors
    /// `raw` is null, or the driver finds that it is not a context.
    ///
    /// # Safety
    /// `raw` is null, or a context that outlives this object and all objects that are created in it.
    pub unsafe fn from_raw_borrowed(raw: CUcontext) -> CudaResult<Self> {
        if raw.is_null() {
            return Err(CudaError::InvalidContext);
        }
        let context = Self { raw, retained: None };
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
        let Some(device) = self.retained.filter(|_| !is_forked()) else { return };
        let mut objects = objects();
        match objects.get_mut(&(self.raw as usize)) {
            Some(of) => of.releases.push(device),
            None => {
                drop(objects);
                release(device);
            }
        }
    }
}

fn release(device: CUdevice) {
    // SAFETY: a `Context` that is gone retained it once. After a failure the context lives until the process ends.
    let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(device) };
}

/// The objects in a context that are alive.
#[derive(Default)]
struct Objects {
    alive: usize,
    /// The releases that wait for their end.
    releases: Vec<CUdevice>,
}

/// The contexts with objects in them, by address.
fn objects() -> MutexGuard<'static, BTreeMap<usize, Objects>> {
    static OBJECTS: Mutex<BTreeMap<usize, Objects>> = Mutex::new(BTreeMap::new());
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Part of each object that the driver creates in a context: the driver must not get an object whose context is gone.
#[derive(Debug)]
pub(crate) struct InContext(usize);

impl InContext {
    /// Keeps the current context alive. Call it before the object is created.
    pub fn current() -> CudaResult<Self> {
        let raw = CurrentContext::as_raw()? as usize;
        objects().entry(raw).or_default().alive += 1;
        Ok(Self(raw))
    }
}

impl Drop for InContext {
    fn drop(&mut self) {
        // In a forked process nothing is released, and another thread may have held the lock.
        if is_forked() {
            return;
        }
        let mut objects = objects();
        let Some(of) = objects.get_mut(&self.0) else { return };
        of.alive -= 1;
        if of.alive == 0 {
            let releases = std::mem::take(&mut of.releases);
            objects.remove(&self.0);
            drop(objects);
            releases.into_iter().for_each(release);
        }
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
        // SAFETY: the context is retained, or its owner keeps it.
        unsafe { sys::cuCtxSetCurrent(context.raw) }.ok()
    }

    /// The driver's handle; null if the calling thread has no context.
    ///
    /// # Errors
    /// There is no driver.
    pub fn as_raw() -> CudaResult<CUcontext> {
        let mut raw = ptr::null_mut();
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuCtxGetCurrent(&mut raw) }.ok()?;
        Ok(raw)
    }

    /// The context's device.
    ///
    /// # Errors
    /// The calling thread has no context.
    pub fn get_device() -> CudaResult<Device> {
        // SAFETY: the out parameter is valid.
        let raw = sys::out(|raw| unsafe { sys::cuCtxGetDevice(raw) })?;
        Ok(Device::from_raw(raw))
    }

    /// The context's limit of a resource.
    ///
    /// # Errors
    /// The device has no such limit.
    pub fn get_resource_limit(resource: ResourceLimit) -> CudaResult<usize> {
        // SAFETY: the out parameter is valid.
        sys::out(|value| unsafe { sys::cuCtxGetLimit(value, resource as sys::CUlimit) })
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
