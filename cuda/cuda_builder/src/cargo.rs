//! Runs cargo on the kernel crate, to one text module of LLVM IR.
//!
//! rustc's own choice of LLVM passes is wrong here: they optimise the whole program, in which a static marked for shared
//! memory is still an ordinary one. A value stored in such a static was kept in a register across a barrier, and the
//! static was gone. So rustc runs [`PASSES`] on the kernel crate and no pass on the others: inlining, and what looks at
//! one function alone and takes a barrier for a call that may change any memory. libNVVM does the rest, after the edits.
//! Without these few passes, libNVVM left arrays that Rust iterates over in local memory.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde::Deserialize;

use crate::arch::NvvmArch;
use crate::error::{CudaBuilderError, IoContext};
use crate::files;
use crate::fingerprint;
use crate::toolchain::Toolchain;

/// What a nested cargo must not inherit from an outer one, or from the user's own settings for host builds.
const HOSTILE_ENVIRONMENT: &[&str] = &[
    "CARGO_BUILD_RUSTC",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_INCREMENTAL",
    "CARGO_TARGET_DIR",
    "CARGO_UNSTABLE_BUILD_STD",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTC_WRAPPER",
    "RUSTFLAGS",
    "RUSTUP_TOOLCHAIN",
];

/// LLVM passes for the kernel crate: all functions are marked convergent, then inlined and simplified from the bottom of
/// the call graph up. There is no pass among them that draws conclusions from all uses of a static (globalopt,
/// globals-aa, ipsccp), none that changes a function's parameters, and none that threads jumps.
const PASSES: &str = "forceattrs,cgscc(inline,function(\
    sroa,early-cse<memssa>,correlated-propagation,simplifycfg,instcombine<no-verify-fixpoint>,simplifycfg,reassociate,\
    loop-mssa(loop-instsimplify,loop-simplifycfg,licm,loop-rotate,licm),simplifycfg,instcombine<no-verify-fixpoint>,\
    loop(loop-idiom,indvars,loop-deletion,loop-unroll-full),\
    sroa,gvn,sccp,bdce,instcombine<no-verify-fixpoint>,correlated-propagation,adce,memcpyopt,dse,simplifycfg,\
    instcombine<no-verify-fixpoint>))";

/// A linker for a program that is never linked: it only leaves the file it was asked for.
const NO_LINKER: &str = "#!/bin/sh\n\
    # rustc insists on linking; the module it has written by then is all that is wanted.\n\
    while [ $# -gt 0 ]; do\n  if [ \"$1\" = -o ]; then : > \"$2\"; fi\n  shift\ndone\n";

/// The kernel crate as cargo knows it.
#[derive(Clone, Debug)]
pub(crate) struct KernelCrate {
    /// The folder of its manifest.
    pub path: PathBuf,
    /// The package's name.
    pub package: String,
    /// The root of the library's source.
    pub root_file: PathBuf,
    /// The library's name, which names the output.
    pub library: String,
    /// Cargo's target directory for it.
    pub target_directory: PathBuf,
    /// The folder of its Cargo.lock.
    pub workspace_root: PathBuf,
    /// The folders of its path dependencies, the crate itself first.
    pub sources: Vec<PathBuf>,
    /// The names of those among them that are compiled for the device.
    pub device_packages: Vec<String>,
}

/// How to compile it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CargoOptions {
    pub release: bool,
    pub optimise: bool,
    pub line_tables: bool,
    pub build_args: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
    workspace_root: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    src_path: PathBuf,
    kind: Vec<String>,
}

impl Target {
    fn is_library(&self) -> bool {
        self.is_macro() || self.kind.iter().any(|k| matches!(k.as_str(), "lib" | "rlib" | "cdylib" | "dylib"))
    }

    fn is_macro(&self) -> bool {
        self.kind.iter().any(|kind| kind == "proc-macro")
    }
}

#[derive(Deserialize)]
struct Dependency {
    path: Option<PathBuf>,
    kind: Option<String>,
}

