//! Errors that leave the GPU unusable.

use std::fmt;
use std::time::Duration;

use cuda_std::launch::Dim3;
use cust::error::CudaError;
use cust::sys::CUresult;

use super::launches::{Launch, Launches};
use super::panic::DevicePanic;
use super::stack::UnboundedStack;

/// The most launches that an error's text names.
const NAMED: usize = 8;

/// A failure of a kernel on the GPU, or of the GPU. Every later call on the device returns it again.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError, FaultKind};
///
/// fn wait(device: &Device) -> Result<(), DeviceError> {
///     device.synchronize().inspect_err(|error| {
///         let Some(fault) = error.fault() else { return };
///         eprintln!("{fault}");
///         if let (FaultKind::Panic, Some(panic)) = (fault.kind, &fault.panic) {
///             eprintln!("line {} of {}", panic.line, panic.file);
///         }
///     })
/// }
/// assert!(wait(&Device::cpu()).is_ok());
/// ```
#[derive(Clone, Debug)]
pub struct KernelFault {
    /// The device.
    pub device: String,
    /// What happened.
    pub kind: FaultKind,
    /// The distinct launches since the last synchronisation, in the order of their first appearance. One of them failed;
    /// `FERROWARP_SYNC=1` in the environment finds out which. After a panic, launches without the thread that panicked in
    /// their grid or block are omitted.
    pub launches: Vec<Launch>,
    /// The number of launches since then that found no room in the list.
    pub others: u64,
    /// The driver's error.
    pub status: CudaError,
    /// The panic, if it was one and the kernel could record it.
    pub panic: Option<DevicePanic>,
    /// A kernel among those launches with a stack of unknown size, if a stack overflow may be the cause.
    pub stack: Option<UnboundedStack>,
}

/// The kinds of [`KernelFault`].
///
/// ```
/// use std::time::Duration;
///
/// use ferrowarp::device::FaultKind;
///
/// let kind = FaultKind::TimedOut { limit: Duration::from_secs(2) };
/// assert_ne!(kind, FaultKind::Panic);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A thread panicked: [`KernelFault::panic`] has the thread, place and message.
    Panic,
    /// A read or write of an invalid address (`CUDA_ERROR_ILLEGAL_ADDRESS`).
    IllegalAddress,
    /// A misaligned access (`CUDA_ERROR_MISALIGNED_ADDRESS`).
    MisalignedAddress,
    /// An address in the wrong address space (`CUDA_ERROR_INVALID_ADDRESS_SPACE`).
    WrongAddressSpace,
    /// A jump to an invalid instruction address (`CUDA_ERROR_INVALID_PC`).
    InvalidPc,
    /// The call stack overflowed or was corrupted (`CUDA_ERROR_HARDWARE_STACK_ERROR`).
    Stack,
    /// An instruction that the GPU does not know, or a trap (`CUDA_ERROR_ILLEGAL_INSTRUCTION`).
    IllegalInstruction,
    /// A trap, or an exception without a code of its own (`CUDA_ERROR_LAUNCH_FAILED`).
    Trap,
    /// A failed device-side assertion (`CUDA_ERROR_ASSERT`).
    Assert,
    /// The driver's watchdog ended the kernel (`CUDA_ERROR_LAUNCH_TIMEOUT`).
    Watchdog,
    /// The work did not end within the limit of [`Device::with_time_limit`](super::Device::with_time_limit).
    TimedOut {
        /// The limit.
        limit: Duration,
    },
    /// Memory or a link reported an uncorrectable error (`CUDA_ERROR_ECC_UNCORRECTABLE`, `CUDA_ERROR_NVLINK_UNCORRECTABLE`,
    /// `CUDA_ERROR_CONTAINED`).
    Hardware,
    /// The driver cannot reach the GPU any more, or has taken it from this process.
    DeviceLost,
    /// Another exception of a kernel, unknown to this library.
    Other,
}

