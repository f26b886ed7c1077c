//! The ladders: softmax, matrix multiplication and attention, from the plain kernel to the fast one, one idea per file.

#![no_std]
#![allow(clippy::too_many_arguments, reason = "a kernel's parameters are its calling convention")]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod attention;
pub mod matmul;
pub mod softmax;
