//! The errors of a device.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use cuda_std::launch::{LaunchError, Residence};
use cuda_std::tensor::TensorMapError;
use cust::LoadError;
use cust::error::CudaError;

use super::arch::how_to_serve;
use super::fault::KernelFault;
use super::launches::{KernelNeeds, Launch};
use super::placement::FreeMemory;
use super::race::DataRace;

/// Why a device could not be opened, or an operation on it failed.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let error = Device::cpu().alloc_zeroed::<u64>(usize::MAX).unwrap_err();
/// assert!(matches!(error, DeviceError::OutOfMemory { element_bytes: 8, .. }));
/// println!("{error}");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// This machine has no CUDA driver.
    #[error(transparent)]
    NoDriver(#[from] LoadError),
    /// A call of the CUDA driver failed.
    #[error("{action} failed: {status}")]
    Driver {
        /// The action, with its values.
        action: String,
        /// The driver's error.
        status: CudaError,
    },
    /// There is no CUDA device with this ordinal.
    #[error(
        "there is no CUDA device {ordinal}: the driver sees {count}; choose a lower ordinal, or see what \
         CUDA_VISIBLE_DEVICES hides"
    )]
    NoDevice {
        /// The ordinal asked for.
        ordinal: u32,
        /// The number of devices that the driver sees.
        count: u32,
    },
    /// No PTX was found anywhere.
    #[error(
        "no PTX found in {looked}; build it with `cargo xtask build-ptx` or name it in FERROWARP_PTX, or run on the CPU"
    )]
    PtxMissing {
        /// The places searched, in order.
        looked: String,
    },
    /// A PTX file or its folder could not be read.
    #[error("could not read {path}: {source}; build the PTX again with `cargo xtask build-ptx`")]
    PtxUnreadable {
        /// The file or folder.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
    /// A PTX file is empty, truncated or not PTX.
    #[error("invalid PTX in {path}: {reason}; rebuild it with `cargo xtask build-ptx`")]
    PtxDamaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// None of the modules runs on the device.
    #[error(
        "no PTX for {device}, which has compute capability {major}.{minor}: there is {available}; {}",
        how_to_serve(*major, *minor)
    )]
    NoModuleFor {
        /// The device.
        device: String,
        /// Its compute capability, major.
        major: u32,
        /// Its compute capability, minor.
        minor: u32,
        /// The available targets.
        available: String,
    },
    /// `FERROWARP_ARCH` names only architectures whose code the device does not run.
    #[error(
        "FERROWARP_ARCH names {named}, and {device}, which has compute capability {major}.{minor}, runs none of them; \
         name compute_{major}{minor} or an older one, or unset FERROWARP_ARCH"
    )]
    ArchTooNew {
        /// The device.
        device: String,
        /// Its compute capability, major.
        major: u32,
        /// Its compute capability, minor.
        minor: u32,
        /// The architectures in the variable.
        named: String,
    },
    /// Two PTX sets that were joined with [`PtxModules::and`](super::PtxModules::and) have a kernel of the same name.
    #[error(
        "the kernel {kernel} is in {first} and in {second}, and a device finds a kernel by its name alone; rename one of \
         the two"
    )]
    KernelInTwoSets {
        /// The kernel.
        kernel: String,
        /// A file of the first set.
        first: PathBuf,
        /// A file of the other set.
        second: PathBuf,
    },
    /// The PTX version is too new for the driver.
    #[error(
        "loading {path} failed: it is PTX {ptx}, too new for the driver, which supports CUDA {driver}; update the driver to \
         one for CUDA {needed} or later, rebuild the PTX with `cargo xtask build-ptx`, which declares no newer version than \
         its instructions need, or use the code of an older GPU with FERROWARP_ARCH=compute_80"
    )]
    PtxTooNew {
        /// The file.
        path: PathBuf,
        /// The PTX version it declares.
        ptx: String,
        /// The newest CUDA version the driver supports.
        driver: String,
        /// The CUDA version that has this PTX version.
        needed: String,
    },
    /// The driver's compiler refused the PTX.
    #[error("loading {path} failed: {status}{log}; rebuild it with `cargo xtask build-ptx`")]
    ModuleLoad {
        /// The file.
        path: PathBuf,
        /// The driver's error.
        status: CudaError,
        /// The compiler's log, after a separator if there is one.
        log: String,
    },
    /// No loaded module has the kernel.
    #[error(
        "the PTX has no kernel {kernel} ({modules}); build it for this GPU's architecture with `cargo xtask build-ptx`, or \
         in your own crate with `.archs(..)` in the build script"
    )]
    NoSuchKernel {
        /// The kernel.
        kernel: String,
        /// The files that were loaded.
        modules: String,
    },
    /// A launch was refused, or the kernel failed on the CPU.
    #[error(transparent)]
    Launch(Box<LaunchError>),
    /// A launch needs more registers, shared memory or local memory than the GPU has for it. The device remains usable.
    #[error(
        "launch of {launch} failed: {status}; the kernel needs {}; launch smaller blocks, use less shared memory, or \
         set `max_threads = ..` on the kernel to compile it to fewer registers",
        needs.as_ref().map_or_else(|| "resources that the driver does not report".to_owned(), KernelNeeds::to_string)
    )]
    TooManyResources {
        /// The launch.
        launch: Launch,
        /// What the kernel needs, if the driver reports it.
        needs: Option<KernelNeeds>,
        /// The driver's error.
        status: CudaError,
    },
    /// The device has other handles, or buffers, and what was asked for needs it to itself.
    #[error(
        "{action} to {device} failed: it has other handles or buffers; do it right after opening the device"
    )]
    InUse {
        /// The device.
        device: String,
        /// What was asked for.
        action: &'static str,
    },
    /// A variable of the environment has an invalid value.
    #[error("{name} is `{value}`; set it to {expected}, or unset it")]
    Variable {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What it can be.
        expected: &'static str,
    },
    /// The stack size of threads was refused.
    #[error(
        "a stack of {bytes} bytes for each thread was refused: {reason}; ask for less, or end other programs there"
    )]
    NoStack {
        /// The bytes asked for.
        bytes: String,
        /// Why.
        reason: String,
    },
    /// A kernel failed on the GPU or exceeded the time limit, or the GPU was lost.
    #[error(transparent)]
    KernelFault(#[from] Arc<KernelFault>),
    /// The device is unusable, because it failed before.
    #[error("{device} cannot be used any more, because it failed before ({first}); restart the program")]
    Faulted {
        /// The device.
        device: String,
        /// The first failure.
        first: Arc<KernelFault>,
    },
    /// The device does not have enough memory.
    #[error(
        "allocating {elements} elements of {element_bytes} bytes on {device} failed: {reason}{}; use smaller batches \
         or layers, or end other programs that hold memory there",
        memory.as_ref().map_or_else(String::new, |memory| format!("; {memory}"))
    )]
    OutOfMemory {
        /// The device.
        device: String,
        /// Elements asked for.
        elements: usize,
        /// Size of one element in bytes.
        element_bytes: usize,
        /// Why.
        reason: String,
        /// The free memory, if it is known.
        memory: Option<FreeMemory>,
    },
    /// The device, its driver or the system does not support unified memory, or not this operation on it.
    #[error("{action} on {device} failed: {reason}; use buffers and copies there")]
    NoUnifiedMemory {
        /// The action.
        action: &'static str,
        /// The device.
        device: String,
        /// What is missing.
        reason: String,
    },
    /// Work on two streams may run at the same time and touches the same bytes.
    #[error(transparent)]
    Unordered(Box<DataRace>),
    /// A copy or a wait involves two devices.
    #[error("{action} on {device} failed: it belongs to {other}; use one `Device` for both, or clones of it")]
    OtherDevice {
        /// The action.
        action: &'static str,
        /// The stream's device.
        device: String,
        /// The device of the buffer or the event.
        other: String,
    },
    /// A launch borrows a buffer of another device in the same memory: of the same GPU opened a second time, or of another
    /// CPU device.
    #[error(
        "launch of {kernel} on {device} failed: the buffer `{argument}` belongs to another `Device` in the same memory; \
         allocate it on the same device or a clone of it"
    )]
    OtherDevicesBuffer {
        /// The kernel.
        kernel: &'static str,
        /// The parameter or field.
        argument: &'static str,
        /// The launch's device.
        device: String,
    },
    /// Recorded work did something that a graph cannot contain.
    #[error(
        "{action} failed while work on {device} was recorded or run again: a graph may contain only launches and \
         events between its streams; do it before or after the recording"
    )]
    NotRecordable {
        /// The device.
        device: String,
        /// The action.
        action: &'static str,
    },
    /// An event of a recording was used outside of it, or an outside event in a recording.
    #[error(
        "waiting for an event on {device} failed: {reason}; streams of a graph may wait only for each other; \
         synchronise with earlier work before the recording"
    )]
    EventOfRecording {
        /// The device.
        device: String,
        /// Which of the two is recorded.
        reason: &'static str,
    },
    /// A stream took part in a recording, but the default stream did not wait for it at the end.
    #[error(
        "recording work on {device} failed: the default stream does not wait for the last work of stream {stream}; end \
         the recorded work with `stream.wait(&other.record()?)?`"
    )]
    Unjoined {
        /// The device.
        device: String,
        /// The stream's number.
        stream: u32,
    },
    /// A recording was begun while another was in progress.
    #[error("recording work on {device} failed: another recording is in progress; end it first")]
    AlreadyRecording {
        /// The device.
        device: String,
    },
    /// A description of a tensor does not fit its buffer, or breaks a rule of tensor maps.
    #[error("making a tensor map on {device} failed: {reason}")]
    TensorMap {
        /// The device.
        device: String,
        /// Which rule.
        reason: TensorMapError,
    },
    /// A tensor map was made for another device's memory.
    #[error(
        "making a tensor map on {device} failed: the buffer belongs to another `Device`, in the memory of {buffer}; make the \
         map on the buffer's device"
    )]
    TensorMapElsewhere {
        /// The device.
        device: String,
        /// Where the buffer is.
        buffer: Residence,
    },
    /// The two sides of a copy have different lengths.
    #[error("{action} failed: the buffer has {buffer} elements and the slice {slice}; they must be equal")]
    LengthMismatch {
        /// The copy.
        action: &'static str,
        /// Elements of the buffer.
        buffer: usize,
        /// Elements of the slice.
        slice: usize,
    },
    /// The timed or recorded work failed, not the device.
    #[error(transparent)]
    Work(Box<dyn std::error::Error + Send + Sync>),
    /// A view extends beyond its buffer, or ends before it begins.
    #[error("a view of {start}..{end} does not fit a buffer of {len} elements")]
    ViewOutOfRange {
        /// First element asked for.
        start: usize,
        /// One past the last element asked for.
        end: usize,
        /// Elements of the buffer.
        len: usize,
    },
}

/// The message, so that a program whose `main` returns it ends with that.
impl fmt::Debug for DeviceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl DeviceError {
    /// The driver's error, which may report a fault of earlier work.
    pub(super) fn status(&self) -> Option<CudaError> {
        match self {
            DeviceError::Driver { status, .. }
            | DeviceError::ModuleLoad { status, .. }
            | DeviceError::TooManyResources { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The fault that left the device unusable, if this error reports one.
    pub fn fault(&self) -> Option<&KernelFault> {
        match self {
            DeviceError::KernelFault(fault) | DeviceError::Faulted { first: fault, .. } => Some(fault),
            _ => None,
        }
    }
}

impl From<DeviceError> for LaunchError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Launch(error) => *error,
            error => LaunchError::Device(Box::new(error)),
        }
    }
}

impl From<LaunchError> for DeviceError {
    fn from(error: LaunchError) -> Self {
        let LaunchError::Device(error) = error else { return DeviceError::Launch(Box::new(error)) };
        match error.downcast::<DeviceError>() {
            Ok(error) => *error,
            Err(other) => DeviceError::Launch(Box::new(LaunchError::Device(other))),
        }
    }
}
