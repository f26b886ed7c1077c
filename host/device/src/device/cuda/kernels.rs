//! The loaded modules, their kernels, and the driver calls that launch them.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::{Mutex, OnceLock};

use cuda_std::launch::{LaunchConfig, LaunchError, Limits};
use cust::error::CudaResult;
use cust::function::FunctionAttribute as Attribute;
use cust::module::Module;
use cust::stream::Stream;
use cust::sys::{self, CUfunction, CUstream};

use super::super::error::DeviceError;
use super::super::launches::KernelNeeds;
use super::super::modules::{self, PtxModule};
use super::found::{driver, locked};
use super::handles::PanicSlot;
use super::load;
use super::stack::Stack;

/// Shared memory, static plus dynamic, that a kernel may use without a request (CUDA programming guide, "shared memory" of
/// each compute capability).
const UNASKED_SHARED: u32 = 48 * 1024;

/// Blocks of a cluster that a kernel may use without a request (CUDA programming guide, "thread block clusters").
const PORTABLE_CLUSTER: u32 = 8;

/// The most files that an error names.
const NAMED: usize = 3;

/// The modules of a device. Each is loaded when one of its kernels is first needed.
pub(super) struct Kernels {
    modules: Vec<Loadable>,
    /// Kernel name to module index.
    index: HashMap<String, usize>,
    capability: (u32, u32),
    pub stack: Stack,
    functions: Mutex<HashMap<&'static str, Function>>,
}

/// A module that may have been loaded.
struct Loadable {
    module: PtxModule,
    loaded: OnceLock<Module>,
}

/// A kernel's driver handle and launch limits.
#[derive(Clone, Copy)]
pub(super) struct Function {
    pub raw: CUfunction,
    /// The compute capability that its PTX was compiled for, as 10 * major + minor; 0 if the driver does not report it.
    pub ptx_version: u32,
    max_threads: u32,
    static_shared: u32,
    /// The dynamic shared memory granted by the driver so far.
    granted_shared: u32,
    /// The blocks of a cluster granted by the driver so far.
    granted_cluster: u32,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Function {}

impl Kernels {
    /// Takes the modules for a device of compute capability `major`.`minor`, without loading them.
    pub fn new(modules: &[&PtxModule], (major, minor): (u32, u32)) -> Result<Self, DeviceError> {
        let (index, mut stack) = (modules::index(modules)?, Stack::default());
        for module in modules {
            stack.note(module.text()?);
        }
        let loadable = |module: &&PtxModule| Loadable { module: (*module).clone(), loaded: OnceLock::new() };
        let modules = modules.iter().map(loadable).collect();
        Ok(Self { modules, index, capability: (major, minor), stack, functions: Mutex::default() })
    }

    /// The names of all kernels, if a module is for an older architecture than the device's.
    pub fn names_of_older_ptx(&self, capability: u32) -> Option<HashSet<String>> {
        let is_older = |loadable: &Loadable| loadable.module.target().architecture < capability;
        self.modules.iter().any(is_older).then(|| self.index.keys().cloned().collect())
    }

    /// Loads one module, to detect at once a driver that refuses them. The context is current.
    pub fn load_one(&self, slot: &PanicSlot) -> Result<(), DeviceError> {
        let _functions = locked(&self.functions);
        if self.modules.is_empty() { Ok(()) } else { self.loaded(0, slot).map(drop) }
    }

    /// Whether the module of `kernel` is loaded. Also true if no module has the kernel.
    pub fn is_ready(&self, kernel: &str) -> bool {
        self.index.get(kernel).is_none_or(|&at| self.modules[at].loaded.get().is_some())
    }

    /// Returns the function of `kernel`, after checking `config` against its limits and requesting the dynamic shared memory
    /// and the cluster size. The first call for a module loads it and gives it the address of `slot`, also during a recording.
    /// The context is current.
    pub fn prepare(
        &self,
        kernel: &'static str,
        config: &LaunchConfig,
        limits: &Limits,
        slot: &PanicSlot,
    ) -> Result<Function, DeviceError> {
        // The lock prevents two threads from loading a module twice.
        let mut functions = locked(&self.functions);
        let function = match functions.entry(kernel) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(self.look_up(kernel, slot)?),
        };
        function.check(kernel, config, limits)?;
        if config.shared_bytes > function.granted_shared {
            function.grant(kernel, config.shared_bytes)?;
        }
        if config.cluster > function.granted_cluster {
            function.grant_cluster(kernel, config.cluster)?;
        }
        Ok(*function)
    }