/// Asks cargo about the crate in `path`.
pub(crate) fn describe(path: &Path) -> Result<KernelCrate, CudaBuilderError> {
    let missing = || CudaBuilderError::CratePathDoesntExist { path: path.to_owned() };
    let path =
        path.canonicalize().ok().filter(|path| path.join("Cargo.toml").is_file()).ok_or_else(missing)?;
    let fail = |reason: String| CudaBuilderError::Manifest { path: path.clone(), reason };
    let metadata = metadata(&path).map_err(&fail)?;
    let manifest = path.join("Cargo.toml");
    let package = metadata.packages.iter().find(|package| package.manifest_path == manifest);
    let package = package.ok_or_else(|| fail("the folder holds a workspace, not a crate".to_owned()))?;
    let library = package.targets.iter().find(|target| target.is_library() && !target.is_macro());
    let library = library.ok_or_else(|| fail("the crate has no library".to_owned()))?;
    let (sources, device_packages) = local_sources(&path, &metadata).map_err(&fail)?;
    Ok(KernelCrate {
        package: package.name.clone(),
        root_file: library.src_path.clone(),
        library: library.name.replace('-', "_"),
        target_directory: metadata.target_directory.clone(),
        workspace_root: metadata.workspace_root.clone(),
        sources,
        device_packages,
        path,
    })
}

