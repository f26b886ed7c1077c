//! Devices: one interface to a CUDA GPU and to the CPU.
//!
//! A [`Device`] owns memory ([`Buffer`]) and runs kernels: it is a [`Launcher`], so the typed `launch` function of every
//! kernel takes it. On the GPU a launch is queued and returns at once; a kernel's failure appears at [`Device::synchronize`]
//! or at the next copy, as a [`KernelFault`] that names the launches that may have caused it. With `FERROWARP_SYNC=1` in the
//! environment, every launch waits for its end, so the fault names exactly one launch. On the CPU a launch returns when the
//! kernel has ended.
//!
//! A device does its work in order, except work on separate [`Stream`]s. A [`Graph`] is work that is recorded once and
//! launched many times.
//!
//! [`soundness`] lists what makes the safe functions sound.

mod allocate;
mod buffer;
mod cpu;
mod cuda;
pub(crate) mod error;
mod fault;
mod graph;
mod hung;
mod launches;
pub(crate) mod memory;
mod modules;
mod open;
mod order;
mod owners;
mod panic;
mod pinned;
mod profile;
mod ptx_header;
mod queue;
mod race;
mod raw;
#[doc = include_str!("soundness.md")]
pub mod soundness {}
mod stack;
pub(crate) mod stream;
mod tensor_map;
mod testing;
mod timing;
mod transfer;
mod unified;

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cuda_std::launch::{
    Dim3, KernelCall, KernelMeta, LaunchConfig, LaunchError, Launcher, Limits, PtrMutArg as _, Residence,
};
use cuda_std::simt::Executor;

use crate::DeviceProfile;

pub use allocate::FreeMemory;
pub use buffer::{Buffer, BufferView, BufferViewMut};
pub use error::DeviceError;
pub use fault::{FaultKind, KernelFault};
pub use graph::Graph;
pub use hung::exit_if_hung;
pub use launches::{KernelNeeds, Launch};
#[doc(hidden)]
pub use modules::BROUGHT;
pub use modules::{PtxModule, PtxModules, PtxTarget};
pub use open::{DeviceChoice, open, open_with, parse_time_limit};
pub use panic::DevicePanic;
pub use pinned::{InFlight, PinnedBuffer};
pub use profile::{LaunchTimes, Launched, Peaks};
pub use queue::Queue;
pub use race::{DataRace, StreamAccess, StreamWork};
pub use stack::UnboundedStack;
pub use stream::{Event, Stream};
pub use transfer::{Transfer, TransferTimes};
pub use unified::{Advice, Place, UnifiedBuffer};

/// A device that holds buffers and runs kernels. Clones are handles to the same device.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let device = Device::cpu();
/// let mut buffer = device.upload(&[1.0f32, 2.0])?;
/// buffer.copy_from(&[3.0, 4.0])?;
/// assert_eq!(buffer.to_vec()?, [3.0, 4.0]);
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

struct Inner {
    backend: Backend,
    order: order::Order,
    allocations: memory::Allocations,
    transfers: Mutex<TransferTimes>,
    profile: profile::Profile,
    _open: owners::Open,
}

enum Backend {
    Cpu(cpu::CpuDevice),
    Cuda(Box<cuda::CudaDevice>),
}

impl Device {
    /// Opens the CPU with all cores. In a debug build on Linux, an access past the end of a buffer is an error that names the thread.
    pub fn cpu() -> Device {
        Self::cpu_with(Executor::new())
    }

    /// Opens the CPU with the caller's executor, for other limits, fewer cores or a schedule seed.
    ///
    /// ```
    /// use cuda_std::simt::Executor;
    /// use ferrowarp::device::Device;
    ///
    /// let device = Device::cpu_with(Executor::new().with_seed(7)); // Another order of blocks and threads.
    /// assert!(!device.is_cuda());
    /// ```
    pub fn cpu_with(executor: Executor) -> Device {
        Self::of(Backend::Cpu(cpu::CpuDevice::of_executor(executor)))
    }

    /// Makes a device in host memory that runs kernels through `launcher`, one launch at a time: a GPU emulator, or an
    /// executor that counts. `limits` are its launch limits and decide whether it runs [CPU-only
    /// kernels](Limits::runs_cpu_only).
    pub fn with_launcher(launcher: impl Launcher + Send + Sync + 'static, limits: Limits) -> Device {
        Self::with_profile(launcher, DeviceProfile { limits, multiprocessors: 1, is_cpu: false })
    }