    /// Same as [`Self::prepare`], for a cooperative kernel: all blocks must fit on the device at once.
    pub fn prepare_cooperative(
        &self,
        kernel: &'static str,
        config: &LaunchConfig,
        (limits, multiprocessors): (&Limits, usize),
        slot: &PanicSlot,
    ) -> Result<Function, DeviceError> {
        let function = self.prepare(kernel, config, limits, slot)?;
        let (got, fit) =
            (config.grid.volume(), resident_blocks(kernel, function.raw, config, multiprocessors)?);
        if got > fit {
            return Err(LaunchError::NotResident { kernel, got, fit }.into());
        }
        Ok(function)
    }

    fn look_up(&self, kernel: &str, slot: &PanicSlot) -> Result<Function, DeviceError> {
        let no_such_kernel = || {
            let paths = self.modules.iter().map(|loadable| loadable.module.path().display().to_string());
            let mut modules = paths.take(NAMED).collect::<Vec<_>>().join(", ");
            if let Some(more @ 1..) = self.modules.len().checked_sub(NAMED) {
                modules.push_str(&format!(" and {more} more files"));
            }
            DeviceError::NoSuchKernel { kernel: kernel.to_owned(), modules }
        };
        let at = *self.index.get(kernel).ok_or_else(no_such_kernel)?;
        let module = self.loaded(at, slot)?;
        let path = self.modules[at].module.path();
        let action = || format!("looking for the kernel {kernel} in {}", path.display());
        Function::new(kernel, driver(module.get_function(kernel), action)?.to_raw())
    }

    /// Returns the module with this index, after loading it into the current context if necessary.
    fn loaded(&self, at: usize, slot: &PanicSlot) -> Result<&Module, DeviceError> {
        let Loadable { module, loaded } = &self.modules[at];
        if let Some(module) = loaded.get() {
            return Ok(module);
        }
        let new = unrestricted(|| {
            let new = load::load(module, self.capability)?;
            slot.tell(&new, module.path())?;
            self.stack.prepare(module.text()?)?;
            Ok::<_, DeviceError>(new)
        })?;
        Ok(loaded.get_or_init(|| new))
    }
}

/// Calls the driver in a way that a capture of another library does not forbid: nothing here is captured.
fn unrestricted<R>(work: impl FnOnce() -> R) -> R {
    let mut mode = sys::CU_STREAM_CAPTURE_MODE_RELAXED;
    // SAFETY: the parameter is valid. An error leaves the mode as it is.
    let is_set = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) }.ok().is_ok();
    let result = work();
    if is_set {
        // SAFETY: as above; this is what it was.
        let _ = unsafe { sys::cuThreadExchangeStreamCaptureMode(&mut mode) };
    }
    result
}

/// Reads an attribute of a kernel.
fn attribute(raw: CUfunction, attribute: Attribute) -> CudaResult<u32> {
    let mut value = 0;
    // SAFETY: the out parameter is valid, the function belongs to a loaded module.
    unsafe { sys::cuFuncGetAttribute(&mut value, attribute as c_int, raw) }.ok()?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// The resources that the kernel needs, if the driver reports them.
pub(super) fn needs(function: CUfunction) -> Option<KernelNeeds> {
    let get = |which| attribute(function, which).ok();
    Some(KernelNeeds {
        registers: get(Attribute::NumRegisters)?,
        static_shared: get(Attribute::SharedMemorySizeBytes)?,
        local: get(Attribute::LocalSizeBytes)?,
        max_threads: get(Attribute::MaxThreadsPerBlock)?,
    })
}

/// The number of blocks with this block size, shared memory and cluster that fit at once on a device with `multiprocessors`
/// multiprocessors. The function belongs to a loaded module, and the context is current.
pub(super) fn resident_blocks(
    kernel: &str,
    function: CUfunction,
    config: &LaunchConfig,
    multiprocessors: usize,
) -> Result<u64, DeviceError> {
    let mut count = 0;
    let (status, each) = if config.cluster == 1 {
        let threads = c_int::try_from(config.block.volume()).unwrap_or(c_int::MAX);
        let bytes = config.shared_bytes as usize;
        // SAFETY: the out parameter is valid, and the function belongs to a loaded module.
        let status =
            unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut count, function, threads, bytes) };
        (status, multiprocessors as u64)
    } else {
        let mut attributes = [sys::CUlaunchAttribute::cluster([config.cluster, 1, 1])];
        let launch = driver_config(config, ptr::null_mut(), &mut attributes);
        // SAFETY: as above; the configuration has one attribute, and both outlive the call.
        let status = unsafe { sys::cuOccupancyMaxActiveClusters(&mut count, function, &launch) };
        (status, config.cluster.into())
    };
    driver(status.ok(), || format!("asking how many blocks of {kernel} fit on the device at once"))?;
    Ok(u64::try_from(count).unwrap_or(0) * each)
}

