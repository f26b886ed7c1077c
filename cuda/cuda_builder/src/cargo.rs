//! Runs cargo on the kernel crate. The output is one text module of LLVM IR.
//!
//! rustc runs no LLVM passes: for it a static marked as shared memory is ordinary, and a barrier is a normal call.
//! Whole-program passes kept a value of such a static in a register across a barrier, and removed the static. Optimisation
//! runs after the edits, and respects them.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use crate::arch::NvvmArch;
use crate::error::{CudaBuilderError, IoContext};
use crate::files;
use crate::fingerprint;
use crate::output;
use crate::own_libraries;
use crate::packages::{DevicePackage, KernelCrate};
use crate::query;
use crate::toolchain::Toolchain;

/// Variables that a nested cargo must not inherit from an outer one, or from the user's settings for host builds.
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

/// A linker for a program that is never linked: it only creates the requested file.
const NO_LINKER: &str = "#!/bin/sh\n\
    # rustc insists on linking; the module it has written by then is all that is wanted.\n\
    while [ $# -gt 0 ]; do\n  if [ \"$1\" = -o ]; then : > \"$2\"; fi\n  shift\ndone\n";

/// The target feature of builds with only one architecture's kernels, as in `cuda_std_macros`. No other build sets it.
const ONLY_SPECIFIC: &str = "ptx87";

/// How to compile it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CargoOptions {
    /// Whether only the kernels for the architecture alone are built: `#[kernel]` then omits the entries of others.
    pub only_specific: bool,
    pub release: bool,
    pub line_tables: bool,
    pub build_args: Vec<String>,
}

/// Compiles the crate for `arch` in the folder `work`. Returns the module's text.
///
/// In crates that test for the architecture, `cfg(target_feature = "sm_80")` then holds.
pub(crate) fn emit_ir(
    kernel_crate: &KernelCrate,
    packages: &[DevicePackage],
    toolchain: &Toolchain,
    arch: NvvmArch,
    options: &CargoOptions,
    work: &Path,
) -> Result<String, CudaBuilderError> {
    // Cargo keeps one build of a crate, whatever the flags of its profile. Without a folder per architecture, each build
    // would replace the last, which would then be compiled again.
    let specific = if options.only_specific { "-only" } else { "" };
    // All of these folders share it, because its path is one of the flags of Rust's own libraries.
    let linker = work.join("no-linker.sh");
    let work = &work.join(format!("{arch}{specific}"));
    let _lock = files::lock(&work.join("lock"))?;
    write_linker(&linker)?;
    let profile = if options.release { "release" } else { "debug" };
    let of_device = Path::new("nvptx64-nvidia-cuda").join(profile);
    own_libraries::copy(work, [&of_device, Path::new(profile)]);
    let output_folder = work.join(of_device);
    // Cargo keeps a separate build for each of these, so each needs its own module.
    let build = format!("{} {options:?} {:?}", kernel_crate.path.display(), toolchain.rustc);
    let unique = fingerprint::of_parts(&[&build, &toolchain.version]);
    let module = output_folder.join(format!("{}-{}.{arch}.ll", kernel_crate.library, &unique[..16]));

    let run = || -> Result<(), CudaBuilderError> {
        let command = |offline: Option<&str>| {
            command(kernel_crate, packages, toolchain, arch, options, work, &linker, &module, offline)
        };
        let output = query::output(command).during("running", Path::new("cargo"))?;
        if output.status.success() {
            return Ok(());
        }
        let log = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        Err(CudaBuilderError::CargoFailed { path: kernel_crate.path.clone(), log })
    };
    run()?;
    if !module.is_file() {
        // Cargo counts the crate as fresh although its module is missing: forgets that, and compiles it again.
        forget(&output_folder.join(".fingerprint"), &kernel_crate.package)?;
        run()?;
    }
    std::fs::read_to_string(&module).during("reading", &module)
}

