//! The way of a crate to PTX, as five calls, for several architectures at a time.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arch::NvvmArch;
use crate::builder::{CudaBuilder, DebugInfo};
use crate::cargo::{self, CargoOptions};
use crate::error::CudaBuilderError;
use crate::fetch::{self, Progress};
use crate::fingerprint::{self, Stamp};
use crate::nvvm::{Nvvm, NvvmOptions};
use crate::packages::{self, DevicePackage, KernelCrate};
use crate::toolchain::{self, Toolchain};
use crate::{files, ir, libnvvm, proof};

/// What [`CudaBuilder::build_all`] made.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Built {
    /// One module for each architecture, in the order they were given.
    pub modules: Vec<BuiltModule>,
    /// The folder of the kernel crate's source: `src`, unless its manifest says otherwise.
    pub source_folder: PathBuf,
}

/// A PTX module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BuiltModule {
    /// What it was compiled for.
    pub arch: NvvmArch,
    /// The PTX file.
    pub path: PathBuf,
    /// The sha256 of the file, in hexadecimal.
    pub sha256: String,
    /// Whether nothing had changed since an earlier build, so that its file was kept.
    pub is_fresh: bool,
}

/// What all architectures of one build share.
struct Session {
    kernel_crate: KernelCrate,
    packages: Vec<DevicePackage>,
    toolchain: Toolchain,
    nvvm: Nvvm,
    nvvm_path: PathBuf,
    sources: String,
}

impl CudaBuilder {
    /// Builds for the one architecture given, and gives the path of the PTX.
    pub fn build(self) -> Result<PathBuf, CudaBuilderError> {
        if self.archs.len() != 1 {
            let reason = format!(
                "build() makes one module, {} architectures are given: use build_all()",
                self.archs.len()
            );
            return Err(CudaBuilderError::Options { reason });
        }
        let built = self.build_all()?;
        Ok(built.modules.into_iter().map(|module| module.path).next_back().unwrap_or_default())
    }

    /// Builds for every architecture given, several at a time. That packages of the operating system are installed is
    /// said in a line on stderr.
    pub fn build_all(self) -> Result<Built, CudaBuilderError> {
        self.build_all_with(&|event| {
            if let Progress::Installing { command, reason } = event {
                eprintln!("{reason}; running `{command}`");
            }
        })
    }

    /// As [`Self::build_all`], and tells `progress` about downloads and installations.
    pub fn build_all_with(self, progress: &fetch::ProgressFn<'_>) -> Result<Built, CudaBuilderError> {
        self.check_options()?;
        let session = self.open(progress)?;
        let modules = in_parallel(&self.archs, |arch| self.build_module(&session, arch))?;
        let root_file = &session.kernel_crate.root_file;
        let source_folder = root_file.parent().unwrap_or(&session.kernel_crate.path).to_owned();
        Ok(Built { modules, source_folder })
    }

    /// The folder of the fetched packages, for a crate whose target directory is `target`.
    pub fn tools_dir_in(target: &Path) -> PathBuf {
        std::env::var_os("FERROWARP_TOOLS").map_or_else(|| target.join("ferrowarp-tools"), PathBuf::from)
    }

    fn check_options(&self) -> Result<(), CudaBuilderError> {
        let several = self.archs.len() > 1;
        let fail = |reason: &str| Err(CudaBuilderError::Options { reason: reason.to_owned() });
        if self.archs.is_empty() {
            return fail("no architecture is given");
        }
        if several && (self.final_module_path.is_some() || self.ptx_file_copy_path.is_some()) {
            return fail(
                "final_module_path and copy_to name one file, and several architectures are given: use out_dir",
            );
        }
        let duplicate = self.archs.iter().enumerate().any(|(i, arch)| self.archs[..i].contains(arch));
        if duplicate {
            return fail("an architecture is given twice");
        }
        Ok(())
    }

    /// Finds everything the build needs, and fetches what may be fetched.
    fn open(&self, progress: &(dyn Fn(Progress) + Sync)) -> Result<Session, CudaBuilderError> {
        let kernel_crate = packages::describe(&self.path)?;
        watch(&kernel_crate);
        let tools =
            self.tools_dir.clone().unwrap_or_else(|| Self::tools_dir_in(&kernel_crate.target_directory));
        if self.download && libnvvm::needs_package(&tools) {
            fetch::fetch(&fetch::NVVM, &tools, progress)?;
        }
        let (nvvm, nvvm_path) = libnvvm::find(&tools)?;
        let toolchain = toolchain::find(&kernel_crate.path, self.download, progress)?;
        let packages = packages::of_device(&kernel_crate.path, &self.build_args)?;
        let sources = fingerprint::of_sources(&kernel_crate)?;
        Ok(Session { kernel_crate, packages, toolchain, nvvm, nvvm_path, sources })
    }

