//! Calls of all that upstream has and is the same here, with upstream's signatures. They are there to be compiled.

#![allow(dead_code, unused_imports, deprecated, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
