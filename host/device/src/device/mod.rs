//! Devices: one interface to a CUDA GPU and to the CPU.
//!
//! A [`Device`] owns memory ([`Buffer`]) and runs kernels: it is a [`Launcher`](cuda_std::launch::Launcher), so the typed `launch` function of every
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
mod allocation_error;
pub(crate) mod allocations;
mod arch;
pub(crate) mod buffer;
mod cpu;
mod cuda;
mod doctor;
pub(crate) mod error;
mod fault;
mod graph;
pub(crate) mod handle;
mod hung;
mod launches;
mod memory;
mod modules;
mod open;
mod order;
mod owners;
mod panic;
mod pinned;
mod placement;
mod profile;
mod ptx_header;
pub(crate) mod queue;
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

#[doc(hidden)]
pub use arch::{cpu_archs, named_archs};
pub use buffer::{Buffer, BufferView, BufferViewMut};
pub use doctor::doctor;
pub use error::DeviceError;
pub use fault::{FaultKind, KernelFault};
pub use graph::Graph;
pub use handle::Device;
pub use hung::exit_if_hung;
pub use launches::{KernelNeeds, Launch};
#[doc(hidden)]
pub use modules::BROUGHT;
pub use modules::{PtxModule, PtxModules, PtxTarget};
pub use open::{DeviceChoice, open, open_with, parse_time_limit};
pub use panic::DevicePanic;
pub use pinned::{InFlight, PinnedBuffer};
pub use placement::{Advice, FreeMemory, Place};
pub use profile::{LaunchTimes, Launched, Peaks};
pub use queue::Queue;
pub use race::{DataRace, StreamAccess, StreamWork};
pub use stack::UnboundedStack;
pub use stream::{Event, Stream};
pub use transfer::{Transfer, TransferTimes};
pub use unified::UnifiedBuffer;
