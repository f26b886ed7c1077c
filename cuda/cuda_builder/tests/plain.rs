//! Crates that say nothing of `no_std` or of a language feature, and ask for the architecture by Rust-CUDA's names.

mod common;

use std::path::{Path, PathBuf};

use common::{target, tools};
use cuda_builder::{CudaBuilder, NvvmArch};

/// A copy of the fixture out of the source tree, with the workspace's lock file and the real path of `cuda_std`.
fn copy() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let from = here.join("tests/fixtures/plain");
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("a plain crate");
    for file in ["src/lib.rs", "helper/Cargo.toml", "helper/build.rs", "helper/src/lib.rs"] {
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

#[test]
fn crates_without_attributes_compile_and_know_their_architecture() {
    let build = |arch: NvvmArch| {
        let builder = CudaBuilder::new(copy()).tools_dir(tools()).target_dir(target().join("cuda-builder"));
        let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("ptx/plain");
        let path = builder.download(true).out_dir(out).arch(arch).build().unwrap();
        std::fs::read_to_string(path).unwrap()
    };
    for (arch, number) in [(NvvmArch::Compute75, 75), (NvvmArch::Compute90, 90)] {
        let ptx = build(arch);
        // The build script's 5 is the digit's code, 53.
        for expected in [1000 + number, 2000 + number, 3000 + number + 53_000] {
            assert!(ptx.contains(&format!(", {expected};")), "{expected} for {arch}:\n{ptx}");
        }
    }
}
