//! `cargo xtask build-ptx`: compiles the kernels to PTX and machine code, checks them and writes the report.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use clap::Args;
use cuda_builder::{Backend, Built, CudaBuilder, NvvmArch};

use crate::progress::Downloads;
use crate::report::{self, Module, Report};
use crate::{checks, occupancy, workspace};

/// `--arch all`: every GPU from Turing runs one of these, or its driver translates it.
const ALL: [NvvmArch; 4] =
    [NvvmArch::Compute75, NvvmArch::Compute80, NvvmArch::Compute90, NvvmArch::Compute100];

/// The architecture for a machine without a GPU.
const WITHOUT_GPU: NvvmArch = NvvmArch::Compute90;

/// Compile the kernels to PTX, check it, and print the resources of each kernel
#[derive(Args)]
pub struct BuildPtx {
    /// Architectures, such as compute_90. `native` is this machine's GPU; `all` is compute_75, 80, 90 and 100 [default: native, or compute_90 without a GPU]
    #[arg(long, value_delimiter = ',', value_name = "ARCH", value_parser = parse_archs)]
    arch: Vec<Archs>,
    /// Output folder for PTX, machine code and resources.json [default: ptx in the target directory]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Folder of the kernel crate, or of a crate that depends on several
    #[arg(long = "crate", value_name = "DIR", default_value = "gpu-kernels")]
    kernel_crate: PathBuf,
    /// The compiler back end: nvvm (NVIDIA's libNVVM) or llvm (the LLVM of the Rust toolchain)
    #[arg(long, value_name = "NAME", default_value_t)]
    backend: Backend,
    /// Optimisation level of the back end, 0 to 3
    #[arg(long, value_name = "LEVEL", default_value_t = 3)]
    opt_level: u8,
    /// Add file and line of each instruction to the PTX
    #[arg(long)]
    line_info: bool,
    /// Also write the LLVM IR that the back end reads
    #[arg(long)]
    emit_llvm_ir: bool,
    /// Do not print the table of resources
    #[arg(long)]
    quiet: bool,
}

/// The architectures of one value of `--arch`.
#[derive(Clone)]
struct Archs(Vec<NvvmArch>);

/// The crate of the kernels that fail on purpose, and the folder of its PTX in the target directory.
const FAULTS: (&str, &str) = ("faults/kernels", "fault-ptx");

impl BuildPtx {
    /// The command for the kernels of training and softmax, and the folder of their PTX.
    pub fn for_kernels() -> (BuildPtx, PathBuf) {
        Self::quiet("gpu-kernels", "ptx", Backend::Nvvm)
    }

    /// The same for this machine's GPU alone, or for compute_90 without a GPU.
    pub fn natively(self) -> Self {
        Self { arch: Vec::new(), ..self }
    }

    /// The command for the same kernels with LLVM's back end.
    pub fn for_kernels_by_llvm() -> (BuildPtx, PathBuf) {
        Self::quiet("gpu-kernels", "ptx-llvm", Backend::Llvm)
    }

    /// The command for the kernels of the library's operations, for every GPU.
    pub fn for_library() -> (BuildPtx, PathBuf) {
        Self::quiet("host", "library-ptx", Backend::Nvvm)
    }

    /// The command for the kernels that fail on purpose, and the folder of their PTX.
    pub fn for_faults() -> (BuildPtx, PathBuf) {
        Self::quiet(FAULTS.0, FAULTS.1, Backend::Nvvm)
    }

    fn quiet(folder: &str, out: &str, backend: Backend) -> (BuildPtx, PathBuf) {
        let out = workspace::target().join(out);
        let command = BuildPtx {
            arch: vec![Archs(ALL.to_vec())],
            out: Some(out.clone()),
            kernel_crate: workspace::root().join(folder),
            backend,
            opt_level: 3,
            line_info: false,
            emit_llvm_ir: false,
            quiet: true,
        };
        (command, out)
    }

