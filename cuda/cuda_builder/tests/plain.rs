//! Crates that say nothing of `no_std` or of a language feature, and ask for the architecture by Rust-CUDA's names.

use std::path::Path;

use crate::common::{copy_of, target, tools};
use cuda_builder::{CudaBuilder, NvvmArch};

#[test]
fn crates_without_attributes_compile_and_know_their_architecture() {
    let build = |arch: NvvmArch| {
        let files = ["src/lib.rs", "helper/Cargo.toml", "helper/build.rs", "helper/src/lib.rs"];
        let copy = copy_of("plain", &files, "a plain crate");
        let builder = CudaBuilder::new(copy).tools_dir(tools()).target_dir(target().join("cuda-builder"));
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
