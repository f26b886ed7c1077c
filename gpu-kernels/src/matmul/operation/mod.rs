//! The kernels that the operation launches, by type and layout.

pub mod reduce;

pub mod serial;

pub mod tensor_tiles;

pub mod warpgroup_tiles;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{KERNELS, MatmulKernels, TileShape, WarpgroupShape, reduce_config, serial_config};
