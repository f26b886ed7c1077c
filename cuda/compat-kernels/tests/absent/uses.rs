//! Uses that differ.

use cuda_builder::{CudaBuilder, CudaBuilderError, NvvmArch};
use cuda_std::atomic::intrinsics;

unsafe fn pointer_alone(p: *mut u32) -> u32 {
    unsafe { intrinsics::atomic_fetch_inc_relaxed_u32_device(p) }
}

unsafe fn another_type(p: *mut u64) -> u64 {
    unsafe { intrinsics::atomic_fetch_inc_relaxed_u64_device(p, 1) }
}

fn field(builder: CudaBuilder) -> NvvmArch {
    builder.arch
}

fn variants() {
    let _ = CudaBuilderError::BuildFailed;
    let _ = NvvmArch::Compute61;
}

fn code(error: cust::error::CudaError) -> u32 {
    error as u32
}

fn main() {}
