//! A CUDA GPU as a device: a context, streams and modules, and the launches that a fault may come from.
//!
//! The driver's functions come from [`cust::sys`]. Each call first makes the context current in the calling thread, so a
//! device may be used from any thread.

mod found;
mod gpu;
mod handles;
mod kernels;
mod lane;
mod launch;
mod load;
mod memory;
mod pool;
mod shared;
mod soil;
mod stack;
mod streams;
mod timing;
mod unified;
mod wait;

pub(super) use found::{Found, count_devices, find, waits_for_each_launch};
pub(super) use gpu::CudaDevice;
pub(super) use lane::{Allocated, Lane, Queue, Ready};
pub(super) use load::{driver_version, too_new};
pub(super) use stack::stack_bytes;
pub(super) use timing::Recording;
