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
    /// Where the builder keeps what it makes.
    pub work: PathBuf,
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
        .target_dir(&settings.work)
        .out_dir(settings.work.join("ptx"))
        .build_args(arguments);
    if let Some(planted) = settings.planted {
        builder = builder.edit_ir(planted.edit());
    }
    let path = builder.build()?;
    let ptx = std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    // Programs are many, and each is compiled once.
    let _ = std::fs::remove_dir_all(settings.work.join("cache"));
    Ok(ptx)
}