#[allow(clippy::too_many_arguments, reason = "all that a run of cargo depends on")]
fn command(
    kernel_crate: &KernelCrate,
    packages: &[DevicePackage],
    toolchain: &Toolchain,
    arch: NvvmArch,
    options: &CargoOptions,
    work: &Path,
    linker: &Path,
    module: &Path,
    offline: Option<&str>,
) -> Command {
    let mut command = Command::new(query::cargo());
    for name in HOSTILE_ENVIRONMENT {
        command.env_remove(name);
    }
    let profile = if options.release { "release" } else { "dev" };
    let debug = if options.line_tables { "\"line-directives-only\"" } else { "0" };
    let settings = [
        "lto=\"fat\"".to_owned(),
        "codegen-units=1".to_owned(),
        "panic=\"abort\"".to_owned(),
        "incremental=false".to_owned(),
        format!("debug={debug}"),
    ];
    let of_arch = serde_json::to_string(&arch_flags(arch, options.only_specific)).unwrap_or_default();
    let asking = packages.iter().filter(|package| package.asks_for_arch);
    let of_packages = asking.map(|package| format!("package.\"{}\".rustflags={of_arch}", package.spec));
    let settings = settings.into_iter().chain(of_packages);
    let flags = [
        format!("-Clinker={}", linker.display()),
        "-Cno-prepopulate-passes".to_owned(),
        "-Csymbol-mangling-version=v0".to_owned(),
        // Jump threading duplicated barriers (rust-lang/rust#137086).
        "-Zmir-enable-passes=-JumpThreading".to_owned(),
        // The device has no std, so crates need not declare `no_std`.
        "-Zcrate-attr=no_std".to_owned(),
        // The host build shows the warnings. Here they would precede the errors, and some would be false: a duplicate
        // `no_std`, or imports that only host code uses.
        "-Awarnings".to_owned(),
    ];
    command
        .current_dir(&kernel_crate.path)
        .env("RUSTC", &toolchain.rustc)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"))
        .args(["rustc", "--lib", "--crate-type=cdylib", "--target=nvptx64-nvidia-cuda", "--quiet"])
        .arg(format!("--color={}", if output::in_build_script() { "always" } else { "never" }))
        .arg(format!("--profile={profile}"))
        .arg("--target-dir")
        .arg(work);
    for setting in settings {
        command.arg("--config").arg(format!("profile.{profile}.{setting}"));
    }
    if !options.build_args.iter().any(|arg| arg.starts_with("-Zbuild-std")) {
        command.arg("-Zbuild-std=core,alloc");
    }
    command.arg("-Zprofile-rustflags").args(&options.build_args).args(offline);
    command.arg("--").arg(format!("--emit=llvm-ir={}", module.display()));
    command
}

/// The flags for `arch`: `cfg(target_feature = "sm_80")` and, with Rust-CUDA's name, `"compute_80"` hold for `arch` and all
/// earlier architectures. They are cfgs instead of `-Ctarget-cpu`, because cargo passes a package's flags to its build
/// script, too, which the host's processor runs.
fn arch_flags(arch: NvvmArch, only_specific: bool) -> Vec<String> {
    let names = arch.all_target_features().into_iter();
    let flag = |name: &str| format!("--cfg=target_feature=\"{name}\"");
    let flags = names.flat_map(|name| [flag(&name), flag(&name.replace("compute_", "sm_"))]);
    let flags = flags.chain(only_specific.then(|| flag(ONLY_SPECIFIC)));
    let known = NvvmArch::ALL.iter().flat_map(|arch| arch.all_target_features());
    let known = known.chain([ONLY_SPECIFIC.to_owned()]);
    let known: BTreeSet<String> = known.map(|name| format!("\"{name}\"")).collect();
    let known = known.into_iter().collect::<Vec<_>>().join(",");
    let lints = [
        "-Aexplicit-builtin-cfgs-in-flags".to_owned(),
        format!("--check-cfg=cfg(target_feature,values({known}))"),
    ];
    lints.into_iter().chain(flags).collect()
}

fn write_linker(path: &Path) -> Result<(), CudaBuilderError> {
    if files::read(path).is_ok_and(|text| text == NO_LINKER.as_bytes()) {
        return Ok(());
    }
    files::replace_executable(path, NO_LINKER.as_bytes())
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
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}
