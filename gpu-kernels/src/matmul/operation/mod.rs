//! The kernels that the operation launches, by type and layout.

pub mod few_rows;

pub mod reduce;

pub mod serial;

pub mod split;

pub mod tensor_tiles;

pub mod three_products;

pub mod warpgroup_tiles;

mod tile_sums;
mod warpgroup_operand;
mod warpgroup_store;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{
    KERNELS, MatmulKernels, SPLIT, THREE_PRODUCTS, TileShape, WarpgroupShape, reduce_config, serial_config,
    split_config,
};
