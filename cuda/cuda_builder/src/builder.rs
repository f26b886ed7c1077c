//! [`CudaBuilder`]: the options; `pipeline.rs` has the way of a crate through them.

use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;

/// How much the PTX says about the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebugInfo {
    /// Nothing.
    #[default]
    None,
    /// File and line of each instruction, for profilers and compute-sanitizer. Code is the same.
    LineTables,
}

/// Builds a kernel crate to PTX, with the options of Rust-CUDA's builder of the same name.
#[derive(Clone, Debug)]
pub struct CudaBuilder {
    /// The folder of the kernel crate.
    pub path: PathBuf,
    /// Whether to use the crate's release profile. Default: true.
    pub release: bool,
    /// Whether rustc's passes and libNVVM optimise. Default: true. Without, libNVVM refuses some operations that it
    /// takes otherwise ("unsupported operation"), such as checked multiplication.
    pub nvvm_opts: bool,
    /// The architectures, each a module of its own. Default: `compute_75`.
    pub archs: Vec<NvvmArch>,
    /// Whether denormal numbers are flushed to zero, in libdevice too. Default: false.
    pub ftz: bool,
    /// Whether square roots are approximated. Default: false.
    pub fast_sqrt: bool,
    /// Whether divisions and reciprocals are approximated. Default: false.
    pub fast_div: bool,
    /// Whether `a * b + c` becomes one fused operation. Default: true.
    pub fma_contraction: bool,
    /// What the PTX says about the source. Default: nothing.
    pub debug: DebugInfo,
    /// Whether the module given to libNVVM is written beside the PTX, with the ending `ll`. Default: false.
    pub emit_llvm_ir: bool,
    /// Where the PTX is copied to.
    pub ptx_file_copy_path: Option<PathBuf>,
    /// Arguments for cargo, such as `--features` or `-Zbuild-std=core,alloc`.
    pub build_args: Vec<String>,
    /// The PTX file; only for one architecture.
    pub final_module_path: Option<PathBuf>,
    /// The folder of the PTX files, named `CRATE.compute_XX.ptx`. Default: `cuda-builder/ptx` in the target directory.
    pub out_dir: Option<PathBuf>,
    /// The folder of intermediate files. Default: `cuda-builder` in the target directory.
    pub target_dir: Option<PathBuf>,
    /// The folder of the fetched packages. Default: `FERROWARP_TOOLS`, else `ferrowarp-tools` in the target directory.
    pub tools_dir: Option<PathBuf>,
    /// Whether a missing libNVVM is fetched with pip and, where no compiler can be used and we are root on Debian,
    /// Debian's is installed with apt-get. Default: false.
    pub download: bool,
}

impl CudaBuilder {
    /// A builder for the crate in the folder `path`.
    pub fn new(path: impl AsRef<Path>) -> CudaBuilder {
        CudaBuilder {
            path: path.as_ref().to_owned(),
            release: true,
            nvvm_opts: true,
            archs: vec![NvvmArch::Compute75],
            ftz: false,
            fast_sqrt: false,
            fast_div: false,
            fma_contraction: true,
            debug: DebugInfo::None,
            emit_llvm_ir: false,
            ptx_file_copy_path: None,
            build_args: Vec::new(),
            final_module_path: None,
            out_dir: None,
            target_dir: None,
            tools_dir: None,
            download: false,
        }
    }

    /// Whether to use the crate's release profile; also sets [`Self::nvvm_opts`].
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self.nvvm_opts = release;
        self
    }

    /// Whether the PTX tells file and line of each instruction: [`DebugInfo::LineTables`] or none.
    pub fn generate_line_info(self, generate: bool) -> Self {
        self.debug(if generate { DebugInfo::LineTables } else { DebugInfo::None })
    }

    /// Whether rustc's passes and libNVVM optimise; see the field of this name.
    pub fn nvvm_opts(mut self, optimise: bool) -> Self {
        self.nvvm_opts = optimise;
        self
    }

    /// The one architecture to compile for.
    pub fn arch(mut self, arch: NvvmArch) -> Self {
        self.archs = vec![arch];
        self
    }

    /// Several architectures to compile for, a module each; see [`Self::build_all`].
    pub fn archs(mut self, archs: &[NvvmArch]) -> Self {
        self.archs = archs.to_vec();
        self
    }

    /// Whether denormal numbers are flushed to zero.
    pub fn ftz(mut self, flush: bool) -> Self {
        self.ftz = flush;
        self
    }

    /// Whether square roots are approximated.
    pub fn fast_sqrt(mut self, fast: bool) -> Self {
        self.fast_sqrt = fast;
        self
    }

    /// Whether divisions and reciprocals are approximated.
    pub fn fast_div(mut self, fast: bool) -> Self {
        self.fast_div = fast;
        self
    }

    /// Whether `a * b + c` becomes one fused operation.
    pub fn fma_contraction(mut self, contract: bool) -> Self {
        self.fma_contraction = contract;
        self
    }

    /// What the PTX says about the source.
    pub fn debug(mut self, debug: DebugInfo) -> Self {
        self.debug = debug;
        self
    }

    /// Whether the module given to libNVVM is written beside the PTX.
    pub fn emit_llvm_ir(mut self, emit: bool) -> Self {
        self.emit_llvm_ir = emit;
        self
    }

    /// Copies the PTX to `path` as well.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.ptx_file_copy_path = Some(path.as_ref().to_owned());
        self
    }

    /// Arguments for cargo.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.build_args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// The PTX file to write.
    pub fn final_module_path(mut self, path: impl AsRef<Path>) -> Self {
        self.final_module_path = Some(path.as_ref().to_owned());
        self
    }

    /// The folder to write PTX files in, named `CRATE.compute_XX.ptx`.
    pub fn out_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.out_dir = Some(path.as_ref().to_owned());
        self
    }

    /// The folder of intermediate files.
    pub fn target_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.target_dir = Some(path.as_ref().to_owned());
        self
    }

    /// The folder of the fetched packages.
    pub fn tools_dir(mut self, path: impl AsRef<Path>) -> Self {
        self.tools_dir = Some(path.as_ref().to_owned());
        self
    }

    /// Whether a missing libNVVM is fetched, and a missing compiler installed; see the field of this name.
    pub fn download(mut self, download: bool) -> Self {
        self.download = download;
        self
    }
}
