//! The tests of the emulator, in one program: each file here is a module.

mod cases;
mod cluster_kernels;
mod common;
mod counts;
mod counts_kernels;
mod device_functions;
mod grids;
mod launches;
mod races;
mod system;
mod tensor_kernels;
mod testing;
mod tma;
mod wgmma;
mod wgmma_matmul;