    /// Same as [`Self::with_launcher`], with a number of multiprocessors, on which the choice of kernels depends.
    #[doc(hidden)]
    pub fn with_profile(launcher: impl Launcher + Send + Sync + 'static, profile: DeviceProfile) -> Device {
        let DeviceProfile { limits, multiprocessors, .. } = profile;
        Self::of(Backend::Cpu(cpu::CpuDevice::new(Box::new(launcher), limits, multiprocessors)))
    }

    fn of(backend: Backend) -> Device {
        let (order, allocations, transfers, profile, _open) = Default::default();
        Device { inner: Arc::new(Inner { backend, order, allocations, transfers, profile, _open }) }
    }

    /// Limits waits for queued work: they end after `limit` with an error of the kind [`FaultKind::TimedOut`]. The limit
    /// holds for all handles to the device, and a later call replaces it.
    ///
    /// A synchronisation, a copy and every 256th launch wait for all work queued since the last wait. After
    /// the error the device is unusable. Its buffers are kept until the process ends, since the driver would block forever
    /// when freeing them; call [`exit_if_hung`] last in `main`.
    ///
    /// On the CPU nothing changes: there `FERROWARP_KERNEL_SECONDS` in the environment limits each launch.
    pub fn with_time_limit(self, limit: Duration) -> Device {
        if let Backend::Cuda(cuda) = &self.inner.backend {
            cuda.set_time_limit(limit);
        }
        self
    }

    /// Makes a GPU fill its local and shared memory with bytes of 0xab before each launch, so that a kernel that reads there
    /// before it writes fails every time, not only after another kernel has left data behind. In local memory it fills each
    /// thread's first 16 KiB. This holds for all handles to the device. A launch takes about a millisecond longer.
    ///
    /// On the CPU nothing changes: there Miri and the emulator report such reads.
    ///
    /// # Errors
    /// The driver refuses the kernels that fill the memory, or the device failed.
    pub fn with_soiled_memory(self) -> Result<Device, DeviceError> {
        if let Backend::Cuda(cuda) = &self.inner.backend {
            cuda.soil()?;
        }
        Ok(self)
    }

