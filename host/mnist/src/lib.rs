//! An MLP on MNIST: the network, its training, and its checkpoints.

mod batch_size;
pub mod checkpoint;
mod console;
mod lr_schedule;
pub mod model;
pub mod train;

pub use batch_size::BatchSize;
pub use console::Console;
pub use ferrowarp_report::OutputError;
pub use lr_schedule::{LrSchedule, StepOfRun};

/// The PTX and machine code of the network's kernels, if the build script built some.
#[linkme::distributed_slice(ferrowarp_device::device::BROUGHT)]
static KERNELS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/brought.rs"));

/// The message that programs print before the reason why no device was opened.
pub const NO_DEVICE: &str = "could not open a GPU; run on the CPU with --device cpu";
