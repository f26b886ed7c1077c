//! Crates of the registry in kernels, unchanged, one file each.
//!
//! A case is a number and some bytes, and makes some bytes: the same function is a kernel's on the device and an
//! ordinary one on the host, and both must make the same. [`table`] says which functions there are and with what they
//! are run; each crate is a feature of its own.

#[allow(dead_code, reason = "without a crate there are no kernels")]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
pub mod inputs;
mod place;
#[allow(unused_imports, unused_mut, reason = "without a crate there are no kernels")]
mod table;

#[cfg(not(target_arch = "nvptx64"))]
pub use cases::Entry;
pub use place::Place;
pub use table::*;
