//! Three programs as users of Rust-CUDA write them. They compile here unchanged: slices and raw pointers as parameters, shared
//! memory by attribute, glam, and atomics of upstream's names. `cuda/lab/compat-kernels` has one of everything.

// Rust-CUDA's users write edition 2021, where the body of an `unsafe fn` is an unsafe context.
#![allow(unsafe_op_in_unsafe_fn)]
// On the host `x.sqrt()` is std's method, so `use cuda_std::GpuFloat` is only used on the device.
#![allow(unused_imports)]

mod gemm;
mod path_tracer;
mod reduction;

pub use crate::gemm::*;
pub use path_tracer::*;
pub use reduction::*;
