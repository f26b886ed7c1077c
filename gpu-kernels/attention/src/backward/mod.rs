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
//! P and dS are computed again, a tile at a time. [`delta`] comes first; then [`keys`] adds up dK and dV, one block per tile
//! of keys, and [`queries`] adds up dQ, one block per tile of queries. Each sum belongs to one block and has a fixed order:
//! two runs give the same bits. The price is that both compute the products of P and dP: seven multiplications, where five
//! would do if blocks added to the same dQ in the order in which they arrive.

pub mod args;

pub mod delta;

pub mod keys;

pub mod queries;

pub mod serial;

#[cfg(not(target_arch = "nvptx64"))]
mod kernels;
#[cfg(not(target_arch = "nvptx64"))]
pub use kernels::{BackwardKernels, BackwardShape, delta_config, serial_config};
