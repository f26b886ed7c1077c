//! A CUDA GPU as a device: a context, streams and modules, and the launches that a fault may come from.
//!
//! The driver's functions come from [`cust::sys`]. Each call first makes the context current in the calling thread, so a
//! device may be used from any thread.

mod handles;
mod kernels;
mod launch;
mod load;
mod pool;
mod shared;
pub(super) mod soil;
mod stack;
mod streams;
pub(super) mod timing;
mod unified;
mod wait;

use std::mem::ManuallyDrop;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use cuda_std::launch::{Dim3, Limits, Residence};
use cust::CudaFlags;
use cust::context::{Context, CurrentContext};
use cust::device::{Device, DeviceAttribute as Attribute};
use cust::error::{CudaError, CudaResult};
use cust::stream::Stream;
use cust::sys;

use super::DeviceError;
use super::fault::KernelFault;
use super::launches::QueuedLaunches;
use super::modules::{PtxModule, PtxModules};
use handles::PanicSlot;
use kernels::Kernels;
pub(super) use pool::Allocated;
use pool::Pool;
use shared::{Member, Which};
use soil::Soil;
pub(super) use streams::Lane;
use streams::Queue;

/// The variables that make every launch wait for its end, so that a fault belongs to it: ours and the driver's.
const SYNC_VARIABLES: [&str; 2] = ["FERROWARP_SYNC", "CUDA_LAUNCH_BLOCKING"];

/// Whether one of [`SYNC_VARIABLES`] is set.
pub(super) fn waits_for_each_launch() -> Result<bool, DeviceError> {
    let mut waits = false;
    for name in SYNC_VARIABLES {
        match std::env::var_os(name).unwrap_or_default().to_string_lossy() {
            value if value == "1" => waits = true,
            value if value.is_empty() || value == "0" => {}
            value => {
                let expected = "1 to wait for each launch or to 0";
                return Err(DeviceError::Variable { name, value: value.into_owned(), expected });
            }
        }
    }
    Ok(waits)
}

/// The smallest compute capability that can begin a launch before the previous one has ended.
const PROGRAMMATIC_LAUNCH: u32 = 90;

/// A GPU.
pub(super) struct CudaDevice {
    /// Leaked if freeing them could block forever.
    handles: ManuallyDrop<Handles>,
    modules: PtxModules,
    which: Which,
    ordinal: u32,
    name: String,
    multiprocessors: usize,
    limits: Limits,
    /// The limit of a wait in nanoseconds; 0 means no limit.
    limit_nanos: AtomicU64,
    waits_for_each_launch: bool,
}