impl FaultKind {
    /// The fault that a driver error means; `None` for an error after which the context remains usable.
    ///
    /// These are the codes that cuda.h documents with "this leaves the process in an inconsistent state and any further CUDA
    /// work will return the same error", and the codes of a lost device or context.
    pub(super) fn of(status: CudaError) -> Option<FaultKind> {
        Some(match status {
            CudaError::IllegalAddress => FaultKind::IllegalAddress,
            CudaError::MisalignedAddress => FaultKind::MisalignedAddress,
            CudaError::InvalidAddressSpace => FaultKind::WrongAddressSpace,
            CudaError::InvalidProgramCounter => FaultKind::InvalidPc,
            CudaError::HardwareStackError => FaultKind::Stack,
            CudaError::IllegalInstruction => FaultKind::IllegalInstruction,
            CudaError::LaunchFailed => FaultKind::Trap,
            CudaError::AssertError => FaultKind::Assert,
            CudaError::LaunchTimeout => FaultKind::Watchdog,
            CudaError::EccUncorrectable | CudaError::NvlinkUncorrectable | CudaError::Contained => {
                FaultKind::Hardware
            }
            CudaError::NotInitialized
            | CudaError::Deinitialized
            | CudaError::DeviceUnavailable
            | CudaError::NoDevice
            | CudaError::InvalidDevice
            | CudaError::InvalidContext
            | CudaError::ContextIsDestroyed
            | CudaError::MpsClientTerminated
            | CudaError::ExternalDevice
            | CudaError::UnknownError => FaultKind::DeviceLost,
            // 720 is a refused launch; later codes are exceptions of newer drivers.
            CudaError::Driver(CUresult(721..=799)) => FaultKind::Other,
            _ => return None,
        })
    }

    /// Whether driver calls may now block forever, so that none must be made.
    pub(super) fn hangs(self) -> bool {
        matches!(self, FaultKind::TimedOut { .. } | FaultKind::DeviceLost)
    }

    /// Whether a stack overflow may be reported as this kind: the thread accesses memory below its stack.
    pub(super) fn may_be_stack(self) -> bool {
        matches!(
            self,
            FaultKind::IllegalAddress
                | FaultKind::MisalignedAddress
                | FaultKind::WrongAddressSpace
                | FaultKind::InvalidPc
                | FaultKind::Stack
                | FaultKind::IllegalInstruction
                | FaultKind::Trap
                | FaultKind::Other
        )
    }

    /// Whether the device is at fault rather than a kernel.
    fn is_devices(self) -> bool {
        matches!(self, FaultKind::Hardware | FaultKind::DeviceLost)
    }

    /// What the kernel or the device did.
    fn deed(self) -> String {
        match self {
            FaultKind::Panic => "panicked",
            FaultKind::IllegalAddress => "accessed an invalid address",
            FaultKind::MisalignedAddress => "accessed a misaligned address",
            FaultKind::WrongAddressSpace => "used an address in the wrong address space",
            FaultKind::InvalidPc => "jumped to an invalid instruction address",
            FaultKind::Stack => "overflowed or corrupted its call stack",
            FaultKind::IllegalInstruction => "trapped, or executed an illegal instruction",
            FaultKind::Trap => "trapped",
            FaultKind::Assert => "failed an assertion",
            FaultKind::Watchdog => "ran longer than the driver's watchdog allows",
            FaultKind::TimedOut { limit } => {
                return format!("did not end within the time limit of {limit:?}");
            }
            FaultKind::Hardware => "reported a hardware error",
            FaultKind::DeviceLost => "was lost",
            FaultKind::Other => "failed",
        }
        .to_owned()
    }

    /// What to do about it.
    fn cure(self) -> &'static str {
        match self {
            FaultKind::Panic => "fix the kernel or its input",
            FaultKind::IllegalInstruction => {
                "build the PTX again with `cargo xtask build-ptx`; if that does not help, look for a trap in the kernel"
            }
            FaultKind::Watchdog => "launch less work at once, or use a GPU without a display",
            FaultKind::TimedOut { .. } => {
                "look for an endless loop or wait, or raise the limit; the GPU's memory is freed when this program ends"
            }
            FaultKind::Hardware => {
                "restart the program from its last checkpoint; if it happens again, check the GPU (nvidia-smi -q, \
                 and the Xid lines of dmesg)"
            }
            FaultKind::DeviceLost => {
                "check whether nvidia-smi still lists the GPU, read the Xid lines of dmesg, and restart the program \
                 from its last checkpoint"
            }
            _ => "run it under `compute-sanitizer`, or on the CPU, to find the thread and the line",
        }
    }
}

