//! What the kernels must compute: the cases, and the oracles in f64 that judge them.

#[cfg(feature = "emulator")]
pub mod emulated;
pub mod matrix;
pub mod reference;
pub mod rows;
