//! The files of a build, and its messages to cargo.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use sha2::{Digest, Sha256};

use crate::arch::NvvmArch;
use crate::builder::CudaBuilder;
use crate::built::BuiltModule;
use crate::cache::Made;
use crate::error::CudaBuilderError;
use crate::llvm::Llvm;
use crate::packages::KernelCrate;
use crate::progress::Progress;
use crate::{files, fingerprint, stack};
use cuda_ir::Lowered;

/// Follows the machine code in its file, before the SHA-256 of the PTX that it was compiled from.
const TRAILER: &[u8; 16] = b"ferrowarp cubin\n";

/// The destinations of a build's files.
pub(crate) struct Outputs<'b> {
    pub builder: &'b CudaBuilder,
    /// The library's name, which begins the file names.
    pub library: &'b str,
    pub folder: PathBuf,
}

impl Outputs<'_> {
    /// Checks before any compilation that the folder exists and every named file can be written.
    pub fn check(&self) -> Result<(), CudaBuilderError> {
        let refuse = |what: &str, path: &Path, why: &str| {
            let reason = format!("{what} is {}, {why}", path.display());
            Err(CudaBuilderError::Options(reason))
        };
        if self.folder.exists() && !self.folder.is_dir() {
            return refuse("out_dir", &self.folder, "which is no folder");
        }
        files::create_dir(&self.folder)?;
        let named = [
            ("copy_to", &self.builder.ptx_file_copy_path),
            ("final_module_path", &self.builder.final_module_path),
        ];
        for (what, path) in named.into_iter().filter_map(|(what, path)| Some((what, path.as_ref()?))) {
            if path.is_dir() {
                return refuse(what, path, "which is a folder: name a file in it");
            }
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                files::create_dir(folder)?;
            }
        }
        Ok(())
    }

    /// The PTX file of a part.
    pub fn ptx(&self, arch: NvvmArch, family: &str) -> PathBuf {
        let dot = if family.is_empty() { "" } else { "." };
        self.folder.join(format!("{}{dot}{family}.{arch}.ptx", self.library))
    }

    /// Writes a part's PTX to `path` and its machine code next to it, unless they are there already.
    pub fn write(&self, path: &Path, made: Made) -> Result<BuiltModule, CudaBuilderError> {
        let hash = Sha256::digest(made.ptx.as_bytes());
        let mut is_fresh = write_if_other(path, made.ptx.as_bytes())?;
        let cubin = path.with_extension("cubin");
        let (mut resources, mut machine_code) = (Vec::new(), None);
        let unbounded_stacks = stack::read(&made.ptx);
        match made.assembled {
            Some((mut code, needs)) => {
                code.extend_from_slice(TRAILER);
                code.extend_from_slice(&hash);
                is_fresh &= write_if_other(&cubin, &code)?;
                (resources, machine_code) = (needs, Some(cubin));
            }
            // It may be the machine code of other PTX.
            None => remove(&cubin)?,
        }
        if let Some(copy) = &self.builder.ptx_file_copy_path {
            files::write(copy, made.ptx.as_bytes())?;
        }
        Ok(BuiltModule {
            arch: NvvmArch::default(),
            family: String::new(),
            path: path.to_owned(),
            sha256: files::hex(&hash),
            resources,
            machine_code,
            is_fresh,
            unbounded_stacks,
            opt_level: made.fell_back.as_ref().map_or(self.builder.level(), |fell_back| fell_back.opt_level),
            fell_back: made.fell_back,
        })
    }

    /// Writes the modules that the back end gets, if requested.
    pub fn write_ir(&self, arch: NvvmArch, parts: &[Lowered], llvm: &Llvm) -> Result<(), CudaBuilderError> {
        for part in parts {
            let path = self.ptx(arch, &part.family);
            if self.builder.emit_llvm_ir {
                files::write(&path.with_extension("ll"), part.text.as_bytes())?;
            }
            if self.builder.emit_llvm_bitcode {
                files::write(
                    &path.with_extension("bc"),
                    &llvm.bitcode(part.text.as_bytes().to_vec(), arch)?,
                )?;
            }
            if let Some(path) = &self.builder.final_module_path {
                files::write(path, part.text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// Removes files of an earlier build for these architectures that this one did not write: a program would find old
    /// kernels in them.
    pub fn remove_stale(&self, modules: &[BuiltModule]) -> Result<(), CudaBuilderError> {
        for entry in self.folder.read_dir().into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(rest) = name.strip_prefix(self.library).and_then(|rest| rest.strip_prefix('.')) else {
                continue;
            };
            let Some(rest) = rest.strip_suffix(".ptx").or_else(|| rest.strip_suffix(".cubin")) else {
                continue;
            };
            let (family, arch) = rest.rsplit_once('.').unwrap_or(("", rest));
            let is_of_this_build = self.builder.archs.iter().any(|&built| {
                let is_specific =
                    |specific: NvvmArch| family.split('.').any(|part| part == specific.only_segment());
                let specific = built.architecture_variant().filter(|_| built.is_base_variant());
                let is_next_to = |it: NvvmArch| it.to_string() == arch && is_specific(it);
                built.to_string() == arch || specific.is_some_and(is_next_to)
            });
            let ptx = path.with_extension("ptx");
            if is_of_this_build && !modules.iter().any(|module| module.path == ptx) {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

/// Writes the file, unless it holds these bytes already; returns whether it did hold them.
fn write_if_other(path: &Path, bytes: &[u8]) -> Result<bool, CudaBuilderError> {
    let is_same =
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() == bytes.len() as u64)
            && std::fs::read(path).is_ok_and(|there| there == bytes);
    if !is_same {
        files::write(path, bytes)?;
    }
    Ok(is_same)
}

fn remove(path: &Path) -> Result<(), CudaBuilderError> {
    match std::fs::remove_file(path) {
        Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
            Err(CudaBuilderError::Io { deed: "removing", path: path.to_owned(), source })
        }
        _ => Ok(()),
    }
}

/// Whether cargo runs this program as a build script.
pub(crate) fn in_build_script() -> bool {
    ["OUT_DIR", "HOST", "TARGET"].iter().all(|name| std::env::var_os(name).is_some())
}

/// A build script's folder for intermediate files. It is next to the other outputs of its package, so that cargo may watch
/// the kernel crate's whole folder.
pub(crate) fn work_of_build_script() -> Option<PathBuf> {
    let out = PathBuf::from(std::env::var_os("OUT_DIR").filter(|_| in_build_script())?);
    // TARGET/PROFILE/build/PACKAGE/out
    let build = out.ancestors().nth(2).filter(|build| build.ends_with("build"))?;
    Some(build.parent()?.parent()?.join("cuda-builder"))
}

/// In a build script, lists the PTX's dependencies for cargo.
pub(crate) fn watch(kernel_crate: &KernelCrate) {
    if !in_build_script() {
        return;
    }
    for path in kernel_crate.sources.iter().flat_map(|folder| fingerprint::entries(folder)) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    for name in ["LIBNVVM_PATH", "CUDA_HOME", "CUDA_PATH", "FERROWARP_TOOLS", "FERROWARP_LLVM", "PTXAS_PATH"]
    {
        println!("cargo:rerun-if-env-changed={name}");
    }
}

/// Prints long steps and warnings, each line once. In a build script, only warnings: cargo shows nothing else, and only when
/// the script has ended, and again in every later build.
pub(crate) fn say_once(event: &Progress, said: &Mutex<Vec<String>>) {
    let is_shown = match event {
        Progress::Ready { .. } => false,
        Progress::Downloading { .. } | Progress::Working { .. } => !in_build_script(),
        Progress::FellBack(_) | Progress::UnboundedStack(_) => true,
    };
    if !is_shown {
        return;
    }
    let line = event.to_string();
    let mut said = said.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if !said.contains(&line) {
        if in_build_script() {
            println!("cargo:warning={line}");
        } else {
            eprintln!("{line}");
        }
        said.push(line);
    }
}
