//! The ways to run a kernel without a GPU: on the executor, and as PTX of either back end on the emulator.

use std::sync::{Arc, OnceLock};

use cuda_builder::{Backend, CudaBuilder, NvvmArch};
use cuda_std::launch::LaunchError;
use cuda_std::panic_record::PanicRecord;
use ptx_emulator::{Emulator, PtxModule};

/// The PTX of this crate.
pub fn ptx(backend: Backend) -> String {
    // target/debug/deps/TEST
    let test = std::env::current_exe().unwrap();
    let target = test.ancestors().nth(3).unwrap();
    let path = CudaBuilder::new(env!("CARGO_MANIFEST_DIR"))
        .tools_dir(CudaBuilder::tools_dir_in(target))
        .target_dir(target.join("cuda-builder"))
        .out_dir(target.join("tmp/compat-kernels").join(backend.to_string()))
        .download(true)
        .arch(NvvmArch::Compute75)
        .backend(backend)
        .build()
        .unwrap();
    std::fs::read_to_string(path).unwrap()
}

/// An emulator with that PTX.
pub fn emulator(backend: Backend) -> Emulator {
    static MODULES: [OnceLock<Arc<PtxModule>>; 2] = [const { OnceLock::new() }; 2];
    let module = MODULES[usize::from(backend == Backend::Llvm)].get_or_init(|| {
        let module = PtxModule::parse(&ptx(backend)).unwrap();
        assert_eq!(module.unsupported(), [], "the emulator knows every instruction of the kernels");
        module.into()
    });
    Emulator::new(Arc::clone(module))
}

/// The panic that a launch on the emulator ends with.
pub fn panic_of(launch: impl FnOnce(&Emulator) -> Result<(), LaunchError>) -> PanicRecord {
    let mut emulator = emulator(Backend::Nvvm);
    let mut record = [PanicRecord::empty()];
    let address = record.as_mut_ptr();
    // SAFETY: the record outlives the launch, and it is read only after it.
    unsafe { emulator.lend(&mut record) };
    emulator.set_global("__ferrowarp_panic_slot", &(address.addr() as u64).to_le_bytes()).unwrap();
    let error = launch(&emulator).unwrap_err().to_string();
    assert!(error.contains("trap"), "{error}");
    // SAFETY: the launch has ended.
    let seen = unsafe { address.read() };
    assert_eq!(seen.state, PanicRecord::COMPLETE);
    seen
}

/// Makes a test of each check on each launcher.
macro_rules! on_all {
    ($($check:ident)*) => {$(
        mod $check {
            use crate::common::emulator;
            use cuda_builder::Backend;
            #[test] fn on_the_executor() { super::$check(&cuda_std::simt::Executor::new()); }
            #[test] fn as_ptx() { super::$check(&emulator(Backend::Nvvm)); }
            #[test] fn as_ptx_by_llvm() { super::$check(&emulator(Backend::Llvm)); }
        }
    )*};
}
pub(crate) use on_all;

/// Numbers between -1 and 1 that look random and are the same in every run.
pub fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

pub fn assert_close(seen: &[f32], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(seen.len(), expected.len());
    for (i, (&seen, &expected)) in seen.iter().zip(expected).enumerate() {
        let error = (f64::from(seen) - expected).abs();
        assert!(
            error <= tolerance * expected.abs().max(1.0),
            "{what}, element {i}: {seen} instead of {expected}"
        );
    }
}
