//! `cargo xtask build-ptx`: the kernels to PTX, checked and reported on.

use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use cuda_builder::{CudaBuilder, NvvmArch, ptxas};

use crate::progress::Downloads;
use crate::report::{self, Module, Report};
use crate::{checks, workspace};

/// The architectures that are built: every GPU from Turing on runs one of these, or a later driver translates it.
const ARCHS: [NvvmArch; 4] =
    [NvvmArch::Compute75, NvvmArch::Compute80, NvvmArch::Compute90, NvvmArch::Compute100];

#[derive(Args)]
pub struct BuildPtx {
    /// Architectures, such as compute_90 [default: compute_75, 80, 90 and 100]
    #[arg(long, value_delimiter = ',', value_name = "ARCH")]
    arch: Vec<NvvmArch>,
    /// Folder of the PTX files and of resources.json [default: ptx in the target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of the kernel crate
    #[arg(long = "crate", value_name = "DIR", default_value = "gpu-kernels")]
    kernel_crate: PathBuf,
    /// Have the PTX tell file and line of each instruction
    #[arg(long)]
    line_info: bool,
    /// Write the LLVM IR that libNVVM gets beside the PTX
    #[arg(long)]
    emit_llvm_ir: bool,
    /// Do not print the table of resources
    #[arg(long)]
    quiet: bool,
}

/// The crate of the kernels that fail on purpose, and the folder of its PTX in the target directory.
const FAULTS: (&str, &str) = ("faults/kernels", "fault-ptx");

impl BuildPtx {
    /// The command for the kernels of training and softmax, and where it puts their PTX.
    pub fn for_kernels() -> (BuildPtx, PathBuf) {
        Self::quiet("gpu-kernels", "ptx")
    }

    /// The command for the kernels that fail on purpose, and where it puts their PTX.
    pub fn for_faults() -> (BuildPtx, PathBuf) {
        Self::quiet(FAULTS.0, FAULTS.1)
    }

    fn quiet(folder: &str, out: &str) -> (BuildPtx, PathBuf) {
        let out = workspace::target().join(out);
        let command = BuildPtx {
            arch: Vec::new(),
            out: Some(out.clone()),
            kernel_crate: workspace::root().join(folder),
            line_info: false,
            emit_llvm_ir: false,
            quiet: true,
        };
        (command, out)
    }

    pub fn run(self) -> anyhow::Result<()> {
        let archs = if self.arch.is_empty() { ARCHS.to_vec() } else { self.arch.clone() };
        let out = self.out.clone().unwrap_or_else(|| workspace::target().join("ptx"));
        let tools = CudaBuilder::tools_dir_in(&workspace::target());
        let folder = crate_folder(&self.kernel_crate)?;

        let downloads = Downloads::default();
        let progress = |event| downloads.show(event);
        let built = CudaBuilder::new(&folder)
            .archs(&archs)
            .generate_line_info(self.line_info)
            .emit_llvm_ir(self.emit_llvm_ir)
            .target_dir(workspace::target().join("cuda-builder"))
            .tools_dir(&tools)
            .download(true)
            .out_dir(&out)
            .build_all_with(&progress)?;
        let ptxas = ptxas::find(&tools, &progress)?;
        let report = measure(&built.modules, &ptxas, &out)?;
        if !self.quiet {
            print!("{}", report.table());
        }
        let kept = built.modules.iter().filter(|module| module.is_fresh).count();
        // Older architectures lack some kernels.
        let kernels = report.modules.iter().map(|module| module.kernels.len().to_string());
        println!(
            "{} modules in {} ({kept} unchanged), with {} kernels",
            built.modules.len(),
            workspace::shown(&out),
            kernels.collect::<Vec<_>>().join(", "),
        );
        let mut failures = checks::run(&built.source_folder, &report.files(&out))?;
        failures.extend(report.local_memory(&checks::allowed(&built.source_folder)?));
        if !failures.is_empty() {
            bail!("{} checks of the PTX failed:\n  {}", failures.len(), failures.join("\n  "));
        }
        Ok(())
    }
}

/// The folder as given, or seen from the root of the workspace.
fn crate_folder(given: &Path) -> anyhow::Result<PathBuf> {
    let candidates =
        [given.to_owned(), workspace::root().join(given), workspace::root().join("cuda").join(given)];
    let found = candidates.into_iter().find(|folder| folder.join("Cargo.toml").is_file());
    found.with_context(|| format!("no crate in {}: give the folder of a kernel crate", given.display()))
}

/// Assembles each module, unless the report in `out` already says what this very PTX needs; writes the report.
fn measure(modules: &[cuda_builder::BuiltModule], ptxas: &Path, out: &Path) -> anyhow::Result<Report> {
    let path = out.join(report::FILE);
    let old = Report::read(&path).unwrap_or_default();
    let measure_one = |module: &cuda_builder::BuiltModule| -> anyhow::Result<Module> {
        let file = module.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let known = old.modules.iter().find(|old| old.file == file && old.sha256 == module.sha256);
        if let Some(known) = known {
            return Ok(known.clone());
        }
        let kernels = ptxas::resources(ptxas, &module.path, module.arch)?;
        Ok(Module { arch: module.arch.to_string(), file, sha256: module.sha256.clone(), kernels })
    };
    let measured = std::thread::scope(|scope| {
        let threads: Vec<_> = modules.iter().map(|module| scope.spawn(|| measure_one(module))).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(result) => result,
            Err(_) => bail!("a thread that ran ptxas panicked"),
        });
        joined.collect::<anyhow::Result<Vec<Module>>>()
    })?;
    let report = Report { modules: measured };
    if report != old {
        report.write(&path)?;
    }
    Ok(report)
}
