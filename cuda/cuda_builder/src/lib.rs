//! Compiles a kernel crate to PTX: stable rustc, LLVM IR, libNVVM.
//!
//! ```no_run
//! use cuda_builder::{CudaBuilder, NvvmArch};
//!
//! let ptx = CudaBuilder::new("../kernels").arch(NvvmArch::Compute90).build()?;
//! println!("{}", ptx.display());
//! # Ok::<(), cuda_builder::CudaBuilderError>(())
//! ```
//!
//! One module per stage: `toolchain` finds a rustc with an LLVM that libNVVM understands. `cargo` runs it, which writes one
//! module of unoptimised LLVM IR. [`cuda_ir`] edits that text, `llvm` runs `opt`, and `nvvm` runs libNVVM in a child
//! process. `backend` edits the PTX, and `proof` checks it against the source. [`ptxas`] compiles it to machine code and
//! reports each kernel's resources.
//!
//! In a `build.rs`, the builder tells cargo which files and folders to watch.

mod alike;
mod arch;
mod backend;
mod builder;
mod built;
mod cache;
mod cargo;
mod codegen;
mod debian;
mod dependency;
mod diagnosis;
mod embed;
mod error;
mod fetch;
mod files;
mod fingerprint;
mod jobs;
mod libnvvm;
mod llvm;
mod native;
mod nvvm;
mod output;
mod own_libraries;
mod packages;
mod pip;
mod pipeline;
mod process;
mod progress;
mod proof;
mod ptx_version;
pub mod ptxas;
mod query;
mod stack;
mod suspects;
mod toolchain;
mod unroll;
mod watch;
mod whole;

pub use arch::NvvmArch;
pub use builder::{CudaBuilder, DebugInfo};
pub use built::{Built, BuiltModule, Times};
pub use codegen::Backend;
pub use cuda_ir::ptx;
pub use error::{Blame, CudaBuilderError};
pub use fetch::{NVVM, PTXAS, Package, fetch};
pub use progress::{FellBack, Progress, ProgressFn};
pub use stack::UnboundedStack;
pub use suspects::{Suspect, suspects};
