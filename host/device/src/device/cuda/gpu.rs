//! A GPU.

use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use cuda_std::launch::{Limits, Residence};
use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute as Attribute};
use cust::error::CudaResult;
use cust::stream::Stream;
use cust::sys;

use super::super::error::DeviceError;
use super::super::modules::{PtxModule, PtxModules};
use super::found::{
    Found, address_of, attribute, count_devices, driver, find, limits, waits_for_each_launch,
};
use super::handles::{self, PanicSlot};
use super::kernels::Kernels;
use super::lane::Lane;
use super::pool::Pool;
use super::shared::{self, Member, Which};
use super::soil::Soil;

/// A GPU.
pub(in super::super) struct CudaDevice {
    /// Leaked if freeing them could block forever.
    pub(super) handles: ManuallyDrop<Handles>,
    modules: PtxModules,
    pub(super) which: Which,
    pub(super) ordinal: u32,
    pub(super) name: String,
    pub(super) multiprocessors: usize,
    pub(super) limits: Limits,
    /// The limit of a wait in nanoseconds; 0 means no limit.
    pub(super) limit_nanos: AtomicU64,
    pub(super) waits_for_each_launch: bool,
}

/// The driver's objects. They are dropped in this order, the context last.
pub(super) struct Handles {
    /// Set if memory is soiled before each launch.
    pub(super) soil: OnceLock<Soil>,
    pub(super) member: Arc<Member>,
    pub(super) kernels: Kernels,
    pub(super) pool: Option<Pool>,
    pub(super) stream: Stream,
    pub(super) context: Arc<Context>,
}

impl Handles {
    /// Creates the objects in `context`, which is the calling thread's.
    fn new(
        found: &Found,
        which: Which,
        modules: &[&PtxModule],
        context: Arc<Context>,
    ) -> Result<Self, DeviceError> {
        let stream = handles::stream()?;
        let kernels = Kernels::new(modules, (found.major, found.minor))?;
        kernels.stack.set_from_environment()?;
        let member = Arc::new(Member { state: Mutex::default(), panic_slot: PanicSlot::new()? });
        kernels.load_one(&member.panic_slot)?;
        shared::join(which, &member);
        let pool = Pool::new(found.ordinal)?;
        Ok(Self { soil: OnceLock::new(), member, kernels, pool, stream, context })
    }
}

impl CudaDevice {
    pub fn open(ordinal: u32, modules: &PtxModules) -> Result<Self, DeviceError> {
        let found = find(ordinal)?;
        Self::open_found(&found, Which::Primary(ordinal), modules, || {
            Context::new(found.device).map(Arc::new)
        })
    }

    /// Opens the GPU of a context of another library.
    ///
    /// # Safety
    /// `raw` is null, or a context that outlives the device and everything that is created with it.
    pub unsafe fn attach(raw: sys::CUcontext, modules: &PtxModules) -> Result<Self, DeviceError> {
        let count = count_devices()?;
        // SAFETY: the caller's contract is the callee's.
        let context = unsafe { Context::from_raw_borrowed(raw) };
        let attached = context.and_then(|context| Ok((Arc::new(context), CurrentContext::get_device()?)));
        let action = || {
            format!("attaching to the context {raw:?} (pass one that cuCtxCreate returned and that is alive)")
        };
        let (context, device) = driver(attached, action)?;
        let is_it = |&ordinal: &u32| Device::get_device(ordinal) == Ok(device);
        let found = find((0..count).find(is_it).unwrap_or(count))?;
        Self::open_found(&found, Which::Attached(raw.addr()), modules, || Ok(context))
    }

    /// Adds modules. The device has no other handle yet.
    pub fn add(&mut self, modules: PtxModules) -> Result<(), DeviceError> {
        let all = std::mem::replace(&mut self.modules, Vec::new().into()).and(modules);
        let context = Arc::clone(&self.handles.context);
        *self = Self::open_found(&find(self.ordinal)?, self.which, &all, || {
            CurrentContext::set_current(&context)?;
            Ok(context)
        })?;
        Ok(())
    }

