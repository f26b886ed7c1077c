//! From a kernel crate to PTX, as [`cuda_builder`] does it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use cuda_builder::{Backend, CudaBuilder, NvvmArch};

use crate::planted::Planted;

/// How kernels are compiled.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What compiles them, one after the other.
    pub backends: Vec<Backend>,
    /// How much it optimises, 0 to 3.
    pub opt_level: u8,
    /// For what.
    pub arch: NvvmArch,
    /// An error that is planted, if one is.
    pub planted: Option<Planted>,
    /// Where PTX and digests go, instead of being compared: a path without an ending.
    pub packed: Option<PathBuf>,
    /// The builder's folder, if not the default one. The builder compiles one module at a time there.
    pub work: Option<PathBuf>,
    /// Where the PTX goes.
    pub out: PathBuf,
}

/// The PTX of a kernel crate by one back end, with more arguments for cargo.
///
/// # Errors
/// The builder's own.
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
        // For the person who investigates a difference.
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
