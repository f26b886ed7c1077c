//! Kernels as users of Rust-CUDA write them. They compile here unchanged: slices and raw pointers as parameters, shared
//! memory by attribute, `thread::index_1d()`, `GpuFloat`, structs by value, closures and iterators, and registry crates that
//! hash and parse.

// Rust-CUDA's users write edition 2021, where the body of an `unsafe fn` is an unsafe context. As 2024, the same sources
// would warn.
#![allow(unsafe_op_in_unsafe_fn)]
// On the host `x.sqrt()` is std's method, so `use cuda_std::GpuFloat` is only used on the device.
#![allow(unused_imports)]

mod asserts;
mod barriers;
mod bulk;
mod copies;
#[path = "../../../compat-kernels/src/gemm.rs"]
mod gemm;
mod gemm_naive;
mod hashing;
mod heap;
mod linear;
mod math;
mod params;
mod parsing;
#[path = "../../../compat-kernels/src/path_tracer.rs"]
mod path_tracer;
mod rays;
#[path = "../../../compat-kernels/src/reduction.rs"]
mod reduction;
mod scale;
mod sha;
mod tensor;
#[cfg(test)]
mod tests;
mod types;
mod upstream;
mod votes;
mod wide;

pub use crate::gemm::*;
pub use crate::gemm_naive::gemm_naive;
pub use asserts::*;
pub use barriers::*;
pub use bulk::*;
pub use copies::*;
pub use hashing::*;
pub use heap::*;
pub use linear::*;
pub use math::*;
pub use params::*;
pub use parsing::*;
pub use path_tracer::*;
pub use rays::*;
pub use reduction::*;
pub use sha::*;
pub use tensor::*;
pub use types::*;
pub use votes::*;
pub use wide::*;

use cuda_std::prelude::*;

/// out = factor * out: a kernel next to a module of the same name.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn scale(out: *mut [f32], factor: f32) {
    let i = thread::index_1d() as usize;
    if i < out.len() {
        scale::one(&mut (&mut *out)[i], factor);
    }
}
