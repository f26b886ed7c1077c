//! The ways to run a kernel without a GPU: on the executor, and as PTX of either back end on the emulator.

#![allow(dead_code, unused_macros, unused_imports, reason = "each test uses a part of it")]

use std::sync::{Arc, OnceLock};

use cuda_builder::{Backend, CudaBuilder, NvvmArch};
use cuda_std::launch::LaunchError;
use cuda_std::panic_record::PanicRecord;
use ptx_emulator::{Emulator, PtxModule};

/// The emulator with the PTX of this crate, as libNVVM makes it.
pub fn emulator() -> Emulator {
    emulator_of(Backend::Nvvm)
}

/// The emulator with the PTX of this crate, as `backend` makes it.
pub fn emulator_of(backend: Backend) -> Emulator {
    emulator_for(backend, NvvmArch::Compute75)
}

/// The same for an architecture, which has kernels that older ones lack.
pub fn emulator_for(backend: Backend, arch: NvvmArch) -> Emulator {
    static MODULES: [OnceLock<Arc<PtxModule>>; 4] = [const { OnceLock::new() }; 4];
    let is_later = arch != NvvmArch::Compute75;
    let module = &MODULES[usize::from(backend == Backend::Llvm) + 2 * usize::from(is_later)];
    let module = module.get_or_init(|| {
        // target/debug/deps/TEST
        let test = std::env::current_exe().unwrap();
        let target = test.ancestors().nth(3).unwrap();
        let path = CudaBuilder::new(env!("CARGO_MANIFEST_DIR"))
            .tools_dir(CudaBuilder::tools_dir_in(target))
            .target_dir(target.join("cuda-builder"))
            .out_dir(target.join("tmp/compat-kernels").join(format!("{backend}-{arch}")))
            .download(true)
            .arch(arch)
            .backend(backend)
            .build()
            .unwrap();
        let module = PtxModule::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
        assert_eq!(module.unsupported(), [], "the emulator knows every instruction of the kernels");
        module.into()
    });
    Emulator::new(Arc::clone(module))
}

/// The panic that a launch on the emulator ends with.
pub fn panic_of(launch: impl FnOnce(&Emulator) -> Result<(), LaunchError>) -> PanicRecord {
    let mut emulator = emulator();
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
    ($($check:ident)*) => {
        mod on_the_executor {
            $(#[test] fn $check() {
                super::$check(&cuda_std::simt::Executor::new());
            })*
        }
        mod as_ptx {
            $(#[test] fn $check() {
                super::$check(&super::common::emulator());
            })*
        }
        mod as_ptx_by_llvm {
            $(#[test] fn $check() {
                super::$check(&super::common::emulator_of(cuda_builder::Backend::Llvm));
            })*
        }
    };
}

/// The same for kernels of compute capability 9.0, on the executor in shuffled orders too, and with threads.
macro_rules! on_all_since_90 {
    ($($check:ident)*) => {
        mod on_the_executor {
            use cuda_std::simt::{Executor, Scheduler};
            $(#[test] fn $check() {
                super::$check(&Executor::new());
                super::$check(&Executor::new().with_scheduler(Scheduler::Threads));
                for seed in 0..8 {
                    super::$check(&Executor::new().with_seed(seed));
                }
            })*
        }
        mod as_ptx {
            use cuda_builder::{Backend, NvvmArch};
            use ptx_emulator::Turns;
            $(#[test] fn $check() {
                for turns in [Turns::Ascending, Turns::Descending] {
                    let emulator = super::common::emulator_for(Backend::Nvvm, NvvmArch::Compute90);
                    super::$check(&emulator.with_turns(turns));
                }
            })*
        }
        mod as_ptx_by_llvm {
            use cuda_builder::{Backend, NvvmArch};
            $(#[test] fn $check() {
                super::$check(&super::common::emulator_for(Backend::Llvm, NvvmArch::Compute90));
            })*
        }
    };
}

pub(crate) use {on_all, on_all_since_90};

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