    /// The module of one architecture: the file of an earlier build if nothing changed, else a new one.
    fn build_module(&self, session: &Session, arch: NvvmArch) -> Result<BuiltModule, CudaBuilderError> {
        let work = self.target_dir.clone();
        let work = work.unwrap_or_else(|| session.kernel_crate.target_directory.join("cuda-builder"));
        let path = self.module_path(&session.kernel_crate, &work, arch);
        let fingerprint = self.fingerprint(session, arch);
        let stamp = Stamp::at(&work, &path);
        let kept = stamp
            .matching(&fingerprint)
            .filter(|_| !self.emit_llvm_ir || path.with_extension("ll").is_file());
        let is_fresh = kept.is_some();
        let sha256 = match kept {
            Some(sha256) => sha256,
            None => self.compile(session, arch, &work, &path, |ptx| stamp.write(&fingerprint, ptx))?,
        };
        if let Some(copy) = &self.ptx_file_copy_path {
            files::copy(&path, copy)?;
        }
        Ok(BuiltModule { arch, path, sha256, is_fresh })
    }

    /// The pipeline: rustc, the edits, libNVVM, the proof, the file. Gives the hash of the PTX.
    fn compile(
        &self,
        session: &Session,
        arch: NvvmArch,
        work: &Path,
        path: &Path,
        record: impl FnOnce(&[u8]) -> Result<String, CudaBuilderError>,
    ) -> Result<String, CudaBuilderError> {
        let module = cargo::emit_ir(
            &session.kernel_crate,
            &session.packages,
            &session.toolchain,
            arch,
            &self.cargo_options(),
            work,
        )?;
        let lowered = ir::lower(&module)?;
        if self.emit_llvm_ir {
            files::write(&path.with_extension("ll"), lowered.text.as_bytes())?;
        }
        let ptx = session.nvvm.compile(&lowered.text, arch, &self.nvvm_options(arch))?;
        proof::check(&lowered, &ptx, arch)?;
        files::write(path, ptx.as_bytes())?;
        record(ptx.as_bytes())
    }

    fn module_path(&self, kernel_crate: &KernelCrate, work: &Path, arch: NvvmArch) -> PathBuf {
        if let Some(path) = &self.final_module_path {
            return path.clone();
        }
        let folder = self.out_dir.clone().unwrap_or_else(|| work.join("ptx"));
        folder.join(format!("{}.{arch}.ptx", kernel_crate.library))
    }

    fn cargo_options(&self) -> CargoOptions {
        CargoOptions {
            release: self.release,
            optimise: self.nvvm_opts,
            line_tables: self.debug == DebugInfo::LineTables,
            build_args: self.build_args.clone(),
        }
    }

    fn nvvm_options(&self, arch: NvvmArch) -> NvvmOptions {
        let flag = |on: bool| i32::from(on);
        let mut options = vec![
            format!("-arch={arch}"),
            "-nvvm-latest".to_owned(),
            format!("-ptx-version-target={}", arch.ptx_version()),
            format!("-opt={}", if self.nvvm_opts { 3 } else { 0 }),
            format!("-ftz={}", flag(self.ftz)),
            format!("-prec-sqrt={}", flag(!self.fast_sqrt)),
            format!("-prec-div={}", flag(!self.fast_div)),
            format!("-fma={}", flag(self.fma_contraction)),
        ];
        if self.debug == DebugInfo::LineTables {
            options.push("-generate-line-info".to_owned());
        }
        NvvmOptions(options)
    }

    /// All that the PTX depends on, in one hash.
    fn fingerprint(&self, session: &Session, arch: NvvmArch) -> String {
        let options = format!("{:?} {:?}", self.cargo_options(), self.nvvm_options(arch));
        let nvvm = fingerprint::of_tool(&session.nvvm_path);
        let ours = fingerprint::of_tool(&std::env::current_exe().unwrap_or_default());
        let rustc = format!("{} {}", session.toolchain.rustc.display(), session.toolchain.version);
        fingerprint::of_parts(&[&session.sources, &options, &nvvm, &ours, &rustc])
    }
}

/// Runs `job` for every architecture, as many at a time as there are cores; gives the results in order, or the first
/// error.
fn in_parallel<T: Send>(
    archs: &[NvvmArch],
    job: impl Fn(NvvmArch) -> Result<T, CudaBuilderError> + Sync,
) -> Result<Vec<T>, CudaBuilderError> {
    let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(archs.len()) {
            scope.spawn(|| {
                while let Some(arch) = archs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = (*arch, job(*arch));
                    results.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(result);
                }
            });
        }
    });
    let mut results = results.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    results.sort_by_key(|(arch, _)| archs.iter().position(|a| a == arch));
    results.into_iter().map(|(_, result)| result).collect()
}

/// Inside a build script: tells cargo what the PTX depends on.
fn watch(kernel_crate: &KernelCrate) {
    let in_build_script = ["OUT_DIR", "HOST", "TARGET"].iter().all(|name| std::env::var_os(name).is_some());
    if !in_build_script {
        return;
    }
    for path in kernel_crate.sources.iter().flat_map(|folder| fingerprint::entries(folder)) {
        println!("cargo:rerun-if-changed={}", path.display());
    }
    for name in ["LIBNVVM_PATH", "CUDA_HOME", "CUDA_PATH", "FERROWARP_TOOLS"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
}
