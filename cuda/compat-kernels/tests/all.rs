//! The kernels on the executor and, as the PTX of both back ends, on the emulator; and the names of docs/rust-cuda.md.

mod common;
mod device;
mod names;
mod parameters;
mod programs;
