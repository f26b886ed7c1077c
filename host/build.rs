//! Embeds the kernels of this package's operations: those in the package, if `cargo xtask package` made it, otherwise those that
//! are built now from the repository around it. On a machine without a GPU nothing is built, unless `FERROWARP_ARCH` names
//! architectures, such as `compute_80,compute_90`.

use std::env;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What decides for which GPUs kernels are built.
const VARIABLE: &str = "FERROWARP_ARCH";
/// A folder of kernels that are taken instead: `cargo xtask wheel` sets it.
const PREBUILT: &str = "FERROWARP_PREBUILT";

fn main() {
    let folder = |name| PathBuf::from(env::var_os(name).unwrap_or_else(|| panic!("cargo sets {name}")));
    let (package, out) = (folder("CARGO_MANIFEST_DIR"), folder("OUT_DIR"));
    [VARIABLE, PREBUILT].iter().for_each(|name| println!("cargo::rerun-if-env-changed={name}"));
    println!("cargo::rerun-if-changed=build.rs");
    // Cargo writes this file into packages alone. `cargo xtask package` has put the kernels there.
    let is_package = package.join("Cargo.toml.orig").is_file();
    let prebuilt = env::var_os(PREBUILT).map(PathBuf::from).or(is_package.then(|| package.join("prebuilt")));
    let files = prebuilt.clone().unwrap_or_else(|| out.join("kernels"));
    if prebuilt.is_none() && !build(&package, &files) {
        // What an earlier build left.
        let _ = fs::remove_dir_all(&files);
    }
    let mut text = "&[\n".to_owned();
    let mut paths: Vec<_> = fs::read_dir(files).into_iter().flatten().flatten().map(|it| it.path()).collect();
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if [".ptx", ".ptx.zst", ".cubin"].iter().any(|kind| name.ends_with(kind)) {
            // Writing to a string cannot fail.
            let _ =
                writeln!(text, "    ({name:?}, include_bytes!({:?}) as &[u8]),", path.display().to_string());
        }
    }
    fs::write(out.join("brought.rs"), text + "]\n").expect("writing into OUT_DIR");
}

/// Builds the kernels into this folder, and nothing else stays there. Returns whether it did: there is a GPU or they are asked
/// for, and the build succeeded.
fn build(package: &Path, files: &Path) -> bool {
    let asked = env::var(VARIABLE).ok().filter(|archs| !archs.is_empty());
    let Some(archs) = asked.clone().or_else(archs_here) else { return false };
    let Some(root) = package.ancestors().find(|folder| folder.join("xtask/ptx/Cargo.toml").is_file()) else {
        println!("cargo::warning=this package has no kernels for a GPU; take it from its repository");
        return false;
    };
    for part in [
        "gpu-kernels",
        "cuda/cuda_std/src",
        "cuda/cuda_std_macros/src",
        "cuda/cuda_ir/src",
        "cuda/cuda_builder/src",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(part).display());
    }
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // What cargo tells this script is not meant for another cargo.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        let is_meant_for_us = text.starts_with("CARGO_") && text != "CARGO_HOME" || text.starts_with("RUSTC");
        if is_meant_for_us
            || ["OUT_DIR", "TARGET", "HOST", "PROFILE", "OPT_LEVEL", "DEBUG", "NUM_JOBS"].contains(&&*text)
        {
            command.env_remove(name);
        }
    }
    command.current_dir(root).args(["run", "--quiet", "--package=xtask-ptx", "--", "build-ptx", "--quiet"]);
    command.arg("--crate").arg(package).arg("--arch").arg(&archs).arg("--out").arg(files);
    // This package's target directory is locked. All projects of a user share what is built here.
    let shared = cache().map(|cache| cache.join("ferrowarp/kernels"));
    let usable = shared.as_deref().filter(|folder| is_writable(folder)).map(Path::to_owned);
    if let (Some(folder), None) = (&shared, &usable) {
        let folder = folder.display();
        println!(
            "cargo::warning={folder} cannot be written, so the kernels are built for this project alone"
        );
    }
    command.env("CARGO_TARGET_DIR", usable.unwrap_or_else(|| files.with_file_name("builder")));
    let output = command.output().unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(asked.is_none(), "building the kernels for {archs} failed: {log}");
        println!("cargo::warning=the kernels for {archs} could not be built, so only the CPU can be used:");
        log.lines().filter(|line| !line.is_empty()).for_each(|line| println!("cargo::warning={line}"));
    }
    output.status.success()
}

/// Whether files can be made in the folder, which is created.
fn is_writable(folder: &Path) -> bool {
    let file = folder.join(format!(".writable-{}", std::process::id()));
    let is_made = fs::create_dir_all(folder).and_then(|()| fs::File::create(&file)).is_ok();
    // If it was not made, there is nothing to remove.
    let _ = fs::remove_file(file);
    is_made
}

/// The architectures of this machine's GPUs.
fn archs_here() -> Option<String> {
    let asked = ["--query-gpu=compute_cap", "--format=csv,noheader"];
    let output =
        Command::new("nvidia-smi").args(asked).output().ok().filter(|output| output.status.success())?;
    let text = String::from_utf8_lossy(&output.stdout);
    // A line for each GPU, such as `9.0`; `[N/A]` if the driver does not know.
    let capability = |line: &str| -> Option<String> {
        let (major, minor) = line.trim().split_once('.')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        Some(format!("compute_{major}{minor}"))
    };
    let mut archs: Vec<String> = text.lines().filter_map(capability).collect();
    archs.sort();
    archs.dedup();
    (!archs.is_empty()).then(|| archs.join(","))
}

/// The folder of the user's caches.
fn cache() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("XDG_CACHE_HOME").or_else(|| named("LOCALAPPDATA")).or_else(|| Some(named("HOME")?.join(".cache")))
}