    /// Runs the command.
    pub fn run(self) -> anyhow::Result<()> {
        let out = self.out.clone().unwrap_or_else(|| workspace::target().join("ptx"));
        ensure!(
            !out.exists() || out.is_dir(),
            "{} is not a folder; choose a folder for the PTX files",
            out.display()
        );
        // A failed build leaves no files: they are written to a temporary folder, and moved when all checks have passed.
        let stage = stage_beside(&out)?;
        let built = self.build(stage.path())?;
        let report = Report { modules: built.modules.iter().map(module).collect::<anyhow::Result<_>>()? };
        if !self.quiet {
            print!("{}", report.table());
        }
        let mut failures = suspects(&built)?;
        // The checks in the sources, of the PTX and of local memory, apply to libNVVM's highest level.
        if self.backend == Backend::Nvvm && self.opt_level == 3 {
            failures.extend(checks::run(&built.source_folders, &report.files(stage.path()))?);
            failures.extend(report.local_memory(&checks::allowed(&built.source_folders)?));
            failures.extend(report.serialized_wgmma());
        }
        if !failures.is_empty() {
            bail!("{} checks of the PTX failed:\n  {}", failures.len(), failures.join("\n  "));
        }
        let changed = publish(stage.path(), &out, &built.libraries, &report)?;
        say(&built, &report, &out, changed);
        Ok(())
    }

    fn build(&self, out: &Path) -> anyhow::Result<Built> {
        let mut archs: Vec<NvvmArch> = self.arch.iter().flat_map(|named| &named.0).copied().collect();
        if archs.is_empty() {
            archs.push(NvvmArch::native().unwrap_or(WITHOUT_GPU));
        }
        let downloads = Downloads::default();
        let built = CudaBuilder::of_crates(crate_folder(&self.kernel_crate)?)
            .archs(&archs)
            .backend(self.backend)
            .opt_level(self.opt_level)
            .generate_line_info(self.line_info)
            .emit_llvm_ir(self.emit_llvm_ir)
            .split(true)
            // For compute_100, libNVVM compiles these kernels as for compute_90, to the same machine code.
            .compile_once(true)
            .machine_code(true)
            .target_dir(workspace::target().join("cuda-builder"))
            .tools_dir(CudaBuilder::tools_dir_in(&workspace::target()))
            .out_dir(out)
            .build_all_with(&|event| downloads.show(event))?;
        Ok(built)
    }
}

/// `compute_90`, `sm_90`, `90`, `native` or `all`.
fn parse_archs(name: &str) -> Result<Archs, String> {
    let one = match name {
        "all" => return Ok(Archs(ALL.to_vec())),
        "native" => NvvmArch::native(),
        _ => name.parse(),
    };
    one.map(|arch| Archs(vec![arch])).map_err(|error| error.to_string())
}

/// A temporary folder next to `out`, on the same disk.
fn stage_beside(out: &Path) -> anyhow::Result<tempfile::TempDir> {
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(parent).with_context(|| format!("making the folder {}", parent.display()))?;
    tempfile::Builder::new()
        .prefix(".ptx-")
        .tempdir_in(parent)
        .with_context(|| format!("making a folder in {}", parent.display()))
}

