//! The kernels of Ferrowarp: one source for the GPU and the CPU.
//!
//! Read [`mlp`] in the order of its modules: first the kernels of a training step as a textbook writes them, one
//! thread per output; then the ones that training uses by default, which share tiles and fuse neighbours.
//! [`softmax`] climbs from the naive kernel to the fast one, a rung a file; [`mod@copy`] is what it is measured against.
//! [`matmul`] multiplies matrices on tensor cores. [`gallery`] has a lesson of GPU programming a file.

#![no_std]
#![allow(clippy::too_many_arguments, reason = "a kernel's parameters are its calling convention")]
#![allow(clippy::needless_range_loop, reason = "index loops read like the formulas they compute")]
#![cfg_attr(
    not(target_arch = "nvptx64"),
    allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")
)]

pub mod copy;

pub mod element;

pub mod gallery;

pub mod matmul;

pub mod mlp;

pub mod softmax;

#[cfg(not(target_arch = "nvptx64"))]
mod table;
#[cfg(not(target_arch = "nvptx64"))]
pub use table::KERNELS;
