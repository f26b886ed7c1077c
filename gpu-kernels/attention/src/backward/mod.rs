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
//! - With `wgmma`, [`keys`] adds up dK and dV, one block per tile of keys, and [`queries`] adds up dQ, one block per tile of
//!   queries. Each sum belongs to one block. The price is that both compute the products of P and dP: seven multiplications.
//! - With `mma.sync`, [`fused`] adds up all three with five multiplications. The blocks add to the same dQ one after the
//!   other. [`finish`] writes it.

pub mod args;

pub mod delta;

pub mod finish;

pub mod fused;

mod key_sums;

pub mod keys;

pub mod queries;

pub mod serial;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{BackwardKernels, BackwardShape, FusedShape, delta_config, finish_config, serial_config};
