//! Calls of all functions that upstream has with the same signature. They only have to compile.

#![allow(dead_code, unused_imports, deprecated, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
