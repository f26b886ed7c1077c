//! Compiles the child process that runs libNVVM; `nvvm.rs` holds its bytes and starts it.
//!
//! A library cannot start itself again in a process of its own: its program is a build script, a test or anything else.

use std::env;
use std::path::Path;
use std::process::Command;

const SOURCE: &str = "child/nvvm.rs";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    println!("cargo:rerun-if-changed=build.rs");
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let out = Path::new(&variable("OUT_DIR")).join("nvvm-child");
    let mut rustc = Command::new(variable("RUSTC"));
    // Small: libNVVM does the work.
    rustc.args(["--edition=2024", "--crate-type=bin", "--crate-name=nvvm_child"]);
    rustc.args(["-Copt-level=s", "-Cpanic=abort", "-Cstrip=symbols", "-Cdebuginfo=0"]);
    // Without `--target`, rustc uses the linker and the standard library that built this script.
    if variable("TARGET") != variable("HOST") {
        rustc.arg(format!("--target={}", variable("TARGET")));
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        rustc.arg(format!("-Clinker={linker}"));
    }
    let status = rustc.arg("-o").arg(&out).arg(SOURCE).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("compiling {SOURCE} with {} ended with {status}", variable("RUSTC")),
        Err(error) => panic!("running {} on {SOURCE}: {error}", variable("RUSTC")),
    }
}
