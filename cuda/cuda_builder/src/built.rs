//! The result of a build.

use std::path::PathBuf;
use std::time::Duration;

use crate::arch::NvvmArch;
use crate::progress::FellBack;
use crate::ptxas::KernelResources;
use crate::stack::UnboundedStack;

/// The result of [`build_all`](crate::CudaBuilder::build_all).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Built {
    /// The modules of each architecture, in the requested order.
    pub modules: Vec<BuiltModule>,
    /// The name of the kernel crate's library; of several, that of the library that depends on them.
    pub library: String,
    /// The library's name of each kernel crate, which begins the file names.
    pub libraries: Vec<String>,
    /// The folder of each kernel crate's source: `src`, unless its manifest sets another.
    pub source_folders: Vec<PathBuf>,
    /// The time of each stage.
    pub times: Times,
}

/// A PTX module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltModule {
    /// Its architecture.
    pub arch: NvvmArch,
    /// The name of the part, such as `softmax.k1_naive`; empty if the crate is one module.
    pub family: String,
    /// The PTX file.
    pub path: PathBuf,
    /// The sha256 of the PTX, in hexadecimal.
    pub sha256: String,
    /// The resources of its kernels, if ptxas ran.
    pub resources: Vec<KernelResources>,
    /// Its machine code, if ptxas ran.
    pub machine_code: Option<PathBuf>,
    /// Whether nothing had changed since an earlier build, so its file was kept.
    pub is_fresh: bool,
    /// The kernels with a stack of unknown size at compile time. [`KernelResources::stack`] has the size of the others.
    pub unbounded_stacks: Vec<UnboundedStack>,
    /// The optimisation level it was compiled at: the requested one, unless it fell back.
    pub opt_level: u8,
    /// Why it was compiled at a lower level than requested, if it was.
    pub fell_back: Option<FellBack>,
}

/// The times of the stages of a build. Each is the sum over architectures and parts, which run in parallel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Times {
    /// Cargo and rustc.
    pub rustc: Duration,
    /// The edits of the LLVM IR.
    pub edits: Duration,
    /// LLVM's tools and libNVVM.
    pub backend: Duration,
    /// ptxas.
    pub ptxas: Duration,
    /// The whole build.
    pub total: Duration,
    /// Parts that were compiled.
    pub compiled: usize,
}