/// Moves all files of the folder `stage` to `out`, and writes the report there. Removes old files that the report of an
/// earlier build lists, if they are of these libraries or have a kernel of theirs; other modules stay, and stay in the
/// report. Returns the number of changed PTX files.
fn publish(stage: &Path, out: &Path, libraries: &[String], report: &Report) -> anyhow::Result<usize> {
    std::fs::create_dir_all(out).with_context(|| format!("making the folder {}", out.display()))?;
    let before = Report::read(&out.join(report::FILE)).unwrap_or_default();
    let kernels: BTreeSet<&str> = report.modules.iter().flat_map(Module::kernel_names).collect();
    let is_own = |module: &Module| {
        libraries.iter().any(|library| module.file.split('.').next() == Some(library))
            || module.kernel_names().any(|kernel| kernels.contains(kernel))
    };
    let (own, mut modules): (Vec<Module>, Vec<Module>) = before.modules.into_iter().partition(is_own);
    modules.retain(|module| out.join(&module.file).is_file());
    modules.extend(report.modules.iter().cloned());
    Report { modules }.write(&stage.join(report::FILE))?;
    let entries = stage.read_dir().with_context(|| format!("reading {}", stage.display()))?;
    let new: Vec<std::ffi::OsString> = entries.flatten().map(|entry| entry.file_name()).collect();
    let listed = own.iter().filter_map(|module| Path::new(&module.file).file_name());
    let outputs =
        listed.flat_map(|name| ["ptx", "cubin", "ll"].map(|kind| Path::new(name).with_extension(kind)));
    for stale in outputs.filter(|name| !new.iter().any(|new| new == name.as_os_str())) {
        let path = out.join(stale);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("removing {}", path.display()));
            }
            _ => {}
        }
    }
    let mut changed = 0;
    for name in new {
        let (from, to) = (stage.join(&name), out.join(&name));
        let is_ptx = Path::new(&name).extension().is_some_and(|extension| extension == "ptx");
        let is_same = std::fs::read(&to).is_ok_and(|old| std::fs::read(&from).is_ok_and(|new| new == old));
        changed += usize::from(is_ptx && !is_same);
        std::fs::rename(&from, &to).with_context(|| format!("writing {}", to.display()))?;
    }
    Ok(changed)
}

fn say(built: &Built, report: &Report, out: &Path, changed: usize) {
    // Older architectures lack some kernels.
    let kernels = report.kernels_by_arch().into_iter().map(|(_, count)| count.to_string());
    println!(
        "{} modules in {} ({changed} changed), with {} kernels",
        built.modules.len(),
        workspace::shown(out),
        kernels.collect::<Vec<_>>().join(", "),
    );
    let times = &built.times;
    let seconds = |time: std::time::Duration| format!("{:.1} s", time.as_secs_f64());
    println!(
        "{}: {} parts compiled; of all cores together rustc {}, edits {}, back end {}, ptxas {}",
        seconds(times.total),
        times.compiled,
        seconds(times.rustc),
        seconds(times.edits),
        seconds(times.backend),
        seconds(times.ptxas),
    );
}

/// The folder as given, or relative to the workspace's root.
fn crate_folder(given: &Path) -> anyhow::Result<PathBuf> {
    let candidates =
        [given.to_owned(), workspace::root().join(given), workspace::root().join("cuda").join(given)];
    let found = candidates.into_iter().find(|folder| folder.join("Cargo.toml").is_file());
    found.with_context(|| format!("no crate in {}: give the folder of a kernel crate", given.display()))
}

fn module(built: &cuda_builder::BuiltModule) -> anyhow::Result<Module> {
    let ptx =
        std::fs::read_to_string(&built.path).with_context(|| format!("reading {}", built.path.display()))?;
    let file = built.path.file_name().context("a PTX file has no name")?.to_string_lossy().into_owned();
    Ok(Module {
        arch: built.arch.to_string(),
        file,
        sha256: built.sha256.clone(),
        kernels: built.resources.clone(),
        threads: occupancy::threads(&ptx),
    })
}

