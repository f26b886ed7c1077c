//! [`CudaBuilder`]: the options; `pipeline.rs` runs a build with them.

use std::path::{Path, PathBuf};

use crate::arch::NvvmArch;
use crate::codegen::{Backend, CodegenOptions};
use crate::error::CudaBuilderError;
use crate::{files, pip};
use cuda_ir::{Cut, Edits};

/// The debug info in the PTX.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DebugInfo {
    /// Nothing.
    #[default]
    None,
    /// File and line of each instruction, for profilers and compute-sanitizer. The code is the same.
    LineTables,
}

/// The package whose kernel crates a builder builds.
#[derive(Clone, Debug)]
pub(crate) enum Packages {
    /// The one of this name, among the dependencies of the build script's package.
    Dependency(String),
    /// The one in this folder.
    Folder(PathBuf),
}

/// Declares [`CudaBuilder`] with its defaults, and methods that set the fields of the second list.
macro_rules! options {
    (
        { $($(#[$doc:meta])* $vis:vis $field:ident: $ty:ty = $default:expr;)* }
        { $($(#[$set_doc:meta])* $set:ident: $set_ty:ty = $set_default:expr;)* }
    ) => {
        /// Builds a kernel crate to PTX, with the options of Rust-CUDA's builder of the same name.
        #[derive(Clone, Debug)]
        pub struct CudaBuilder {
            $($(#[$doc])* $vis $field: $ty,)*
            $($(#[$set_doc])* pub $set: $set_ty,)*
        }

        impl CudaBuilder {
            /// Creates a builder for the crate in the folder `path`.
            pub fn new(path: impl AsRef<Path>) -> CudaBuilder {
                let options = CudaBuilder {
                    $($field: $default,)*
                    $($set: $set_default,)*
                };
                CudaBuilder { path: path.as_ref().to_owned(), ..options }
            }

            $($(#[$set_doc])* pub fn $set(mut self, $set: $set_ty) -> Self {
                self.$set = $set;
                self
            })*
        }
    };
}

options! { {
    /// The folder of the kernel crate.
    pub path: PathBuf = PathBuf::new();
    /// Whether to use the crate's release profile. Default: true.
    pub release: bool = true;
    /// The architectures, with a module for each. Default: `compute_75`. Kernels for one architecture alone,
    /// `#[kernel(arch = "90a")]`, are in a second module next to that for `compute_90`, with `only_90a` in its name, or in
    /// the module for `compute_90a` if that is requested. A static that they share with other kernels is then a separate
    /// variable in each module.
    pub archs: Vec<NvvmArch> = vec![NvvmArch::default()];
    /// The path to copy the PTX to.
    pub ptx_file_copy_path: Option<PathBuf> = None;
    /// Arguments for cargo, such as `--features` or `-Zbuild-std=core,alloc`.
    pub build_args: Vec<String> = Vec::new();
    /// The path for the back end's input, as text; only for a single module.
    pub final_module_path: Option<PathBuf> = None;
    /// The folder of the PTX files, named `CRATE.compute_XX.ptx` or `CRATE.FAMILY.compute_XX.ptx`. Default:
    /// `cuda-builder/ptx` in the target directory.
    pub out_dir: Option<PathBuf> = None;
    /// The folder of intermediate files. Default: `cuda-builder` in the target directory; in a build script, the target
    /// directory of its package.
    pub target_dir: Option<PathBuf> = None;
    /// The folder of the fetched packages. Default: see [`Self::tools_dir_in`].
    pub tools_dir: Option<PathBuf> = None;
    /// The packages that set [`Self::path`] and add their features to [`Self::build_args`].
    pub(crate) packages: Option<Packages> = None;
    /// The library whose kernels are kept, without those of its dependencies.
    pub(crate) library: Option<String> = None;
    /// Edits each module's text before the back end gets it: for tests that plant an error.
    pub(crate) edit_ir: Option<fn(String) -> String> = None;
} {
    /// Whether the back end optimises; if not, [`Self::opt_level`] counts as 0. Default: true.
    nvvm_opts: bool = true;
    /// The back end's optimisation level, 0 to 3. Default: 3.
    opt_level: u8 = 3;
    /// The compiler from LLVM IR to PTX. Default: libNVVM.
    backend: Backend = Backend::default();
    /// Whether denormal numbers are flushed to zero, also in libdevice. Default: false.
    ftz: bool = false;
    /// Whether square roots are approximated. Default: false.
    fast_sqrt: bool = false;
    /// Whether divisions and reciprocals are approximated. Default: false.
    fast_div: bool = false;
    /// Whether `a * b + c` becomes one fused operation. Default: true.
    fma_contraction: bool = true;
    /// The debug info in the PTX. Default: nothing.
    debug: DebugInfo = DebugInfo::None;
    /// Whether the back end's input is written next to the PTX, with the extension `ll`. Default: false.
    emit_llvm_ir: bool = false;
    /// The same as bitcode, with the extension `bc`. Default: false.
    emit_llvm_bitcode: bool = false;
    /// Whether calls of the crate `libm`, which `no_std` crates use for float functions, run libdevice's functions instead.
    /// They are faster and differ in the last bits. Default: true.
    override_libm: bool = true;
    /// Whether immutable statics are placed in constant memory, as far as they fit its 64 KiB. Default: false.
    use_constant_memory_space: bool = false;
    /// Whether the code is for OptiX, which is not supported: the build fails. Default: false.
    optix: bool = false;
    /// Whether each family of kernels (those of one Rust module) becomes a separate PTX module. The modules are compiled in
    /// parallel, and only changed ones are compiled again. Requires [`Self::build_all`]. Default: false.
    split: bool = false;
    /// Whether architectures that the sources do not distinguish share one PTX, with a different `.target`: the PTX for the
    /// first of them, which all later ones run (PTX ISA, "PTX Module Directives: .target"). This saves compilations; PTX
    /// compiled for a later one may be faster there. Default: false.
    compile_once: bool = false;
    /// Whether ptxas compiles the PTX to machine code, in files with the extension `cubin` next to it, and reports each
    /// kernel's resources. Default: false.
    machine_code: bool = false;
    /// Whether a part for which a tool exceeds its time limit is compiled at a lower level, 1 and then 0. The module's
    /// [`fell_back`](crate::BuiltModule::fell_back) and a warning report it. Otherwise it is an error, so a slow machine
    /// builds the same PTX as a fast one, or none. The limit counts processor time: 30 to 120 seconds for each tool and level,
    /// depending on the size of the part, 600 at the last level, or `FERROWARP_COMPILER_SECONDS` from the environment.
    /// Default: true.
    fall_back: bool = true;
    /// Whether a missing or damaged libNVVM or ptxas is fetched with pip, and a missing compiler installed. Default: true.
    download: bool = true;
} }

impl CudaBuilder {
    /// Whether to use the crate's release profile; also sets [`Self::nvvm_opts`].
    pub fn release(mut self, release: bool) -> Self {
        self.release = release;
        self.nvvm_opts = release;
        self
    }

    /// Whether the PTX has the file and line of each instruction: [`DebugInfo::LineTables`] or none.
    pub fn generate_line_info(self, generate: bool) -> Self {
        self.debug(if generate { DebugInfo::LineTables } else { DebugInfo::None })
    }

    /// The only architecture to compile for.
    pub fn arch(self, arch: NvvmArch) -> Self {
        self.archs(&[arch])
    }

    /// The architectures to compile for, with a module for each; see [`Self::build_all`].
    pub fn archs(self, archs: &[NvvmArch]) -> Self {
        Self { archs: archs.to_vec(), ..self }
    }

    /// All approximations at once, like nvcc's `--use_fast_math`: denormal numbers flushed, square roots and divisions
    /// approximated, multiplications and additions fused.
    pub fn fast_math(self) -> Self {
        self.ftz(true).fast_sqrt(true).fast_div(true).fma_contraction(true)
    }

    /// Also copies the PTX to `path`, which [`Self::build`] then returns.
    pub fn copy_to(self, path: impl AsRef<Path>) -> Self {
        Self { ptx_file_copy_path: Some(path.as_ref().to_owned()), ..self }
    }

    /// Arguments for cargo.
    pub fn build_args(mut self, args: &[impl AsRef<str>]) -> Self {
        self.build_args.extend(args.iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Writes the back end's input to `path`, as text.
    pub fn final_module_path(self, path: impl AsRef<Path>) -> Self {
        Self { final_module_path: Some(path.as_ref().to_owned()), ..self }
    }

    /// The folder for PTX files.
    pub fn out_dir(self, path: impl AsRef<Path>) -> Self {
        Self { out_dir: Some(path.as_ref().to_owned()), ..self }
    }

    /// The folder for intermediate files.
    pub fn target_dir(self, path: impl AsRef<Path>) -> Self {
        Self { target_dir: Some(path.as_ref().to_owned()), ..self }
    }

    /// The folder of the fetched packages.
    pub fn tools_dir(self, path: impl AsRef<Path>) -> Self {
        Self { tools_dir: Some(path.as_ref().to_owned()), ..self }
    }

    /// The folder of the fetched packages for a crate with the target directory `target`: `FERROWARP_TOOLS`, or `ferrowarp`
    /// in the user's cache folder, or `ferrowarp-tools` in `target` if that cannot be written or is mounted noexec.
    pub fn tools_dir_in(target: &Path) -> PathBuf {
        let [named, ours] = pip::tools_folders();
        if let Some(named) = named {
            return named;
        }
        let is_usable = |folder: &PathBuf| files::is_writable(folder) && files::runs_programs(folder);
        ours.filter(is_usable).unwrap_or_else(|| target.join("ferrowarp-tools"))
    }

    /// Edits each module's text before the back end gets it.
    #[doc(hidden)]
    pub fn edit_ir(mut self, edit: fn(String) -> String) -> Self {
        self.edit_ir = Some(edit);
        self
    }

    /// Checks that the options do not contradict each other.
    pub(crate) fn check_options(&self) -> Result<(), CudaBuilderError> {
        let fail = |reason: &str| Err(CudaBuilderError::Options(reason.to_owned()));
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
            return Err(CudaBuilderError::Options(reason));
        }
        if self.optix {
            return fail("optix is given, and code for OptiX cannot be made here");
        }
        Ok(())
    }

    /// The optimisation level, from all options.
    pub(crate) fn level(&self) -> u8 {
        if self.nvvm_opts { self.opt_level } else { 0 }
    }

    /// How a module for `arch` is compiled.
    pub(crate) fn codegen(&self, arch: NvvmArch) -> CodegenOptions {
        CodegenOptions {
            arch,
            opt_level: self.level(),
            ftz: self.ftz,
            fast_sqrt: self.fast_sqrt,
            fast_div: self.fast_div,
            fma_contraction: self.fma_contraction,
            line_tables: self.debug == DebugInfo::LineTables,
        }
    }

    /// The levels to try, in this order.
    pub(crate) fn levels(&self) -> Vec<u8> {
        let first = self.level();
        let lower = [1, 0].into_iter().filter(|level| self.fall_back && *level < first);
        std::iter::once(first).chain(lower).collect()
    }

    /// The edits for a module of all kernels, or of only those for the architecture `only`, such as `compute_90a`.
    pub(crate) fn edits(&self, only: Option<NvvmArch>) -> Edits {
        Edits {
            only: only.map(NvvmArch::only_segment),
            library: self.library.clone(),
            cut: if self.split { Cut::Families } else { Cut::Whole },
            override_libm: self.override_libm,
            constant_memory: self.use_constant_memory_space,
        }
    }

    /// Whether the modules themselves are requested or edited, so they must be computed each time.
    pub(crate) fn wants_ir(&self) -> bool {
        self.emit_llvm_ir
            || self.emit_llvm_bitcode
            || self.final_module_path.is_some()
            || self.edit_ir.is_some()
    }
}
