//! Rust-CUDA's `cust`: the CUDA driver API for Rust, with a driver that is loaded at run time.
//!
//! Items have the names and behaviour of upstream, so programs written for it compile unchanged. The differences:
//!
//! - Building and linking need no part of CUDA. The first call loads the driver's library, so a program starts with or
//!   without a driver; [`load`] reports why there is none.
//! - Every call fails without a driver, without a current context, or after a kernel has failed; a function's documentation
//!   lists its other errors. An error can hold any code of the driver, and names the fix if there is one. Invalid input is
//!   an error where upstream panics.
//! - Only commonly used items exist: no textures, surfaces, graphs, linker, context flags, or contexts other than primary
//!   ones. [`sys`] has functions of the driver itself.
//!
//! [`soundness`] lists what makes the safe functions sound.
//!
//! ```no_run
//! use cust::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let ptx = "";
//! let _context = cust::quick_init()?;
//! let module = Module::from_ptx(ptx, &[])?;
//! let stream = Stream::new(StreamFlags::NON_BLOCKING, None)?;
//!
//! let x = [1.0f32, 2.0, 3.0].as_dbuf()?;
//! let out = DeviceBuffer::<f32>::zeroed(x.len())?;
//! let square = module.get_function("square")?;
//! // SAFETY: the kernel takes a slice and a pointer, and writes one element per thread below the slice's length.
//! unsafe { launch!(square<<<1, 32, 0, stream>>>(x.as_device_ptr(), x.len(), out.as_device_ptr()))? };
//! stream.synchronize()?;
//! println!("{:?}", out.as_host_vec()?);
//! # Ok(())
//! # }
//! ```

// The derive's output refers to `cust`, which must also resolve in this crate.
extern crate self as cust;

pub mod context;
pub mod device;
pub mod error;
pub mod event;
mod exit;
mod fork;
pub mod function;
mod init;
mod load;
pub mod memory;
pub mod module;
pub mod nccl;
pub mod prelude;
#[doc = include_str!("soundness.md")]
pub mod soundness {}
pub mod stream;
pub mod sys;
pub mod tensor;
pub mod util;

pub use cuda_std_macros::DeviceCopy;
pub use exit::exit_at_once;
pub use fork::is_forked;
pub use init::{CudaApiVersion, CudaFlags, init, quick_init};
pub use load::{Driver, LIBRARIES, LIBRARY_VARIABLE, LoadError, load};