    /// Some words that a kernel finds in unwritten local and shared memory, from every multiprocessor; empty unless
    /// [`Device::with_soiled_memory`] was called.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    pub fn unwritten_memory(&self) -> Result<Vec<u32>, DeviceError> {
        let Backend::Cuda(cuda) = &self.inner.backend else { return Ok(Vec::new()) };
        let mut words = self.alloc_zeroed::<u32>(cuda.unwritten_len())?;
        let first = (&mut words).as_raw_mut_ptr();
        // SAFETY: the buffer has the number of words that is needed and is borrowed exclusively; reading them waits for the
        // kernel.
        unsafe { cuda.unwritten(first.cast()) }?;
        words.to_vec()
    }

    /// The manufacturer's name for it.
    pub fn name(&self) -> String {
        match &self.inner.backend {
            Backend::Cpu(cpu) => cpu.name(),
            Backend::Cuda(cuda) => cuda.name().to_owned(),
        }
    }

    /// Whether it is a GPU.
    pub fn is_cuda(&self) -> bool {
        matches!(self.inner.backend, Backend::Cuda(_))
    }

    /// Multiprocessors of the GPU, or cores of the CPU that kernels run on.
    pub fn multiprocessors(&self) -> usize {
        match &self.inner.backend {
            Backend::Cpu(cpu) => cpu.workers,
            Backend::Cuda(cuda) => cuda.multiprocessors(),
        }
    }

    /// The limits of one launch.
    pub fn limits(&self) -> &Limits {
        match &self.inner.backend {
            Backend::Cpu(cpu) => &cpu.limits,
            Backend::Cuda(cuda) => cuda.limits(),
        }
    }

    /// The number of blocks of this kernel, with the block size, shared memory and cluster of `config`, that fit on the
    /// device at once. This is the largest grid of a cooperative launch. The grid of `config` is ignored.
    ///
    /// ```
    /// use cuda_std::launch::LaunchConfig;
    /// use cuda_std::{grid, kernel};
    /// use ferrowarp::device::Device;
    ///
    /// /// # Safety
    /// /// `counter` as `grid::sync` asks.
    /// #[kernel(cooperative)]
    /// pub unsafe fn meet(counter: *mut u32) {
    ///     // SAFETY: all threads come here.
    ///     unsafe { grid::sync(counter) };
    /// }
    ///
    /// let (device, one) = (Device::cpu(), LaunchConfig::new(1, 256));
    /// let blocks = device.resident_blocks(meet::META, &one)?;
    /// assert!(blocks >= 100);
    /// # Ok::<(), ferrowarp::device::DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// A block of this size cannot be launched, the device has no such kernel, or it failed.
    pub fn resident_blocks(
        &self,
        meta: &'static KernelMeta,
        config: &LaunchConfig,
    ) -> Result<u64, DeviceError> {
        let one = LaunchConfig { grid: Dim3::new(config.cluster, 1, 1), ..*config };
        self.limits().check_kernel(meta)?;
        self.limits().check(meta.name, &one)?;
        match &self.inner.backend {
            Backend::Cpu(cpu) => Ok(cpu.limits.resident_blocks(&one)),
            Backend::Cuda(cuda) => cuda.resident_blocks(meta, &one, self.inner.order.is_in_recorded_work()),
        }
    }

    /// The memory that its buffers live in.
    pub fn residence(&self) -> Residence {
        match &self.inner.backend {
            Backend::Cpu(_) => Residence::Host,
            Backend::Cuda(cuda) => cuda.residence(),
        }
    }

    /// Whether both are handles to the same device. Work on two devices is not ordered, except on the CPU, which refuses what
    /// a GPU refuses.
    pub fn is_in_order_with(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Waits until all queued work on all streams has ended.
    ///
    /// # Errors
    /// [`DeviceError::KernelFault`] if a kernel failed since the last synchronisation, [`DeviceError::Faulted`] if one
    /// failed before that; [`DeviceError::NotRecordable`] in recorded work.
    pub fn synchronize(&self) -> Result<(), DeviceError> {
        self.wait_before("synchronising")
    }

    /// Waits until all queued work has ended, before `action`.
    fn wait_before(&self, action: &'static str) -> Result<(), DeviceError> {
        self.refuse_in_recorded_work(action)?;
        self.wait_for_all()
    }

    /// # Safety
    /// `to` is valid in this device's memory for `from.len()` bytes. Only kernels queued on this device use them.
    unsafe fn raw_write(&self, to: *mut u8, from: &[u8]) -> Result<(), DeviceError> {
        self.wait_before("copying to the device")?;
        let start = Instant::now();
        match &self.inner.backend {
            // SAFETY: both are valid by the caller's contract. The slice is not in the buffer's memory, so they do not
            // overlap.
            Backend::Cpu(_) => unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) },
            // SAFETY: the caller's contract is the callee's.
            Backend::Cuda(cuda) => unsafe { cuda.write(to, from) }?,
        }
        self.note_transfer(|times| times.host_to_device.add(start.elapsed(), from.len()));
        Ok(())
    }

    /// # Safety
    /// `from` is valid in this device's memory for `to.len()` bytes.
    unsafe fn raw_read(&self, to: &mut [u8], from: *const u8) -> Result<(), DeviceError> {
        self.wait_before("copying from the device")?;
        let start = Instant::now();
        match &self.inner.backend {
            // SAFETY: both are valid by the caller's contract. The slice is not in the buffer's memory, so they do not
            // overlap.
            Backend::Cpu(_) => unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) },
            // SAFETY: the caller's contract is the callee's.
            Backend::Cuda(cuda) => unsafe { cuda.read(to, from) }?,
        }
        self.note_transfer(|times| times.device_to_host.add(start.elapsed(), to.len()));
        Ok(())
    }
}

/// Why an allocation failed.
enum RawAllocError {
    /// There is not enough memory.
    Full {
        /// The reason in words.
        reason: String,
        /// The free memory, if it is known.
        memory: Option<FreeMemory>,
    },
    /// Something else failed.
    Device(DeviceError),
}

impl RawAllocError {
    fn system_is_full() -> Self {
        Self::Full { reason: "the system does not have that much".to_owned(), memory: None }
    }
}

impl Launcher for Device {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.submit_on(&cuda::Lane::default(), call) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} on {})", self.name(), self.residence())
    }
}
