//! The CUDA driver's symbols, resolved at run time.
//!
//! A program that links `cust` wants the symbols of `libcuda`. This crate exports all of them, so one binary
//! starts on machines with and without a driver. Each symbol jumps through a slot. Until the driver's library
//! is loaded, and afterwards where that library lacks the symbol, the call answers
//! `CUDA_ERROR_STUB_LIBRARY` (34).
//!
//! `cuInit`, which every CUDA program calls first, loads the library by itself, so `cust::quick_init()` simply
//! works; [`load`] says why it does not.
//!
//! ```
//! match cuda_driver::load() {
//!     Ok(driver) => println!("CUDA driver: {}", driver.library().display()),
//!     Err(error) => println!("no CUDA: {error}"),
//! }
//! ```

pub mod checked;
mod fallback;
mod leave;
mod load;
mod status;
mod symbols;

pub use leave::exit_at_once;
pub use load::{Driver, LIBRARY_VARIABLE, LoadError, load};
