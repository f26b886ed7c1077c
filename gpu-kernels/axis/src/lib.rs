//! Operations along an axis of a matrix: sums, maxima and minima of rows or columns, cumulative sums, and the transpose.
//!
//! [`rows`] and [`columns`] reduce a part of a row or column; [`finish`] combines parts. [`scan`] computes the cumulative
//! sums of rows, [`mod@transpose`] the transpose, and [`cast`] copies. Kernels named `_serial` are for a CPU, whose blocks have one thread.
//!
//! Reductions and transposes are launched so that they may begin before the previous launch has ended. Each thread waits for that
//! before it reads or writes, and then allows the next launch to begin: both orders were timed, and this one is faster.

#![no_std]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod args;
pub mod cast;
pub mod columns;
pub mod finish;
mod fold;
#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
pub mod rows;
pub mod scan;
#[cfg(not(target_arch = "nvptx64"))]
mod shapes;
mod tile;
pub mod transpose;

#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{AxisKernels, CastTo, TransposeKernels};
#[cfg(not(target_arch = "nvptx64"))]
pub use shapes::{Blocks, CastShape, ReduceShape, ScanShape, TransposeShape};
