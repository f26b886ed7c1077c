//! What the kernels must compute: the cases, and the oracles in f64 that judge them.

pub mod compare;
#[cfg(feature = "emulator")]
pub mod emulated;
pub mod layer;
pub mod matrix;
pub mod operation;
pub mod reference;
pub mod rows;
pub mod small;
pub mod wide;
