//! The kernels as PTX, on the emulator: built by `cuda_builder` as for a GPU, once a run, kept while unchanged.

use std::path::Path;
use std::sync::OnceLock;

use cuda_builder::{CudaBuilder, NvvmArch};
use ptx_emulator::{Emulator, PtxModule};

/// The emulator with the PTX of `gpu-kernels` for `arch`.
pub fn emulator(arch: NvvmArch) -> Emulator {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let path = CudaBuilder::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("../gpu-kernels"))
        .tools_dir(CudaBuilder::tools_dir_in(target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join("gpu-kernels"))
        .download(true)
        .arch(arch)
        .build()
        .unwrap();
    let module = PtxModule::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    assert_eq!(module.unsupported(), [], "the emulator knows every instruction of the kernels");
    Emulator::new(module)
}

/// The emulator of the oldest architecture the PTX is built for.
pub fn shared() -> &'static Emulator {
    static SHARED: OnceLock<Emulator> = OnceLock::new();
    SHARED.get_or_init(|| emulator(NvvmArch::Compute75))
}
