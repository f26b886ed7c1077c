//! The kernels of Ferrowarp: one source for the GPU and the CPU.
//!
//! Read [`mlp`] in the order of its modules: first the kernels of a training step as a textbook writes them, one thread per
//! output; then the ones that training uses by default, which share tiles and fuse neighbours. [`softmax`] climbs from the
//! naive kernel to the fast one, one rung per file; [`mod@copy`] is its baseline. [`matmul`] multiplies matrices on tensor
//! cores, [`attention`] computes attention, and [`norm`] computes RMSNorm and LayerNorm. [`axis`] computes sums, cumulative
//! sums and transposes. [`gallery`] has one lesson of GPU programming per file.
//!
//! Each part is a feature, and all are on by default. `softmax`, `softmax-mixed`, `softmax-backward`, `cross-entropy`,
//! `sampling`, `matmul`, `attention`, `norm` and `axis` have the operations. `lessons` has the softmax ladder, the gallery
//! and the copies, and `mlp` the training step. `table` has `KERNELS`, the list of all kernels, and turns on every other
//! feature.

#![no_std]
#![allow(clippy::too_many_arguments, reason = "a kernel's parameters are its calling convention")]
#![allow(clippy::needless_range_loop, reason = "index loops read like the formulas they compute")]
#![cfg_attr(
    not(target_arch = "nvptx64"),
    allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")
)]
#![cfg_attr(
    not(feature = "table"),
    allow(dead_code, reason = "some items are for the list of all kernels, or for several operations")
)]

#[cfg(feature = "attention")]
pub mod attention;

#[cfg(feature = "axis")]
pub mod axis;

#[cfg(feature = "lessons")]
pub mod copy;

pub mod element;

#[cfg(feature = "lessons")]
pub mod gallery;

#[cfg(feature = "matmul")]
pub mod matmul;

#[cfg(feature = "mlp")]
pub mod mlp;

#[cfg(feature = "norm")]
pub mod norm;

#[cfg(feature = "softmax")]
pub mod softmax;

#[cfg(any(feature = "axis", feature = "norm"))]
mod sum;

#[cfg(all(feature = "table", not(target_arch = "nvptx64")))]
mod table;
#[cfg(all(feature = "table", not(target_arch = "nvptx64")))]
pub use table::KERNELS;
