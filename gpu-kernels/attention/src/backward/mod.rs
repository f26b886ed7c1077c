//! The gradients of attention, by type and head size.
//!
//! With `P = exp(scale Q K^T - log-sum-exp)` and `dP = dO V^T`:
//!
//! ```text
//! delta = sum of dO * out, for each query
//! dS = P * (dP - delta)
//! dV = P^T dO        dK = scale dS^T Q        dQ = scale dS K
//! ```
//!
//! P and dS are computed again, a tile at a time. [`delta`] comes first. Every sum has a fixed order, so two runs give the
//! same bits.
//!
//! [`warpgroups`] adds up all three with `wgmma`, and [`fused`] with `mma.sync`. A block takes tiles of keys. Blocks add to the
//! same dQ one after the other, in a fixed order. [`finish`] writes it. [`separate`] adds up each in blocks of its own.

pub mod args;

pub mod delta;

pub mod finish;

pub mod fused;

mod key_sums;

pub mod separate;

mod separate_sums;

pub mod serial;

mod walk;

mod warpgroup_sums;

pub mod warpgroups;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{BackwardKernels, FusedShape, delta_config, finish_config, serial_config};