/// What ptxas may have got wrong in the machine code.
fn suspects(built: &Built) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for path in built.modules.iter().filter_map(|module| module.machine_code.as_ref()) {
        let code = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let suspects =
            cuda_builder::suspects(&code).with_context(|| format!("{name} is not machine code"))?;
        found.extend(suspects.iter().map(|suspect| format!("{name}: {suspect}")));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_that_is_no_folder_is_refused_before_anything_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("kept.txt");
        std::fs::write(&file, "kept").unwrap();
        for out in [file.as_path(), Path::new("/dev/null")] {
            // Building this crate would give another error.
            let (command, _) = BuildPtx::quiet("no/such/crate", "ptx", Backend::Nvvm);
            let error = BuildPtx { out: Some(out.to_owned()), ..command }.run().unwrap_err().to_string();
            assert!(
                error.contains(&out.display().to_string()) && error.contains("is not a folder"),
                "{error}"
            );
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
    }

    #[test]
    fn a_build_that_fails_leaves_what_an_earlier_one_made() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("ptx");
        std::fs::create_dir(&out).unwrap();
        std::fs::write(out.join("k.compute_75.ptx"), "old").unwrap();
        let (command, _) = BuildPtx::quiet("no/such/crate", "ptx", Backend::Nvvm);
        BuildPtx { out: Some(out.clone()), ..command }.run().unwrap_err();
        assert_eq!(std::fs::read_to_string(out.join("k.compute_75.ptx")).unwrap(), "old");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is left beside it");
    }

    #[test]
    fn what_is_published_replaces_what_an_earlier_build_left_and_no_other_file() {
        let folder = tempfile::tempdir().unwrap();
        let (stage, out) = (folder.path().join("stage"), folder.path().join("out"));
        for (name, text) in [("k.a.ptx", "1"), ("k.b.ptx", "2"), ("k.b.cubin", "3")] {
            std::fs::create_dir_all(&stage).unwrap();
            std::fs::write(stage.join(name), text).unwrap();
        }
        std::fs::create_dir(&out).unwrap();
        let files =
            ["k.a.ptx", "k.gone.ptx", "k.gone.cubin", "k.mine.ptx", "mine.compute_75.cubin", "notes.txt"];
        for (name, text) in files.into_iter().zip(["1", "0", "0", "mine", "mine", "mine"]) {
            std::fs::write(out.join(name), text).unwrap();
        }
        report_of(&["k.a.ptx", "k.gone.ptx"]).write(&out.join(report::FILE)).unwrap();
        let report = report_of(&["k.a.ptx", "k.b.ptx"]);
        assert_eq!(publish(&stage, &out, &["k".to_owned()], &report).unwrap(), 1, "only k.b.ptx has changed");
        assert_eq!(
            names(&out),
            [
                "k.a.ptx",
                "k.b.cubin",
                "k.b.ptx",
                "k.mine.ptx",
                "mine.compute_75.cubin",
                "notes.txt",
                "resources.json"
            ]
        );
    }

    fn report_of(files: &[&str]) -> Report {
        let module = |&file: &&str| Module { file: file.to_owned(), ..Module::default() };
        Report { modules: files.iter().map(module).collect() }
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn two_crates_in_one_folder_keep_each_other() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out");
        let build = |library: &str, files: &[&str]| {
            let stage = stage_beside(&out).unwrap();
            for file in files {
                std::fs::write(stage.path().join(file), library).unwrap();
            }
            publish(stage.path(), &out, &[library.to_owned()], &report_of(files)).unwrap();
            let mut files = names(&out);
            files.retain(|file| file != report::FILE);
            let report = Report::read(&out.join(report::FILE)).unwrap();
            let mut listed: Vec<String> = report.modules.into_iter().map(|module| module.file).collect();
            listed.sort();
            assert_eq!(listed, files);
            files
        };
        assert_eq!(build("a", &["a.x.ptx"]), ["a.x.ptx"]);
        // The name of one library may begin with that of another.
        assert_eq!(build("b", &["b.y.ptx"]), ["a.x.ptx", "b.y.ptx"]);
        assert_eq!(build("ab", &["ab.z.ptx"]), ["a.x.ptx", "ab.z.ptx", "b.y.ptx"]);
        assert_eq!(build("a", &["a.w.ptx"]), ["a.w.ptx", "ab.z.ptx", "b.y.ptx"]);
    }
}
