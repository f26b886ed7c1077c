//! Programs as users of Rust-CUDA write them. They compile here unchanged: slices and raw pointers as parameters, shared
//! memory by attribute, structs by value, glam, atomics of upstream's names, the heap, text and assertions.

// Rust-CUDA's users write edition 2021, where the body of an `unsafe fn` is an unsafe context.
#![allow(unsafe_op_in_unsafe_fn)]
// On the host `x.sqrt()` is std's method, so `use cuda_std::GpuFloat` is only used on the device.
#![allow(unused_imports)]

mod gemm;
mod heap;
mod parameters;
mod path_tracer;
mod reduction;

/// A call of every item that is the same as upstream's. The calls only have to compile.
#[allow(dead_code, deprecated, clippy::all)]
mod names {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

pub use crate::gemm::*;
pub use heap::*;
pub use parameters::*;
pub use path_tracer::*;
pub use reduction::*;