impl KernelFault {
    /// Makes a fault from the known facts.
    pub(super) fn new(
        device: &str,
        kind: FaultKind,
        launches: &Launches,
        status: CudaError,
        panic: Option<DevicePanic>,
    ) -> Self {
        let holds = |launch: &Launch, panic: &DevicePanic| {
            lies_in(panic.block, launch.config.grid) && lies_in(panic.thread, launch.config.block)
        };
        let suspects: Vec<Launch> = match &panic {
            Some(panic) => launches.kept().iter().copied().filter(|launch| holds(launch, panic)).collect(),
            None => launches.kept().to_vec(),
        };
        Self {
            device: device.to_owned(),
            kind: if panic.is_some() { FaultKind::Panic } else { kind },
            // If no launch has the thread, the record cannot be trusted.
            launches: if suspects.is_empty() { launches.kept().to_vec() } else { suspects },
            others: launches.others(),
            status,
            panic,
            stack: None,
        }
    }

    /// The launch that failed, if only one is possible.
    pub fn culprit(&self) -> Option<&Launch> {
        match self.launches.as_slice() {
            [launch] if self.others == 0 && !self.kind.is_devices() => Some(launch),
            _ => None,
        }
    }

    /// Writes the launches that may have failed, and how to find out which one did.
    fn write_suspects(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, launch) in self.launches.iter().take(NAMED).enumerate() {
            write!(f, "{}{launch}", if i == 0 { "" } else { ", " })?;
        }
        let more = self.launches.len().saturating_sub(NAMED) as u64 + self.others;
        if more > 0 {
            write!(f, " and {more} more")?;
        }
        Ok(())
    }
}

/// Whether the extents hold the coordinates.
fn lies_in(at: Dim3, extents: Dim3) -> bool {
    at.x < extents.x && at.y < extents.y && at.z < extents.z
}

impl std::error::Error for KernelFault {}

impl fmt::Display for KernelFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let several = self.culprit().is_none() && !self.launches.is_empty();
        match self.culprit() {
            _ if self.kind.is_devices() => f.write_str(&self.device)?,
            Some(launch) => write!(f, "kernel {launch}")?,
            None if several => f.write_str("one of the queued kernels")?,
            None => f.write_str("a kernel")?,
        }
        match &self.panic {
            Some(panic) => write!(f, " {panic}")?,
            None => write!(f, " {}", self.kind.deed())?,
        }
        write!(f, "; the driver says {}", self.status)?;
        if several {
            f.write_str("; queued: ")?;
            self.write_suspects(f)?;
            if !self.kind.is_devices() {
                f.write_str("; set FERROWARP_SYNC=1 to find it")?;
            }
        }
        if let Some(stack) = &self.stack {
            write!(f, "; a stack overflow may be the cause: {stack}")?;
        }
        write!(f, "; {}", self.kind.cure())
    }
}

#[cfg(test)]
mod tests {
    use cuda_std::launch::LaunchConfig;

    use super::*;

