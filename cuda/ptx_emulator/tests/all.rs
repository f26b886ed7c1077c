//! The tests of the emulator, in one program: each file here is a module.

mod bulk;
mod calls;
mod cluster_kernels;
mod cluster_stores;
mod clusters;
mod common;
mod copies;
mod counts;
mod counts_flop;
mod counts_flow;
mod counts_kernels;
mod device_functions;
mod floats;
mod grids;
mod integers;
mod mbarrier;
mod refusals;
mod system;
mod tensor;
mod tensor_kernels;
mod testing;
mod threads;
mod tma;
mod uninitialised;
mod wgmma;
mod wgmma_matmul;