fn metadata(path: &Path) -> Result<Metadata, String> {
    let mut command = Command::new(cargo());
    command.current_dir(path).args(["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let output = command.output().map_err(|e| format!("running cargo: {e}"))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("cargo's answer: {e}"))
}

/// The folders of the crate and of all it depends on by path, in or out of its workspace, and those of library sources
/// that lie elsewhere; and the names of those packages that are no procedural macros.
fn local_sources(path: &Path, metadata: &Metadata) -> Result<(Vec<PathBuf>, Vec<String>), String> {
    let mut folders = vec![path.to_owned()];
    let mut roots = Vec::new();
    let mut device_packages = Vec::new();
    let mut next = 0;
    while let Some(folder) = folders.get(next).cloned() {
        next += 1;
        let manifest = folder.join("Cargo.toml");
        let inside = metadata.packages.iter().find(|package| package.manifest_path == manifest);
        let outside;
        let package = match inside {
            Some(package) => package,
            None => {
                outside = self::metadata(&folder)?;
                let found = outside.packages.iter().find(|package| package.manifest_path == manifest);
                found.ok_or_else(|| format!("no package in {}", folder.display()))?
            }
        };
        if !package.targets.iter().any(Target::is_macro) {
            device_packages.push(package.name.clone());
        }
        // `path = "../shared/lib.rs"` puts the source of a library outside of its package.
        let libraries = package.targets.iter().filter(|target| target.is_library());
        roots.extend(
            libraries.filter_map(|target| target.src_path.canonicalize().ok()?.parent().map(Path::to_owned)),
        );
        let used = package.dependencies.iter().filter(|dependency| dependency.kind.as_deref() != Some("dev"));
        for dependency in used.filter_map(|dependency| dependency.path.as_ref()) {
            if !folders.contains(dependency) {
                folders.push(dependency.clone());
            }
        }
    }
    for root in roots {
        if !folders.iter().any(|folder| root.starts_with(folder)) {
            folders.push(root);
        }
    }
    Ok((folders, device_packages))
}

/// Compiles the crate for `arch` in the folder `work`, and gives the module's text.
///
/// `core` and crates of a registry are compiled once for all architectures: with no passes run, the processor makes no
/// difference to them. The crate and its path dependencies are compiled for each, so that `cfg(target_feature =
/// "sm_80")` holds in them.
pub(crate) fn emit_ir(
    kernel_crate: &KernelCrate,
    toolchain: &Toolchain,
    arch: NvvmArch,
    options: &CargoOptions,
    work: &Path,
) -> Result<String, CudaBuilderError> {
    let _lock = files::lock(&work.join("lock"))?;
    let linker = work.join("no-linker.sh");
    write_linker(&linker)?;
    let profile = if options.release { "release" } else { "debug" };
    let output_folder = work.join("nvptx64-nvidia-cuda").join(profile);
    // Cargo keeps one build for each of these, each up to date for itself, so each needs a module of its own.
    let build = format!("{} {options:?} {:?}", kernel_crate.path.display(), toolchain.rustc);
    let unique = fingerprint::of_parts(&[&build, &toolchain.version]);
    let module = output_folder.join(format!("{}-{}.{arch}.ll", kernel_crate.library, &unique[..16]));

    let run = || -> Result<(), CudaBuilderError> {
        // Offline first: with everything fetched it is faster, and it does not change what a lock file leaves open.
        let mut output = command(kernel_crate, toolchain, arch, options, work, &linker, &module)
            .arg_offline(true)
            .output()
            .during("running", Path::new("cargo"))?;
        if !output.status.success() && mentions_offline(&output) {
            output = command(kernel_crate, toolchain, arch, options, work, &linker, &module)
                .arg_offline(false)
                .output()
                .during("running", Path::new("cargo"))?;
        }
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(CudaBuilderError::CargoFailed { path: kernel_crate.path.clone(), log })
    };
    run()?;
    if !module.is_file() {
        // Cargo counts the crate as fresh though its module is gone: forget that, and compile it again.
        forget(&output_folder.join(".fingerprint"), &kernel_crate.package)?;
        run()?;
    }
    std::fs::read_to_string(&module).during("reading", &module)
}

/// A cargo command whose `--offline` stands before the `--` of the arguments for rustc.
struct CargoCommand {
    command: Command,
    for_rustc: Vec<String>,
}

impl CargoCommand {
    fn arg_offline(mut self, offline: bool) -> Command {
        if offline {
            self.command.arg("--offline");
        }
        self.command.arg("--").args(&self.for_rustc);
        self.command
    }
}

fn command(
    kernel_crate: &KernelCrate,
    toolchain: &Toolchain,
    arch: NvvmArch,
    options: &CargoOptions,
    work: &Path,
    linker: &Path,
    module: &Path,
) -> CargoCommand {
    let mut command = Command::new(cargo());
    for name in HOSTILE_ENVIRONMENT {
        command.env_remove(name);
    }
    let profile = if options.release { "release" } else { "dev" };
    let debug = if options.line_tables { "\"line-tables-only\"" } else { "0" };
    let settings = [
        "lto=\"fat\"".to_owned(),
        "codegen-units=1".to_owned(),
        "panic=\"abort\"".to_owned(),
        "incremental=false".to_owned(),
        format!("debug={debug}"),
    ];
    let processor = |package| format!("package.{package}.rustflags=[\"-Ctarget-cpu={}\"]", arch.processor());
    let settings = settings.into_iter().chain(kernel_crate.device_packages.iter().map(processor));
    let flags = [
        format!("-Clinker={}", linker.display()),
        "-Cno-prepopulate-passes".to_owned(),
        "-Csymbol-mangling-version=v0".to_owned(),
        // Jump threading duplicated barriers (rust-lang/rust#137086).
        "-Zmir-enable-passes=-JumpThreading".to_owned(),
    ];
    command
        .current_dir(&kernel_crate.path)
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .args(["rustc", "--lib", "--crate-type=cdylib", "--target=nvptx64-nvidia-cuda", "--color=never"])
        .arg(format!("--profile={profile}"))
        .arg("--target-dir")
        .arg(work);
    for setting in settings {
        command.arg("--config").arg(format!("profile.{profile}.{setting}"));
    }
    if !options.build_args.iter().any(|arg| arg.starts_with("-Zbuild-std")) {
        command.arg("-Zbuild-std=core");
    }
    command.arg("-Zprofile-rustflags").args(&options.build_args);
    let mut for_rustc = vec![format!("--emit=llvm-ir={}", module.display())];
    if options.optimise {
        for_rustc.push("-Cllvm-args=-force-attribute=convergent".to_owned());
        for_rustc.push(format!("-Cpasses={PASSES}"));
    }
    // An attribute given twice is a warning or an error, so what the crate says itself is not said again.
    let source = std::fs::read_to_string(&kernel_crate.root_file).unwrap_or_default();
    let attributes = [("no_std", "no_std"), ("abi_ptx", "feature(abi_ptx)")].into_iter();
    let missing = attributes.filter(|(name, _)| !source.contains(name));
    for_rustc.extend(missing.map(|(_, attribute)| format!("-Zcrate-attr={attribute}")));
    CargoCommand { command, for_rustc }
}

/// The cargo that runs us, or the one of the environment.
fn cargo() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}

fn mentions_offline(output: &Output) -> bool {
    String::from_utf8_lossy(&output.stderr).contains("offline")
}

fn write_linker(path: &Path) -> Result<(), CudaBuilderError> {
    if std::fs::read_to_string(path).is_ok_and(|text| text == NO_LINKER) {
        return Ok(());
    }
    files::write_executable(path, NO_LINKER.as_bytes())
}

/// Removes cargo's record that `package` is up to date.
fn forget(fingerprints: &Path, package: &str) -> Result<(), CudaBuilderError> {
    let Ok(entries) = fingerprints.read_dir() else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let hash =
            name.to_str().and_then(|name| name.strip_prefix(package)).and_then(|rest| rest.strip_prefix('-'));
        if hash.is_some_and(|hash| !hash.contains('-')) {
            std::fs::remove_dir_all(entry.path()).during("removing", &entry.path())?;
        }
    }
    Ok(())
}