    /// Opens a GPU in the context that `context` makes the calling thread's.
    fn open_found(
        found: &Found,
        which: Which,
        modules: &PtxModules,
        context: impl FnOnce() -> CudaResult<Arc<Context>>,
    ) -> Result<Self, DeviceError> {
        let waits_for_each_launch = waits_for_each_launch()?;
        let chosen = modules.best_for(&found.name, found.code.0, found.code.1)?;
        let mut limits = limits(found)?;
        let multiprocessors = attribute(found.device, Attribute::MultiprocessorCount)?;
        let context = driver(context(), || format!("opening {}", found.name));
        let handles = context
            .and_then(|context| Handles::new(found, which, &chosen, context))
            .map_err(|error| shared::explain(error, which, &found.name))?;
        limits.kernels = handles.kernels.names_of_older_ptx(limits.capability).map(Arc::new);
        Ok(Self {
            handles: ManuallyDrop::new(handles),
            modules: modules.clone(),
            which,
            ordinal: found.ordinal,
            name: found.name.clone(),
            multiprocessors: multiprocessors as usize,
            limits,
            limit_nanos: AtomicU64::new(0),
            waits_for_each_launch,
        })
    }

    pub fn raw_context(&self) -> sys::CUcontext {
        self.handles.context.as_raw()
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn multiprocessors(&self) -> usize {
        self.multiprocessors
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    pub fn residence(&self) -> Residence {
        Residence::Cuda(self.ordinal)
    }

    /// Starts to soil local and shared memory before each launch.
    pub fn soil(&self) -> Result<(), DeviceError> {
        self.enter()?;
        if self.handles.soil.get().is_none() {
            let soil = self.recheck(Soil::new(self.multiprocessors, &self.limits))?;
            // Another thread may have been faster; its kernels are equivalent.
            let _ = self.handles.soil.set(soil);
        }
        Ok(())
    }

    /// The number of words that [`Self::unwritten`] writes; 0 if memory is not soiled.
    pub fn unwritten_len(&self) -> usize {
        self.handles.soil.get().map_or(0, Soil::unwritten_len)
    }

    /// Soils local and shared memory, and queues a kernel that copies what it finds there at its start.
    ///
    /// # Safety
    /// `out` is valid on the device for [`Self::unwritten_len`] words. No other code uses them.
    pub unsafe fn unwritten(&self, out: *mut u8) -> Result<(), DeviceError> {
        self.enter()?;
        let Handles { soil, stream, .. } = &*self.handles;
        let Some(soil) = soil.get() else { return Ok(()) };
        // SAFETY: the caller's contract is the callee's.
        self.recheck(unsafe { soil.unwritten(address_of(out), stream) })
    }

    /// # Safety
    /// `to` is valid on the device for `from.len()` bytes.
    pub unsafe fn write(&self, to: *mut u8, from: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: both ends are valid; the synchronisation below ends the copy before the borrow ends.
        unsafe { self.upload(&Lane::default(), to, from.as_ptr(), from.len()) }?;
        self.synchronize()
    }

    /// # Safety
    /// `from` is valid on the device for `to.len()` bytes.
    pub unsafe fn read(&self, to: &mut [u8], from: *const u8) -> Result<(), DeviceError> {
        // SAFETY: as above.
        unsafe { self.download(&Lane::default(), to.as_mut_ptr(), from, to.len()) }?;
        self.synchronize()
    }

    /// Sets the stack of each thread to `bytes`.
    pub fn set_stack_bytes(&self, bytes: usize) -> Result<(), DeviceError> {
        self.enter()?;
        self.drain_if_limited()?;
        self.recheck(self.handles.kernels.stack.set(bytes))
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // An error or timeout here is not reported; it only decides what is freed.
        let _ = self.drain_if_limited();
        if self.is_hung() {
            return;
        }
        // The handles' drops need the context to be current.
        let _ = CurrentContext::set_current(&self.handles.context);
        // SAFETY: the handles are dropped here, once, and not used afterwards.
        unsafe { ManuallyDrop::drop(&mut self.handles) };
    }
}
