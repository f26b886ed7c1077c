//! What the tests of whole builds share.

#![allow(dead_code, reason = "each test file uses its own part of it")]

pub mod child;

use std::path::{Path, PathBuf};

use cuda_builder::ptx::Ptx;
use cuda_builder::{CudaBuilder, NvvmArch};

/// The target directory of the workspace.
pub fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().to_owned()
}

/// The fetched packages, shared with `cargo xtask build-ptx`.
pub fn tools() -> PathBuf {
    CudaBuilder::tools_dir_in(&target())
}

pub fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kernels")
}

/// A copy of the fixture `name`, which depends on `cuda_std`, out of the source tree, in the folder `to` of the tests: with
/// the workspace's lock file and the real path of `cuda_std`.
pub fn copy_of(name: &str, files: &[&str], to: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let from = here.join("tests/fixtures").join(name);
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(to);
    for file in files {
        let target = to.join(file);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(file), target).unwrap();
    }
    let manifest = std::fs::read_to_string(from.join("Cargo.toml")).unwrap();
    let cuda_std = here.join("../cuda_std").canonicalize().unwrap();
    let real = manifest.replace("\"../../../../cuda_std\"", &format!("\"{}\"", cuda_std.display()));
    std::fs::write(to.join("Cargo.toml"), real).unwrap();
    std::fs::copy(here.join("../../Cargo.lock"), to.join("Cargo.lock")).unwrap();
    to
}

/// A builder for this test's own copy of the fixture `specific`. Its output folder is empty.
pub fn specific(test: &str) -> CudaBuilder {
    let files = ["src/lib.rs", "src/hopper.rs", "src/maps.rs"];
    let copy = copy_of("specific", &files, &format!("specific-{test}"));
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptx/specific").join(test);
    let _ = std::fs::remove_dir_all(&out);
    CudaBuilder::new(copy).tools_dir(tools()).target_dir(target().join("cuda-builder")).out_dir(out)
}

/// The name of the compiler that tests are run again with.
pub const COMPILER: &str = "FIXTURE_COMPILER";

/// A builder for the fixture, whose output goes to a folder of this test and compiler alone.
pub fn builder(test: &str) -> CudaBuilder {
    let compiler = std::env::var(COMPILER).unwrap_or_else(|_| "default".to_owned());
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptx").join(compiler).join(test);
    CudaBuilder::new(fixture())
        .tools_dir(tools())
        .target_dir(target().join("cuda-builder"))
        .download(true)
        .out_dir(out)
}

/// The fixture's PTX for compute_75.
pub fn ptx_text(test: &str) -> String {
    let path = builder(test).arch(NvvmArch::Compute75).build().unwrap();
    std::fs::read_to_string(path).unwrap()
}

pub fn ptx(test: &str) -> Ptx {
    Ptx::parse(&ptx_text(test))
}
