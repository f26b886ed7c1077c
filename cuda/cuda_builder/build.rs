//! Compiles the child process that runs libNVVM; `nvvm.rs` holds its bytes and starts it. Hashes the sources of this crate: what
//! it makes of a kernel crate is kept until they change.
//!
//! A library cannot start itself again in a process of its own: its program is a build script, a test or anything else.

#[path = "src/pip.rs"]
mod pip;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const SOURCE: &str = "child/nvvm.rs";

/// The variable that the configuration of our workspace sets. Its tests build kernels, which needs pip.
const OURS: &str = "FERROWARP_WORKSPACE";

fn main() -> io::Result<()> {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    // Before most of the workspace is compiled.
    if variable(OURS) == "1" && !pip::can_fetch(Path::new(&variable("OUT_DIR"))) {
        eprintln!(
            "error: building kernels needs NVIDIA's libNVVM, which pip fetches, and there is no pip: {}; or set LIBNVVM_PATH \
             to the libnvvm.so of CUDA 13.5 or later",
            pip::INSTALL
        );
        std::process::exit(1);
    }
    let mut hasher = DefaultHasher::new();
    for folder in ["src", "child"] {
        hash(Path::new(folder), &mut hasher)?;
        println!("cargo:rerun-if-changed={folder}");
    }
    println!("cargo:rustc-env=SOURCES={:016x}", hasher.finish());
    println!("cargo:rerun-if-changed=build.rs");
    let out = Path::new(&variable("OUT_DIR")).join("nvvm-child");
    let mut rustc = Command::new(variable("RUSTC"));
    // Small: libNVVM does the work.
    rustc.args(["--edition=2024", "--crate-type=bin", "--crate-name=nvvm_child"]);
    rustc.args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols", "-Cdebuginfo=0"]);
    // Without `--target`, rustc uses the linker and the standard library that built this script.
    let is_for_another = variable("TARGET") != variable("HOST");
    if is_for_another {
        rustc.arg(format!("--target={}", variable("TARGET")));
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let output = rustc.arg(SOURCE).arg("-o").arg(&out).output();
    let status = output.as_ref().map(|output| output.status);
    if let Ok(output) = &output {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    match status {
        Ok(status) if status.success() => Ok(()),
        // Such as a check for a system whose linker is not here. The file may be wrong all the same.
        Ok(_)
            if is_for_another
                && rustc.arg("--emit=metadata").status().is_ok_and(|status| status.success()) =>
        {
            fs::write(&out, "")?;
            println!(
                "cargo::warning=the program that runs libNVVM could not be linked for {}: what is built now compiles no kernels",
                variable("TARGET")
            );
            Ok(())
        }
        Ok(status) => panic!("compiling {SOURCE} with {} ended with {status}", variable("RUSTC")),
        Err(error) => panic!("running {} on {SOURCE}: {error}", variable("RUSTC")),
    }
}

/// Hashes the names and contents of all files in a folder.
fn hash(folder: &Path, hasher: &mut DefaultHasher) -> io::Result<()> {
    let mut paths: Vec<PathBuf> =
        folder.read_dir()?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            hash(&path, hasher)?;
        } else {
            (&path, fs::read(&path)?).hash(hasher);
        }
    }
    Ok(())
}
