//! The kernels as PTX, on the emulator: built by `cuda_builder` as for a GPU, once a run, kept while unchanged.

#![allow(dead_code, reason = "each test file is a program of its own and uses a part of this")]

use std::path::Path;
use std::sync::{Arc, OnceLock};

use cuda_builder::{CudaBuilder, NvvmArch};
use ptx_emulator::{Emulator, PtxModule};

/// The PTX of `gpu-kernels` for `arch`.
pub fn ptx(arch: NvvmArch) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = CudaBuilder::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu-kernels"))
        .tools_dir(CudaBuilder::tools_dir_in(target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-kernels"))
        .download(true)
        .arch(arch)
        .build()
        .unwrap();
    std::fs::read_to_string(path).unwrap()
}

/// An emulator of a module that it knows every instruction of.
pub fn emulator_of(ptx: &str) -> Emulator {
    Emulator::new(module(ptx))
}

/// An emulator of the kernels for the oldest architecture.
pub fn emulator() -> Emulator {
    static MODULE: OnceLock<Arc<PtxModule>> = OnceLock::new();
    Emulator::new(Arc::clone(MODULE.get_or_init(|| module(&ptx(NvvmArch::Compute75)).into())))
}

fn module(ptx: &str) -> PtxModule {
    let module = PtxModule::parse(ptx).unwrap();
    assert_eq!(module.unsupported(), [], "the emulator knows every instruction of the kernels");
    module
}
