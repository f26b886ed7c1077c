//! The kernels of `tests/kernels` as PTX.

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
    let modules = || BACKENDS.into_iter().flat_map(modules).filter(|(of, _)| *of == arch);
    let with = |turns| modules().map(move |(_, module)| Emulator::new(Arc::clone(module)).with_turns(turns));
    with(Turns::Ascending).chain(with(Turns::Descending)).collect()
}

const BACKENDS: [Backend; 2] = [Backend::Nvvm, Backend::Llvm];

type Modules = Vec<(NvvmArch, Arc<PtxModule>)>;

/// The modules for compute capability 7.5 and 9.0 by this back end, which are compiled once.
pub fn modules(backend: Backend) -> &'static [(NvvmArch, Arc<PtxModule>)] {
    static MODULES: [OnceLock<Modules>; 2] = [const { OnceLock::new() }; 2];
    MODULES[usize::from(backend == Backend::Llvm)].get_or_init(|| build(backend))
}

fn build(backend: Backend) -> Modules {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let out = format!("ptx_emulator-{backend:?}").to_lowercase();
    let built = CudaBuilder::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels"))
        .tools_dir(CudaBuilder::tools_dir_in(target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(Path::new(env!("CARGO_TARGET_TMPDIR")).join(out))
        .download(true)
        .backend(backend)
        // The latter reduces in a warp with one instruction, the former with shuffles.
        .archs(&[NvvmArch::Compute75, NvvmArch::Compute90])
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