/// The launch configuration for the driver, with a pointer to the attributes.
fn driver_config(
    config: &LaunchConfig,
    stream: CUstream,
    attributes: &mut [sys::CUlaunchAttribute],
) -> sys::CUlaunchConfig {
    let &LaunchConfig { grid, block, shared_bytes, .. } = config;
    sys::CUlaunchConfig {
        grid: [grid.x, grid.y, grid.z],
        block: [block.x, block.y, block.z],
        shared_bytes,
        stream,
        attributes: attributes.as_mut_ptr(),
        attributes_len: attributes.len() as u32,
    }
}

impl Function {
    fn new(kernel: &str, raw: CUfunction) -> Result<Self, DeviceError> {
        let get = |which| {
            attribute(raw, which).map_err(|status| DeviceError::Driver {
                action: format!("asking for {which:?} of {kernel}"),
                status,
            })
        };
        let static_shared = get(Attribute::SharedMemorySizeBytes)?;
        Ok(Self {
            raw,
            ptx_version: attribute(raw, Attribute::PtxVersion).unwrap_or(0),
            max_threads: get(Attribute::MaxThreadsPerBlock)?,
            static_shared,
            granted_shared: UNASKED_SHARED.saturating_sub(static_shared),
            granted_cluster: PORTABLE_CLUSTER,
        })
    }

    /// Checks the block against the kernel's registers and static shared memory.
    fn check(&self, kernel: &'static str, config: &LaunchConfig, limits: &Limits) -> Result<(), DeviceError> {
        let threads = config.block.volume();
        if threads > u64::from(self.max_threads) {
            let (block, max) = (config.block, self.max_threads);
            return Err(LaunchError::TooManyThreads { kernel, block, got: threads, max }.into());
        }
        let got = u64::from(config.shared_bytes) + u64::from(self.static_shared);
        if got > u64::from(limits.max_dynamic_shared_bytes) {
            return Err(
                LaunchError::TooMuchShared { kernel, got, max: limits.max_dynamic_shared_bytes }.into()
            );
        }
        Ok(())
    }

    /// Requests more dynamic shared memory than the driver allows by default.
    fn grant(&mut self, kernel: &str, bytes: u32) -> Result<(), DeviceError> {
        let attribute = Attribute::MaxDynamicSharedSizeBytes;
        // SAFETY: the function belongs to a loaded module.
        let status = unsafe { sys::cuFuncSetAttribute(self.raw, attribute as c_int, bytes as c_int) };
        driver(status.ok(), || format!("granting {bytes} bytes of dynamic shared memory to {kernel}"))?;
        self.granted_shared = bytes;
        Ok(())
    }

    /// Requests clusters with more blocks than the portable size.
    fn grant_cluster(&mut self, kernel: &str, blocks: u32) -> Result<(), DeviceError> {
        let attribute = Attribute::NonPortableClusterSizeAllowed as c_int;
        // SAFETY: the function belongs to a loaded module.
        let status = unsafe { sys::cuFuncSetAttribute(self.raw, attribute, 1) };
        driver(status.ok(), || format!("allowing clusters of {blocks} blocks for {kernel}"))?;
        // The attribute is a flag without a size, and the device's limit was checked before.
        self.granted_cluster = u32::MAX;
        Ok(())
    }
}

/// Queues a launch of `function` on `stream`.
///
/// # Safety
/// - The function and the stream belong to the current context.
/// - `args` has one pointer per parameter, each to a value of the parameter's type.
pub(super) unsafe fn launch(
    function: CUfunction,
    (config, is_cooperative): (&LaunchConfig, bool),
    stream: &Stream,
    args: &[*mut c_void],
) -> CudaResult<()> {
    let &LaunchConfig { grid, block, shared_bytes, cluster, programmatic_stream_serialization } = config;
    // The driver copies the values before it returns and does not write through the pointers.
    let (args, extra) = (args.as_ptr().cast_mut(), ptr::null_mut());
    if cluster == 1 && !is_cooperative && !programmatic_stream_serialization {
        // SAFETY: the caller's function, stream and arguments.
        return unsafe {
            sys::cuLaunchKernel(
                function,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                shared_bytes,
                stream.as_inner(),
                args,
                extra,
            )
        }
        .ok();
    }
    let mut attributes = Vec::new();
    if cluster > 1 {
        attributes.push(sys::CUlaunchAttribute::cluster([cluster, 1, 1]));
    }
    if is_cooperative {
        attributes.push(sys::CUlaunchAttribute::cooperative());
    }
    if programmatic_stream_serialization {
        attributes.push(sys::CUlaunchAttribute::programmatic_stream_serialization());
    }
    let config = driver_config(config, stream.as_inner(), &mut attributes);
    // SAFETY: as above; the configuration points to its attributes, and both outlive the call.
    unsafe { sys::cuLaunchKernelEx(&config, function, args, extra) }.ok()
}
