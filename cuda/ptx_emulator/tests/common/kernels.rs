//! The kernels of `tests/kernels` as PTX for compute capability 9.0.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use cuda_builder::{Backend, CudaBuilder, DebugInfo, NvvmArch};
use ptx_emulator::{Emulator, PtxModule, Turns};

/// Those that run on every newer GPU too, by back end and order of turns.
pub fn emulators() -> Vec<Emulator> {
    emulators_of(NvvmArch::Compute90)
}

/// Those for this architecture alone, by back end and order of turns.
pub fn emulators_90a() -> Vec<Emulator> {
    emulators_of(NvvmArch::Compute90a)
}

fn emulators_of(arch: NvvmArch) -> Vec<Emulator> {
    static MODULES: OnceLock<Vec<(NvvmArch, Arc<PtxModule>)>> = OnceLock::new();
    let modules =
        MODULES.get_or_init(|| [Backend::Nvvm, Backend::Llvm].into_iter().flat_map(build).collect());
    let modules = || modules.iter().filter(|(of, _)| *of == arch).map(|(_, module)| module);
    let with = |turns| modules().map(move |module| Emulator::new(Arc::clone(module)).with_turns(turns));
    with(Turns::Ascending).chain(with(Turns::Descending)).collect()
}

fn build(backend: Backend) -> Vec<(NvvmArch, Arc<PtxModule>)> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let out = format!("ptx_emulator-sm_90-{backend:?}").to_lowercase();
    let built = CudaBuilder::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels"))
        .tools_dir(CudaBuilder::tools_dir_in(target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join(out))
        .download(true)
        .backend(backend)
        .arch(NvvmArch::Compute90)
        // The code is the same.
        .debug(DebugInfo::LineTables)
        .build_all()
        .unwrap();
    let module = |path: &Path| {
        let module = PtxModule::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(module.unsupported(), [], "the emulator knows every instruction");
        Arc::new(module)
    };
    built.modules.iter().map(|built| (built.arch, module(&built.path))).collect()
}
