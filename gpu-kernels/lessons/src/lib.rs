//! The lessons: the [`gallery`], and the [`copies`](mod@copy) that its kernels and the softmax ladder are compared with.

#![no_std]
#![allow(clippy::too_many_arguments, reason = "a kernel's parameters are its calling convention")]
#![allow(unused_imports, reason = "on the host the float methods of std come before those of GpuFloat")]

pub mod copy;
pub mod gallery;
