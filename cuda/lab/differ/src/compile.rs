//! Compiles a kernel crate to PTX with [`cuda_builder`].

use std::path::{Path, PathBuf};

use anyhow::Context;
use cuda_builder::{Backend, CudaBuilder, NvvmArch};

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
    /// The path for PTX and digests of more inputs, without an extension, if they are packed for a GPU.
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

/// Compiles a kernel crate to PTX with one back end, with more arguments for cargo.
///
/// # Errors
/// The builder's errors.
pub fn ptx(
    crate_folder: &Path,
    backend: Backend,
    settings: &Settings,
    arguments: &[String],
) -> anyhow::Result<String> {
    let mut builder = CudaBuilder::new(crate_folder)
        .backend(backend)
        .opt_level(settings.opt_level)
        .arch(settings.arch)
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
    let (times, path) = (built.times, built.modules.into_iter().map(|module| module.path).next());
    eprintln!("rustc {:.1?}, edits {:.1?}, {backend} {:.1?}", times.rustc, times.edits, times.backend);
    let path = path.context("the builder made no module")?;
    let ptx = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(match settings.planted {
        Some(planted) => planted.in_ptx(ptx),
        None => ptx,
    })
}
