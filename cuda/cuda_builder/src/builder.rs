//! [`CudaBuilder`]: the options; `pipeline.rs` has the way of a crate through them.

use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::backend::Backend;
use crate::error::CudaBuilderError;
use crate::files;
use cuda_ir::{Cut, Edits};

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
    /// Whether the back end optimises; without, it is as if [`Self::opt_level`] were 0. Default: true.
    pub nvvm_opts: bool,
    /// How much the back end optimises, 0 to 3. Default: 3.
    pub opt_level: u8,
    /// What makes PTX of the LLVM IR. Default: libNVVM.
    pub backend: Backend,
    /// The architectures, each a module of its own. Default: `compute_75`. Kernels that are for one architecture alone,
    /// `#[kernel(arch = "90a")]`, are in a second module next to that for `compute_90`, with `only_90a` in its name, or in
    /// the module for `compute_90a` if that is given. A static that they share with other kernels is then a variable of
    /// each module.
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
    /// Whether the module given to the back end is written beside the PTX, with the ending `ll`. Default: false.
    pub emit_llvm_ir: bool,
    /// The same as bitcode, with the ending `bc`. Default: false.
    pub emit_llvm_bitcode: bool,
    /// Whether calls of the crate `libm`, which `no_std` crates use for the functions of floats, run libdevice's functions
    /// instead, which are faster and differ in the last bits. Default: true.
    pub override_libm: bool,
    /// Whether statics that cannot change are placed in constant memory, as many as fit its 64 KiB. Default: false.
    pub use_constant_memory_space: bool,
    /// Whether the code is for OptiX, which is refused: there is no such form of it here. Default: false.
    pub optix: bool,
    /// Whether each family of kernels (those of one Rust module) becomes a separate PTX module. The modules are compiled in
    /// parallel, and only those that changed are compiled again. Only with [`Self::build_all`]. Default: false.
    pub split: bool,
    /// Whether architectures between which the sources make no difference get the same PTX but for its `.target`: what is
    /// made for the first of them, which all later ones run (PTX ISA, "PTX Module Directives: .target"). It saves their
    /// compilation; what the compiler would make for a later one alone may be faster there. Default: false.
    pub compile_once: bool,
    /// Whether ptxas makes machine code of the PTX, in files with the ending `cubin` beside it, and says what each kernel
    /// needs. Default: false.
    pub machine_code: bool,
    /// Whether a part on which a tool does not end within its time limit is compiled at a lower level, 1 and then 0; the
    /// module's [`fell_back`](crate::BuiltModule::fell_back) and a warning say so. Without, it is an error: a slow machine
    /// then makes the same PTX as a fast one or none. The limit counts processor time: 120 seconds for each tool and
    /// level, 600 at the last one, or what the environment's `FERROWARP_COMPILER_SECONDS` says. Default: true.
    pub fall_back: bool,
    /// Where the PTX is copied to.
    pub ptx_file_copy_path: Option<PathBuf>,
    /// Arguments for cargo, such as `--features` or `-Zbuild-std=core,alloc`.
    pub build_args: Vec<String>,
    /// Where the module given to the back end is written, as text; only for one module.
    pub final_module_path: Option<PathBuf>,
    /// The folder of the PTX files, named `CRATE.compute_XX.ptx` or `CRATE.FAMILY.compute_XX.ptx`. Default:
    /// `cuda-builder/ptx` in the target directory.
    pub out_dir: Option<PathBuf>,
    /// The folder of intermediate files. Default: `cuda-builder` in the target directory, that of the build script's package
    /// if there is one.
    pub target_dir: Option<PathBuf>,
    /// The folder of the fetched packages. Default: as [`Self::tools_dir_in`] says.
    pub tools_dir: Option<PathBuf>,
    /// Whether a missing or damaged libNVVM or ptxas is fetched with pip. Default: true.
    pub download: bool,
    /// The dependency whose folder and features replace [`Self::path`] and are added to [`Self::build_args`].
    pub(crate) dependency: Option<String>,
    /// What is done to each module's text before the back end gets it: for tests that plant an error.
    pub(crate) edit_ir: Option<fn(String) -> String>,
}

