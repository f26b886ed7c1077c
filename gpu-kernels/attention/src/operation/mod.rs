//! The kernels that the operation launches, by type and head size.

pub mod combine;

pub mod key_splits;

pub mod row_tiles;

pub mod serial;

pub mod warpgroups;

mod block_copies;
mod mask;
pub mod online;
mod part;
mod row_mask;
mod row_steps;
pub mod turns;
mod warpgroup_consumer;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{AttentionKernels, RowShape, SplitShape, WarpgroupShape, combine_config, serial_config};