    fn launches(all: &[(&'static str, u32, u32)]) -> Launches {
        let mut launches = Launches::default();
        for &(kernel, grid, block) in all {
            launches.note(Launch { kernel, config: LaunchConfig::new(grid, block) });
        }
        launches
    }

    fn panic_in(block: Dim3, thread: Dim3) -> Option<DevicePanic> {
        let (message, file) = ("empty".to_owned(), "sum.rs".to_owned());
        Some(DevicePanic { message, file, line: 12, column: 9, block, thread })
    }

    #[test]
    fn the_only_launch_is_the_culprit() {
        let fault = KernelFault::new(
            "GPU",
            FaultKind::IllegalAddress,
            &launches(&[("sum", 4, 64)]),
            CudaError::IllegalAddress,
            None,
        );
        assert_eq!(fault.culprit().unwrap().kernel, "sum");
        let text = fault.to_string();
        let start = "kernel sum (grid (4, 1, 1), block (64, 1, 1), 0 bytes of dynamic shared memory, clusters of 1) \
                     accessed an invalid address; the driver says ";
        assert!(text.starts_with(start) && text.contains("(700)"), "{text}");
        assert!(text.contains("compute-sanitizer") && !text.contains("FERROWARP_SYNC"), "{text}");
    }

    #[test]
    fn a_stack_that_may_have_overflowed_is_named_with_its_size() {
        let mut fault = KernelFault::new(
            "GPU",
            FaultKind::IllegalAddress,
            &launches(&[("walk", 4, 64)]),
            CudaError::IllegalAddress,
            None,
        );
        let cause = "recursion through `depth`".to_owned();
        fault.stack = Some(UnboundedStack { kernel: "walk".to_owned(), cause, bytes: 8192 });
        let text = fault.to_string();
        let said = "; a stack overflow may be the cause: the stack of walk \
                    has no size known in advance (recursion through `depth`), and each thread has 8192 bytes of it; give \
                    more with Device::with_stack_bytes or FERROWARP_STACK_BYTES";
        assert!(text.contains(said) && text.contains("compute-sanitizer"), "{text}");
    }

    #[test]
    fn of_several_launches_all_are_named_up_to_a_number() {
        let all: Vec<_> = (1..=12).map(|grid| ("sum", grid, 64)).collect();
        let fault = KernelFault::new("GPU", FaultKind::Trap, &launches(&all), CudaError::LaunchFailed, None);
        assert!(fault.culprit().is_none());
        let text = fault.to_string();
        assert!(text.starts_with("one of the queued kernels trapped; the driver says "), "{text}");
        assert_eq!(text.matches("sum (grid").count(), NAMED, "{text}");
        assert!(text.contains(" and 4 more; set FERROWARP_SYNC=1 to find it"), "{text}");
    }

    #[test]
    fn a_panic_excludes_launches_without_its_thread() {
        let all = launches(&[("small", 4, 64), ("large", 4, 128), ("wide", 9, 64)]);
        let blame = |block, thread| {
            let panic = panic_in(block, thread);
            KernelFault::new("GPU", FaultKind::Trap, &all, CudaError::LaunchFailed, panic)
        };
        let fault = blame(Dim3::new(3, 0, 0), Dim3::new(100, 0, 0));
        assert_eq!((fault.kind, fault.culprit().unwrap().kernel), (FaultKind::Panic, "large"));
        assert!(
            fault
                .to_string()
                .contains("panicked in block (3, 0, 0), thread (100, 0, 0), at sum.rs:12:9: empty")
        );
        assert_eq!(blame(Dim3::new(3, 0, 0), Dim3::new(1, 0, 0)).launches.len(), 3);
        assert_eq!(blame(Dim3::new(99, 0, 0), Dim3::new(1, 0, 0)).launches.len(), 3, "of no launch");
    }

    #[test]
    fn the_device_is_named_where_no_kernel_is_at_fault() {
        let fault =
            KernelFault::new("GPU", FaultKind::DeviceLost, &launches(&[]), CudaError::UnknownError, None);
        let text = fault.to_string();
        assert!(
            text.starts_with("GPU was lost; the driver says ") && text.contains("last checkpoint"),
            "{text}"
        );
        let under_way = launches(&[("sum", 1, 1)]);
        let fault =
            KernelFault::new("GPU", FaultKind::Hardware, &under_way, CudaError::EccUncorrectable, None);
        assert!(fault.culprit().is_none());
        assert!(fault.to_string().contains("; queued: sum (grid"), "{fault}");
    }

    #[test]
    fn errors_after_which_the_context_goes_on_are_no_faults() {
        for code in [0, 1, 2, 34, 222, 304, 500, 600, 701, 703, 712, 720, 800, 900, 901, 909, 912, 4321] {
            assert_eq!(FaultKind::of(CudaError::Driver(CUresult(code))), None, "{code}");
        }
        for code in [46, 100, 201, 214, 220, 226, 700, 702, 709, 710, 714, 719, 721, 750, 810, 911, 999] {
            assert!(FaultKind::of(CudaError::Driver(CUresult(code))).is_some(), "{code}");
        }
    }
}
