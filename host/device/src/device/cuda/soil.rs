//! Fills local and shared memory with garbage ("soils" it) before each launch, so that a kernel that reads what it has not
//! written fails every time, not only after other kernels have left data behind.

use std::ffi::{c_int, c_void};

use cuda_std::launch::{LaunchConfig, Limits};
use cust::error::CudaResult;
use cust::function::FunctionAttribute as Attribute;
use cust::module::Module;
use cust::stream::Stream;
use cust::sys::{self, CUfunction};

use super::super::error::DeviceError;
use super::found::driver;
use super::{kernels, load};

/// The kernels, as PTX with a NUL at its end.
const PTX: &str = concat!(include_str!("soil.ptx"), "\0");

/// The byte that fills the memory. Four of them are -1.2e-12 as f32, and out of range as an index.
pub(super) const BYTE: u8 = 0xab;

/// A word of these bytes.
pub(super) const WORD: u32 = u32::from_ne_bytes([BYTE; 4]);

/// Threads per block; two blocks fill a multiprocessor of up to 2048 threads.
const THREADS: u32 = 1024;

/// Blocks per multiprocessor: twice the number that it runs at once, because they may not spread evenly.
const BLOCKS: u32 = 4;

/// The kernels that soil a device's memory.
pub(super) struct Soil {
    local: CUfunction,
    shared: CUfunction,
    unwritten: CUfunction,
    blocks: u32,
    shared_bytes: u32,
    /// Unloaded when dropped.
    _module: Module,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Soil {}
// SAFETY: as above.
unsafe impl Sync for Soil {}

impl Soil {
    /// Loads the kernels into the current context.
    pub fn new(multiprocessors: usize, limits: &Limits) -> Result<Self, DeviceError> {
        let action = || "loading the kernels that soil memory".to_owned();
        let (module, log) = load::load_image(PTX.as_bytes());
        let module = module.map_err(|status| DeviceError::ModuleLoad {
            path: concat!("soil.ptx of ferrowarp ", env!("CARGO_PKG_VERSION")).into(),
            status,
            log,
        })?;
        let function = |name| driver(module.get_function(name), action).map(|function| function.to_raw());
        let (local, shared) = (function("ferrowarp_soil_local")?, function("ferrowarp_soil_shared")?);
        let unwritten = function("ferrowarp_unwritten")?;
        let shared_bytes = limits.max_dynamic_shared_bytes;
        let attribute = Attribute::MaxDynamicSharedSizeBytes as c_int;
        // SAFETY: the function belongs to a loaded module.
        let status = unsafe { sys::cuFuncSetAttribute(shared, attribute, shared_bytes as c_int) };
        driver(status.ok(), action)?;
        [local, shared, unwritten].into_iter().try_for_each(carve_out)?;
        let blocks = BLOCKS * u32::try_from(multiprocessors).unwrap_or(1);
        Ok(Self { local, shared, unwritten, blocks, shared_bytes, _module: module })
    }

    /// Queues the kernels, before a launch of `next`. The context is current.
    pub fn spread(&self, next: CUfunction, stream: &Stream) -> Result<(), DeviceError> {
        carve_out(next)?;
        let config = LaunchConfig::new(self.blocks, THREADS);
        self.queue(self.local, &config, stream, &mut [&mut { WORD }])?;
        let config = config.with_shared_bytes(self.shared_bytes);
        self.queue(self.shared, &config, stream, &mut [&mut { WORD }, &mut { self.shared_bytes }])
    }

    /// The number of words that [`Self::unwritten`] writes.
    pub fn unwritten_len(&self) -> usize {
        2 * (self.blocks * THREADS) as usize
    }

    /// Soils the memory and queues a kernel that copies unwritten words of its local and shared memory.
    ///
    /// # Safety
    /// `out` is the address of [`Self::unwritten_len`] words. No other code uses them.
    pub unsafe fn unwritten(&self, mut out: u64, stream: &Stream) -> Result<(), DeviceError> {
        self.spread(self.unwritten, stream)?;
        let config = LaunchConfig::new(self.blocks, THREADS).with_shared_bytes(4 * THREADS);
        let args: [*mut c_void; 1] = [(&raw mut out).cast()];
        // SAFETY: the function belongs to this context, and the caller's contract covers its one parameter, the address.
        launched(unsafe { kernels::launch(self.unwritten, (&config, false), stream, &args) })
    }

    fn queue(
        &self,
        function: CUfunction,
        config: &LaunchConfig,
        stream: &Stream,
        words: &mut [&mut u32],
    ) -> Result<(), DeviceError> {
        let args: Vec<*mut c_void> = words.iter_mut().map(|word| (&raw mut **word).cast()).collect();
        // SAFETY: the function belongs to this context; each of its parameters is a word.
        launched(unsafe { kernels::launch(function, (config, false), stream, &args) })
    }
}

/// Requests all of a multiprocessor's shared memory. Otherwise a kernel that needs less may get storage that L1 has used,
/// with the cache's data instead of the soil.
fn carve_out(function: CUfunction) -> Result<(), DeviceError> {
    const PERCENT: c_int = 100;
    let attribute = Attribute::PreferredSharedMemoryCarveout as c_int;
    // SAFETY: the function belongs to a loaded module.
    launched(unsafe { sys::cuFuncSetAttribute(function, attribute, PERCENT) }.ok())
}

fn launched(result: CudaResult<()>) -> Result<(), DeviceError> {
    driver(result, || "soiling local and shared memory".to_owned())
}
