//! What is the same as upstream's compiles; what differs or is absent does not, and the compiler says what the page does.

use std::path::Path;
use std::process::Command;

mod host {
    #![allow(dead_code, unused_imports, clippy::all)]
    include!(concat!(env!("OUT_DIR"), "/host.rs"));
}

/// Sources that use what is not there, and what rustc has to say of each.
const ABSENT: &[(&str, &str)] = &[
    (
        "pub unsafe fn f(p: *mut u32) -> u32 { unsafe { cuda_std::atomic::intrinsics::atomic_fetch_inc_relaxed_u32_device(p) } }",
        "this function takes 2 arguments but 1 argument was supplied",
    ),
    (
        "pub unsafe fn f(p: *mut u64) { unsafe { cuda_std::atomic::intrinsics::atomic_fetch_inc_relaxed_u64_device(p) }; }",
        "cannot find function `atomic_fetch_inc_relaxed_u64_device`",
    ),
    ("pub fn f(b: cuda_builder::CudaBuilder) -> cuda_builder::NvvmArch { b.arch }", "attempted to take value of method `arch`"),
    ("pub fn f(mut b: cuda_builder::CudaBuilder) { b.emit = None; }", "no field `emit` on type `CudaBuilder`"),
    ("pub fn f() { let _ = cuda_builder::CudaBuilderError::BuildFailed; }", "named `BuildFailed` found for enum"),
    ("use cuda_builder::EmitOption;", "no `EmitOption` in the root"),
    ("use cuda_builder::NvvmProgram;", "no `NvvmProgram` in the root"),
    ("use cuda_builder::{NvvmOption, NvvmError, ir_version, dbg_version, nvvm_version};", "no `nvvm_version` in the root"),
    ("pub fn f() { let _ = cuda_builder::NvvmArch::Compute61; }", "named `Compute61` found for enum"),
    ("use cuda_std::vek::Vec3;", "the item is gated behind the `vek` feature"),
    (
        "#[cuda_std::address_space(local)] static mut X: u32 = 0;",
        "a static cannot live in local memory, which belongs to one thread",
    ),
    ("use cust::link;", "unresolved import `cust::link`"),
    ("use cust::{external, context::legacy, context::ContextFlags, memory::array};", "no `ContextFlags` in `context`"),
    ("pub fn f(e: cust::error::CudaError) -> u32 { e as u32 }", "non-primitive cast"),
];

#[test]
fn what_is_absent_does_not_compile() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("absent");
    std::fs::create_dir_all(folder.join("src/bin")).unwrap();
    let manifest = format!(
        "[workspace]\n[package]\nname = \"absent\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\n\
         cuda_std = {{ package = \"ferrowarp-cuda-std\", path = \"{0}/../../cuda_std\" }}\ncuda_builder = {{ package = \"ferrowarp-cuda-builder\", path = \"{0}/../../cuda_builder\" }}\n\
         cust = {{ package = \"ferrowarp-cust\", path = \"{0}/../../cust\" }}\n",
        here.display()
    );
    std::fs::write(folder.join("Cargo.toml"), manifest).unwrap();
    std::fs::copy(here.join("../Cargo.lock"), folder.join("Cargo.lock")).unwrap();
    for (n, (source, _)) in ABSENT.iter().enumerate() {
        std::fs::write(folder.join(format!("src/bin/absent_{n}.rs")), format!("{source}\nfn main() {{}}\n"))
            .unwrap();
    }
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(cargo)
        .current_dir(&folder)
        .args(["check", "--bins", "--keep-going", "--offline", "--color=never", "--target-dir"])
        .arg(target)
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{log}");
    for (n, (source, message)) in ABSENT.iter().enumerate() {
        // An error's text up to the next one.
        let said = log
            .split("\nerror")
            .filter(|error| error.contains(&format!("src/bin/absent_{n}.rs")))
            .collect::<String>();
        assert!(said.contains(message), "{source}\n{said}\n{}", if said.is_empty() { &log } else { "" });
    }
}
