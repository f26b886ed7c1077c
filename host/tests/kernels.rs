//! Every kernel of the network against its f64 oracle, at sizes that fit no tile: on the CPU executor, and as the
//! PTX that a GPU gets, on the emulator.

use cuda_builder::{Backend, NvvmArch};
use ferrowarp::device::Device;
use ferrowarp_cases::emulated::Emulators;
use ferrowarp_cases::layer::{self, Problem};
use ferrowarp_cases::operation;
use gpu_kernels::mlp::batch;
use ptx_emulator::Turns;

/// Assesses every kernel on every problem.
fn all_are_right(device: &Device, problems: impl Iterator<Item = Problem>) {
    for problem in problems {
        for check in layer::network() {
            let assessed = check.assess(device, &problem);
            assessed.unwrap_or_else(|error| panic!("{} {problem}: {error:#}", check.kernel.name));
        }
    }
}

fn emulated(backend: Backend, arch: NvvmArch, turns: Turns) -> Device {
    let emulators = Emulators::new(backend, arch, turns);
    let limits = emulators.limits().clone();
    Device::with_launcher(emulators, limits)
}

#[test]
fn on_the_executor() {
    all_are_right(&Device::cpu(), layer::problems());
}

#[test]
fn as_ptx_by_nvvm() {
    let device = emulated(Backend::Nvvm, NvvmArch::Compute75, Turns::Ascending);
    all_are_right(&device, layer::small_problems());
}

#[test]
fn as_ptx_by_llvm() {
    let device = emulated(Backend::Llvm, NvvmArch::Compute75, Turns::Ascending);
    all_are_right(&device, layer::small_problems());
}

/// With the threads in the other order, which shows another half of all races.
#[test]
fn as_ptx_for_a_newer_architecture() {
    let device = emulated(Backend::Nvvm, NvvmArch::Compute90, Turns::Descending);
    all_are_right(&device, layer::small_problems());
}

#[test]
fn as_ptx_by_llvm_for_a_newer_architecture() {
    let device = emulated(Backend::Llvm, NvvmArch::Compute90, Turns::Descending);
    all_are_right(&device, layer::small_problems());
}

#[test]
fn every_kernel_is_assessed() {
    let layers: Vec<_> = layer::checks();
    let of_layers = layers.iter().flat_map(|check| check.kernels());
    let mut assessed: Vec<_> = of_layers.chain(operation::kernels()).collect();
    let mut kernels: Vec<_> = gpu_kernels::KERNELS.iter().map(|kernel| kernel.name).collect();
    assessed.sort_unstable();
    assessed.dedup();
    kernels.sort_unstable();
    assert_eq!(assessed, kernels);
}

#[test]
fn the_order_of_an_epoch_is_a_permutation_that_seed_and_epoch_change() {
    for len in [1, 2, 3, 31, 64, 1000, 60_000] {
        let order = |seed, epoch| (0..len).map(|i| batch::permuted(i, len, seed, epoch)).collect::<Vec<_>>();
        let first = order(42, 1);
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..len).collect::<Vec<_>>(), "{len} samples");
        if len >= 31 {
            assert_ne!(first, order(42, 2), "{len} samples: another epoch");
            assert_ne!(first, order(43, 1), "{len} samples: another seed");
            assert_ne!(
                first,
                order(42 + (1 << 32), 1),
                "{len} samples: a seed that differs in its upper half"
            );
            let fixed = first.iter().enumerate().filter(|(i, p)| *i == **p as usize).count();
            assert!(fixed < 10, "{len} samples: {fixed} stay in place");
        }
    }
}

#[test]
fn the_table_lists_every_kernel_once() {
    let mut names: Vec<&str> = gpu_kernels::KERNELS.iter().map(|meta| meta.name).collect();
    let listed = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), listed, "a kernel is listed twice");
}
