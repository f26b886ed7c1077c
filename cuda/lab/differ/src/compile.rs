//! Compiles a kernel crate to PTX with [`cuda_builder`].

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Context;
use cuda_builder::{Backend, BuiltModule, CudaBuilder, NvvmArch};

use crate::cases::Case;
use crate::planted::Planted;

/// The settings of a compilation.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The compilers, used one after the other.
    pub backends: Vec<Backend>,
    /// The optimisation level, 0 to 3.
    pub opt_level: u8,
    /// The architecture.
    pub arch: NvvmArch,
    /// The planted error, if any.
    pub planted: Option<Planted>,
    /// The beginning of the paths of PTX and of cases with more inputs, if they are packed for a GPU.
    pub packed: Option<PathBuf>,
    /// The builder's folder, if not the default one. The builder compiles one module at a time there.
    pub work: Option<PathBuf>,
    /// The folder for the PTX.
    pub out: PathBuf,
}

impl Settings {
    /// Both back ends at this level, for `compute_90`, into this folder.
    pub fn new(opt_level: u8, out: PathBuf) -> Settings {
        let backends = vec![Backend::Nvvm, Backend::Llvm];
        let arch = NvvmArch::Compute90;
        Settings { backends, opt_level, arch, planted: None, packed: None, work: None, out }
    }
}

/// The arguments of commands that compile.
#[derive(clap::Args, Clone, Debug)]
pub struct Compiler {
    /// What compiles for the device
    #[arg(long, value_delimiter = ',', default_values_t = [Backend::Nvvm, Backend::Llvm])]
    pub backend: Vec<Backend>,
    /// How much it optimises, 0 to 3
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(0..=3))]
    pub opt_level: u8,
    /// For which architecture
    #[arg(long, default_value = "compute_90")]
    pub arch: NvvmArch,
    /// Folder of what is made [default: target/differ]
    #[arg(long, value_name = "DIR")]
    work: Option<PathBuf>,
}

impl Compiler {
    /// The folder of what is made.
    ///
    /// # Errors
    /// The current folder is not known.
    pub fn work(&self) -> anyhow::Result<PathBuf> {
        let work = self.work.clone().unwrap_or_else(|| workspace().join("target/differ"));
        std::path::absolute(&work).with_context(|| format!("the folder {}", work.display()))
    }

    /// The same with a folder for the PTX.
    pub fn settings(&self, out: PathBuf) -> Settings {
        let Compiler { backend, opt_level, arch, .. } = self;
        Settings { backends: backend.clone(), arch: *arch, ..Settings::new(*opt_level, out) }
    }
}

/// The root of this crate's workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(1).unwrap_or(Path::new("."))
}

/// A part of a crate's PTX, which every compiler handles alone: the kernels of one Rust module, and what they need.
#[derive(Clone, Debug)]
pub struct Module {
    /// The name of that Rust module.
    pub name: String,
    /// Its PTX.
    pub ptx: String,
}

impl Module {
    /// The names of its kernels.
    pub fn kernels(&self) -> BTreeSet<&str> {
        let entries = self.ptx.split(".entry ").skip(1);
        entries
            .map(|rest| rest.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or(rest))
            .collect()
    }

    /// Reads a file of PTX.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn read(path: &Path) -> anyhow::Result<Module> {
        let ptx = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        Ok(Module { name: path.display().to_string(), ptx })
    }

    /// The cases of its kernels.
    pub fn cases<'a>(&self, all: &'a [Case]) -> Vec<&'a Case> {
        let kernels = self.kernels();
        all.iter().filter(|case| kernels.contains(case.kernel.as_str())).collect()
    }
}

/// Compiles a kernel crate to PTX with one back end, with more arguments for cargo.
///
/// # Errors
/// The builder's errors.
pub fn modules(
    crate_folder: &Path,
    backend: Backend,
    settings: &Settings,
    arguments: &[String],
) -> anyhow::Result<Vec<Module>> {
    let mut builder = CudaBuilder::new(crate_folder)
        .backend(backend)
        .opt_level(settings.opt_level)
        .arch(settings.arch)
        // A compiler that crashes or is slow for one part does not affect the others.
        .split(true)
        // The host fuses nothing, and has no libdevice.
        .fma_contraction(false)
        .override_libm(false)
        // For investigating a difference.
        .emit_llvm_ir(true)
        .out_dir(&settings.out)
        .build_args(arguments);
    if let Some(work) = &settings.work {
        builder = builder.target_dir(work);
    }
    if let Some(edit) = settings.planted.and_then(Planted::of_ir) {
        builder = builder.edit_ir(edit);
    }
    let built = builder.build_all()?;
    let times = built.times;
    eprintln!("rustc {:.1?}, edits {:.1?}, {backend} {:.1?}", times.rustc, times.edits, times.backend);
    let read = |module: BuiltModule| {
        let Module { mut ptx, .. } = Module::read(&module.path)?;
        if let Some(planted) = settings.planted {
            ptx = planted.in_ptx(ptx);
        }
        Ok(Module { name: module.family, ptx })
    };
    built.modules.into_iter().map(read).collect()
}
