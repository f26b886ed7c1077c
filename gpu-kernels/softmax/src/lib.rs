//! Softmax along the rows of a matrix, its gradient, cross entropy, sampling and the largest probabilities.
//!
//! A row with a NaN or a +inf, or with only -inf, gives NaN throughout; -inf among finite numbers gives 0. The maximum is
//! subtracted before any multiplication, so logits of any size lose no accuracy. Every sum has a fixed order, so results
//! repeat bit for bit.

#![no_std]
#![allow(clippy::too_many_arguments, reason = "a kernel's parameters are its calling convention")]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod backward;
mod chunk;
pub mod cross_entropy;
#[cfg(not(target_arch = "nvptx64"))]
mod fit;
pub mod forward;
pub mod forward_kernels;
mod forward_narrow;
mod forward_split;
mod forward_staged;
#[cfg(not(target_arch = "nvptx64"))]
pub mod operation;
pub mod row;
pub mod sample;
pub mod serial;
pub mod stage;
pub mod top_k;
