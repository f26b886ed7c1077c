//! The kernels that the operation launches, by type and layout.

pub mod align;

pub mod few_rows;

pub mod few_rows_f32;

pub mod reduce;

pub mod serial;

pub mod split;

pub mod tensor_tiles;

pub mod three_products;

pub mod warpgroup_tiles;

mod tile_sums;
mod warpgroup_operand;
mod warpgroup_residuals;
mod warpgroup_store;
mod warpgroup_work;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{
    ALIGN, FOLD, FewRowsShape, MatmulKernels, SPLIT, THREE_PRODUCTS, TRANSPOSE, TileShape, WarpgroupShape,
    align_config, reduce_config, serial_config, split_config,
};
