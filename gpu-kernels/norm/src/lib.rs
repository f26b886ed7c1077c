//! RMSNorm and LayerNorm along the rows of a matrix, forward and backward.
//!
//! [`forward`] and [`backward`] hold a row in registers, and [`in_shared`] holds a long one in shared memory: they read memory
//! once and write it once. [`wide`] has the kernels for other rows, and those of a CPU, whose blocks have one thread.
//! [`columns`] adds up the gradients of weight and bias. [`few`] computes all gradients of a small matrix in one launch.

#![no_std]

pub mod args;
pub mod backward;
pub mod columns;
mod exchange;
pub mod few;
pub mod forward;
pub mod in_shared;
#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
mod row;
#[cfg(not(target_arch = "nvptx64"))]
mod shapes;
pub mod wide;

#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{Blocks, NormKernels};
#[cfg(not(target_arch = "nvptx64"))]
pub use shapes::{ColumnsShape, FewShape, RowsShape};
