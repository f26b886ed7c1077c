//! Matrix multiplication on tensor cores: `out = activation(alpha A B + bias + residual)`.
//!
//! [`operation`] has the kernels that `ferrowarp::matmul` launches.

#![no_std]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod args;
pub mod copies;
mod epilogue;
pub mod operand;
pub mod operation;
pub mod tile_order;
