//! The tests of the library, in one program: each file and folder here is a module.

mod attention;
mod axis;
mod cases;
mod cross_entropy;
mod device_cpu;
mod device_cuda;
#[path = "../../cuda/cust/tests/support/mod.rs"]
mod driver;
mod extents;
mod gallery;
mod guards;
mod kernels;
mod loaded_ptx;
mod matmul;
mod norm;
#[path = "../examples/operations.rs"]
mod operations;
mod outside_crate;
mod ptx;
mod random;
mod resident;
mod sample;
mod short;
mod softmax;
mod softmax_backward;
mod softmax_operation;
mod streams;
mod strict_cpu;
mod top_k;
mod views;