impl CudaBuilder {
    /// A builder for the crate in the folder `path`.
    pub fn new(path: impl AsRef<Path>) -> CudaBuilder {
        CudaBuilder {
            path: path.as_ref().to_owned(),
            release: true,
            nvvm_opts: true,
            opt_level: 3,
            backend: Backend::default(),
            archs: vec![NvvmArch::default()],
            ftz: false,
            fast_sqrt: false,
            fast_div: false,
            fma_contraction: true,
            debug: DebugInfo::None,
            emit_llvm_ir: false,
            emit_llvm_bitcode: false,
            override_libm: true,
            use_constant_memory_space: false,
            optix: false,
            split: false,
            compile_once: false,
            machine_code: false,
            fall_back: true,
            ptx_file_copy_path: None,
            build_args: Vec::new(),
            final_module_path: None,
            out_dir: None,
            target_dir: None,
            tools_dir: None,
            download: true,
            dependency: None,
            edit_ir: None,
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

    /// Whether the back end optimises.
    pub fn nvvm_opts(mut self, optimise: bool) -> Self {
        self.nvvm_opts = optimise;
        self
    }

    /// How much the back end optimises, 0 to 3.
    pub fn opt_level(mut self, level: u8) -> Self {
        self.opt_level = level;
        self
    }

    /// What makes PTX of the LLVM IR.
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
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

    /// All approximations at once, as nvcc's `--use_fast_math`: denormal numbers flushed, square roots and divisions
    /// approximated, multiplications and additions fused.
    pub fn fast_math(self) -> Self {
        self.ftz(true).fast_sqrt(true).fast_div(true).fma_contraction(true)
    }

    /// What the PTX says about the source.
    pub fn debug(mut self, debug: DebugInfo) -> Self {
        self.debug = debug;
        self
    }

    /// Whether the module given to the back end is written beside the PTX, as text.
    pub fn emit_llvm_ir(mut self, emit: bool) -> Self {
        self.emit_llvm_ir = emit;
        self
    }

    /// Whether the module given to the back end is written beside the PTX, as bitcode.
    pub fn emit_llvm_bitcode(mut self, emit: bool) -> Self {
        self.emit_llvm_bitcode = emit;
        self
    }

    /// Whether calls of the crate `libm` run libdevice's functions; see the field of this name.
    pub fn override_libm(mut self, over: bool) -> Self {
        self.override_libm = over;
        self
    }

    /// Whether statics that cannot change are placed in constant memory.
    pub fn use_constant_memory_space(mut self, place: bool) -> Self {
        self.use_constant_memory_space = place;
        self
    }

    /// Whether the code is for OptiX: the build then fails and says that it cannot be.
    pub fn optix(mut self, optix: bool) -> Self {
        self.optix = optix;
        self
    }

    /// Whether each family of kernels becomes a PTX module of its own; see the field of this name.
    pub fn split(mut self, split: bool) -> Self {
        self.split = split;
        self
    }

    /// Whether architectures that are alike to the sources share their PTX; see the field of this name.
    pub fn compile_once(mut self, once: bool) -> Self {
        self.compile_once = once;
        self
    }

    /// Whether ptxas makes machine code of the PTX.
    pub fn machine_code(mut self, make: bool) -> Self {
        self.machine_code = make;
        self
    }

    /// Whether a part is compiled at a lower level where a tool does not end in time; see the field of this name.
    pub fn fall_back(mut self, fall_back: bool) -> Self {
        self.fall_back = fall_back;
        self
    }

    /// Copies the PTX to `path` as well; [`Self::build`] then gives this path.
    pub fn copy_to(mut self, path: impl AsRef<Path>) -> Self {
        self.ptx_file_copy_path = Some(path.as_ref().to_owned());
        self
    }

    /// Arguments for cargo.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.build_args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Writes the module given to the back end to `path`, as text.
    pub fn final_module_path(mut self, path: impl AsRef<Path>) -> Self {
        self.final_module_path = Some(path.as_ref().to_owned());
        self
    }

    /// The folder to write PTX files in.
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

    /// The folder of the fetched packages, for a crate whose target directory is `target`: what `FERROWARP_TOOLS` names,
    /// else `ferrowarp` in the user's folder of caches, else, where that cannot be written, `ferrowarp-tools` in `target`.
    pub fn tools_dir_in(target: &Path) -> PathBuf {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(named) = variable("FERROWARP_TOOLS") {
            return named;
        }
        let caches = variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
        let caches = caches.or_else(|| Some(variable("HOME")?.join(".cache")));
        let ours = caches.map(|folder| folder.join("ferrowarp"));
        ours.filter(|folder| files::is_writable(folder)).unwrap_or_else(|| target.join("ferrowarp-tools"))
    }

    /// What is done to each module's text before the back end gets it.
    #[doc(hidden)]
    pub fn edit_ir(mut self, edit: fn(String) -> String) -> Self {
        self.edit_ir = Some(edit);
        self
    }

    /// An error for options that are not to be had together.
    pub(crate) fn check_options(&self) -> Result<(), CudaBuilderError> {
        let fail = |reason: &str| Err(CudaBuilderError::Options { reason: reason.to_owned() });
        let several = self.archs.len() > 1 || self.split;
        if self.archs.is_empty() {
            return fail("no architecture is given");
        }
        if several && (self.final_module_path.is_some() || self.ptx_file_copy_path.is_some()) {
            return fail(
                "final_module_path and copy_to name one file, and several modules are made: use out_dir",
            );
        }
        if self.archs.iter().enumerate().any(|(i, arch)| self.archs[..i].contains(arch)) {
            return fail("an architecture is given twice");
        }
        if self.opt_level > 3 {
            let reason = format!("opt_level is 0 to 3, and {} is given", self.opt_level);
            return Err(CudaBuilderError::Options { reason });
        }
        if self.optix {
            return fail("optix is given, and code for OptiX cannot be made here");
        }
        Ok(())
    }

    /// How much is optimised, all options considered.
    pub(crate) fn level(&self) -> u8 {
        if self.nvvm_opts { self.opt_level } else { 0 }
    }

    /// The levels to try, in this order.
    pub(crate) fn levels(&self) -> Vec<u8> {
        let first = self.level();
        let lower = [1, 0].into_iter().filter(|level| self.fall_back && *level < first);
        std::iter::once(first).chain(lower).collect()
    }

    /// The edits of a module of all kernels, or of those that are for `only`, such as `compute_90a`, and nothing else.
    pub(crate) fn edits(&self, only: Option<NvvmArch>) -> Edits {
        Edits {
            only: only.map(NvvmArch::only_segment),
            cut: if self.split { Cut::Families } else { Cut::Whole },
            override_libm: self.override_libm,
            constant_memory: self.use_constant_memory_space,
        }
    }

    /// Whether the modules themselves are wanted or changed, so that they have to be made each time.
    pub(crate) fn wants_ir(&self) -> bool {
        self.emit_llvm_ir
            || self.emit_llvm_bitcode
            || self.final_module_path.is_some()
            || self.edit_ir.is_some()
    }
}
