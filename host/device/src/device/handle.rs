//! A device.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cuda_std::launch::{
    Dim3, KernelCall, KernelMeta, LaunchConfig, LaunchError, Launcher, Limits, PtrMutArg as _, Residence,
};
use cuda_std::simt::Executor;

use super::allocations::Allocations;
use super::cpu::CpuDevice;
use super::cuda::{CudaDevice, Lane};
use super::error::DeviceError;
use super::order::Order;
use super::owners::Open;
use super::profile::Profile;
use super::transfer::TransferTimes;
use crate::device_profile::DeviceProfile;

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
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub backend: Backend,
    pub order: Order,
    pub allocations: Allocations,
    transfers: Mutex<TransferTimes>,
    pub profile: Profile,
    open: Open,
}

pub(super) enum Backend {
    Cpu(CpuDevice),
    Cuda(Box<CudaDevice>),
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
        Self::of(Backend::Cpu(CpuDevice::of_executor(executor)))
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
        Self::of(Backend::Cpu(CpuDevice::new(Box::new(launcher), limits, multiprocessors)))
    }

    pub(super) fn of(backend: Backend) -> Device {
        let (order, allocations, transfers, profile, open) = Default::default();
        Device { inner: Arc::new(Inner { backend, order, allocations, transfers, profile, open }) }
    }

    /// Limits waits for queued work: they end after `limit` with an error of the kind [`FaultKind::TimedOut`](super::FaultKind::TimedOut). The limit
    /// holds for all handles to the device, and a later call replaces it.
    ///
    /// A synchronisation, a copy and every 256th launch wait for all work queued since the last wait. After
    /// the error the device is unusable. Its buffers are kept until the process ends, since the driver would block forever
    /// when freeing them; call [`exit_if_hung`](super::exit_if_hung) last in `main`.
    ///
    /// On the CPU nothing changes: there `FERROWARP_KERNEL_SECONDS` in the environment limits each launch.
    pub fn with_time_limit(self, limit: Duration) -> Device {
        if let Some(cuda) = self.gpu() {
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
        if let Some(cuda) = self.gpu() {
            cuda.soil()?;
        }
        Ok(self)
    }

    /// Sets the stack of each thread to `bytes` bytes, for all handles to the device.
    ///
    /// The default, unless the environment has `FERROWARP_STACK_BYTES`, is the driver's 1024 bytes. It becomes 8192 once a
    /// module is loaded with a kernel of unknown stack size, that is, with recursion or calls through pointers. This stack
    /// is for such calls only: the driver provides what a kernel is known to need. All threads that the GPU can run at once
    /// have a stack, so 8192 bytes take 2 GiB on an H100.
    ///
    /// On the CPU nothing changes: there `FERROWARP_STACK_KIB` sets the size.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu().with_stack_bytes(16 << 10)?;
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::NoStack`] if the device does not have enough memory; the device failed.
    pub fn with_stack_bytes(self, bytes: usize) -> Result<Device, DeviceError> {
        if let Some(cuda) = self.gpu() {
            cuda.set_stack_bytes(bytes)?;
        }
        Ok(self)
    }

    /// Some words that a kernel finds in unwritten local and shared memory, from every multiprocessor; empty unless
    /// [`Device::with_soiled_memory`] was called.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    pub fn unwritten_memory(&self) -> Result<Vec<u32>, DeviceError> {
        let Some(cuda) = self.gpu() else { return Ok(Vec::new()) };
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

    pub(super) fn gpu(&self) -> Option<&CudaDevice> {
        match &self.inner.backend {
            Backend::Cpu(_) => None,
            Backend::Cuda(cuda) => Some(cuda),
        }
    }

    /// Whether it is a GPU.
    pub fn is_cuda(&self) -> bool {
        self.gpu().is_some()
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
        self.gpu().map_or(Residence::Host, CudaDevice::residence)
    }

    /// A number that no other device of this process ever has.
    #[doc(hidden)]
    pub fn serial_number(&self) -> u64 {
        self.inner.open.0
    }

    /// A number that no other open device has.
    pub(super) fn id(&self) -> usize {
        Arc::as_ptr(&self.inner).addr()
    }

    /// Whether both are handles to the same device. Work on two devices is not ordered, except on the CPU, which refuses what
    /// a GPU refuses.
    pub fn is_in_order_with(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// The copies between host and device so far. On the CPU they are copies within memory.
    pub fn transfer_times(&self) -> TransferTimes {
        *self.inner.transfers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_transfer(&self, add: impl FnOnce(&mut TransferTimes)) {
        add(&mut self.inner.transfers.lock().unwrap_or_else(PoisonError::into_inner));
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
    pub(super) fn wait_before(&self, action: &'static str) -> Result<(), DeviceError> {
        self.refuse_in_recorded_work(action)?;
        self.wait_for_all()
    }

    /// # Safety
    /// `to` is valid in this device's memory for `from.len()` bytes. Only kernels queued on this device use them.
    pub(super) unsafe fn raw_write(&self, to: *mut u8, from: &[u8]) -> Result<(), DeviceError> {
        self.wait_before("copying to the device")?;
        let start = Instant::now();
        match self.gpu() {
            // SAFETY: both are valid by the caller's contract. The slice is not in the buffer's memory, so they do not
            // overlap.
            None => unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) },
            // SAFETY: the caller's contract is the callee's.
            Some(cuda) => unsafe { cuda.write(to, from) }?,
        }
        self.note_transfer(|times| times.host_to_device.add(start.elapsed(), from.len()));
        Ok(())
    }

    /// # Safety
    /// `from` is valid in this device's memory for `to.len()` bytes.
    pub(super) unsafe fn raw_read(&self, to: &mut [u8], from: *const u8) -> Result<(), DeviceError> {
        self.wait_before("copying from the device")?;
        let start = Instant::now();
        match self.gpu() {
            // SAFETY: same as in `raw_write`.
            None => unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), to.len()) },
            // SAFETY: the caller's contract is the callee's.
            Some(cuda) => unsafe { cuda.read(to, from) }?,
        }
        self.note_transfer(|times| times.device_to_host.add(start.elapsed(), to.len()));
        Ok(())
    }
}

impl From<&Device> for DeviceProfile {
    /// A device that runs CPU-only kernels counts as a CPU, without clusters: the executor runs a cluster on one core, with
    /// a stack for each of up to 16384 threads, whereas the pair of kernels spreads over all cores.
    fn from(device: &Device) -> Self {
        let mut limits = device.limits().clone();
        let is_cpu = limits.runs_cpu_only;
        if is_cpu {
            limits.max_cluster = 1;
        }
        Self { limits, multiprocessors: device.multiprocessors(), is_cpu }
    }
}

impl Launcher for Device {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.submit_on(&Lane::default(), call) }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({} on {})", self.name(), self.residence())
    }
}
