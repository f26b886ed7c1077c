//! The kernels that the operation launches, by type and head size.

pub mod combine;

pub mod key_splits;

pub mod serial;

pub mod warpgroups;

mod mask;
pub mod online;
mod part;
pub mod turns;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{AttentionKernels, SplitShape, WarpgroupShape, combine_config, serial_config};