/// The driver's objects. They are dropped in this order, the context last.
struct Handles {
    /// Set if memory is soiled before each launch.
    soil: OnceLock<Soil>,
    member: Arc<Member>,
    kernels: Kernels,
    pool: Option<Pool>,
    stream: Stream,
    context: Arc<Context>,
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

#[derive(Default)]
struct State {
    /// Launches since the last synchronisation.
    queued: QueuedLaunches,
    /// The additional streams, by number.
    streams: Vec<(u32, Queue)>,
    /// The streams of the recording in progress, by the number of the stream that each stands for.
    recording: Vec<(u32, Queue)>,
    /// The first failure of a kernel or of the GPU.
    fault: Option<Arc<KernelFault>>,
}

/// A device before its context is created.
pub(super) struct Found {
    device: Device,
    ordinal: u32,
    pub name: String,
    pub major: u32,
    pub minor: u32,
}

/// Loads and initialises the driver and counts its devices.
///
/// # Errors
/// The driver is missing or does not start. No devices are not an error: the count is 0.
pub(super) fn count_devices() -> Result<u32, DeviceError> {
    cust::load()?;
    match cust::init(CudaFlags::empty()) {
        Err(CudaError::NoDevice) => return Ok(0),
        started => driver(started, || "starting the CUDA driver".to_owned())?,
    }
    driver(Device::num_devices(), || "counting the CUDA devices".to_owned())
}

/// Finds the device with this ordinal.
///
/// # Errors
/// There is no driver or no such device.
pub(super) fn find(ordinal: u32) -> Result<Found, DeviceError> {
    let count = count_devices()?;
    if ordinal >= count {
        return Err(DeviceError::NoDevice { ordinal, count });
    }
    let device = driver(Device::get_device(ordinal), || format!("getting CUDA device {ordinal}"))?;
    Ok(Found {
        device,
        ordinal,
        name: driver(device.name(), || format!("asking for the name of CUDA device {ordinal}"))?,
        major: attribute(device, Attribute::ComputeCapabilityMajor)?,
        minor: attribute(device, Attribute::ComputeCapabilityMinor)?,
    })
}

fn attribute(device: Device, attribute: Attribute) -> Result<u32, DeviceError> {
    let value = driver(device.get_attribute(attribute), || format!("asking for {attribute:?}"))?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn limits(Found { device, major, minor, .. }: &Found) -> Result<Limits, DeviceError> {
    let get = |which| attribute(*device, which);
    Ok(Limits {
        max_grid: Dim3::new(
            get(Attribute::MaxGridDimX)?,
            get(Attribute::MaxGridDimY)?,
            get(Attribute::MaxGridDimZ)?,
        ),
        max_block: Dim3::new(
            get(Attribute::MaxBlockDimX)?,
            get(Attribute::MaxBlockDimY)?,
            get(Attribute::MaxBlockDimZ)?,
        ),
        max_threads_per_block: get(Attribute::MaxThreadsPerBlock)?,
        max_dynamic_shared_bytes: get(Attribute::MaxSharedMemoryPerBlockOptin)?,
        max_cluster: max_cluster(*major),
        max_resident_threads: u64::from(get(Attribute::MultiprocessorCount)?)
            * u64::from(get(Attribute::MaxThreadsPerMultiprocessor)?),
        capability: 10 * major + minor,
        runs_cpu_only: false,
        kernels: None,
    })
}

/// The most blocks of a cluster by compute capability: 8 since 9.0, and 16 on the large dies of 9.x and 10.x, where our
/// launches request them (CUDA programming guide, "technical specifications per compute capability").
fn max_cluster(major: u32) -> u32 {
    match major {
        ..9 => 1,
        9 | 10 => 16,
        _ => 8,
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Converts the driver's result, with `action` in the error.
fn driver<T>(result: CudaResult<T>, action: impl FnOnce() -> String) -> Result<T, DeviceError> {
    result.map_err(|status| DeviceError::Driver { action: action(), status })
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
        let chosen = modules.best_for(&found.name, found.major, found.minor)?;
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
        self.enter()?;
        let bytes = from.len();
        // SAFETY: both ends are valid; the synchronisation below ends the copy before the borrow ends.
        let status = unsafe {
            sys::cuMemcpyHtoDAsync_v2(
                address_of(to),
                from.as_ptr().cast(),
                bytes,
                self.handles.stream.as_inner(),
            )
        };
        self.check(status.ok(), || format!("copying {bytes} bytes to {}", self.name))?;
        self.synchronize()
    }

    /// # Safety
    /// `from` is valid on the device for `to.len()` bytes.
    pub unsafe fn read(&self, to: &mut [u8], from: *const u8) -> Result<(), DeviceError> {
        self.enter()?;
        let bytes = to.len();
        // SAFETY: both ends are valid; the synchronisation below ends the copy before the borrow ends.
        let status = unsafe {
            sys::cuMemcpyDtoHAsync_v2(
                to.as_mut_ptr().cast(),
                address_of(from.cast_mut()),
                bytes,
                self.handles.stream.as_inner(),
            )
        };
        self.check(status.ok(), || format!("copying {bytes} bytes from {}", self.name))?;
        self.synchronize()
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

/// The device address in a buffer's pointer.
fn address_of(pointer: *mut u8) -> u64 {
    pointer.expose_provenance() as u64
}
