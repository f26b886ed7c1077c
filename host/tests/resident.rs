//! Many steps in one launch, against the same steps in `f64`: sizes that end within tiles, and those of MNIST.

use std::sync::Arc;

use cuda_builder::{Backend, NvvmArch};
use cuda_std::launch::Limits;
use cuda_std::simt::{Executor, Scheduler};
use ferrowarp::device::Device;
use ferrowarp_cases::layer::resident::{Kernel, Training};
use ferrowarp_cases::reference::LayerOf;
use ferrowarp_cases::{Case, assert_right, emulated};
use gpu_kernels::mlp::resident::{Extents, train};
use ptx_emulator::Turns;

/// Features, hidden units, classes, batch; and steps.
const HARD: [([usize; 5], usize); 8] = [
    ([20, 13, 7, 3, 5], 7),
    ([1, 1, 1, 1, 1], 3),
    ([15, 8, 3, 2, 2], 4),
    ([16, 9, 4, 16, 3], 4),
    ([31, 17, 127, 10, 64], 2),
    ([815, 3, 5, 2, 4], 2),
    ([33, 70, 33, 16, 17], 5),
    ([48, 24, 31, 5, 63], 3),
];

fn extents([features, hidden1, hidden2, classes, batch]: [usize; 5]) -> Extents {
    Extents { features, hidden1, hidden2, classes, batch }
}

fn kernel(name: &str) -> &'static Kernel {
    train::INSTANCES.iter().find(|kernel| kernel.meta.name == name).unwrap()
}

fn cases(sizes: [usize; 5], steps: usize, kernels: &[&'static Kernel]) -> Vec<Case> {
    let training = Arc::new(Training::new(extents(sizes), steps, 1));
    kernels.iter().map(|kernel| training.case(kernel)).collect()
}

/// The kernels whose blocks are all on the executor at once.
fn kernels_for(sizes: [usize; 5]) -> Vec<&'static Kernel> {
    let threads = |kernel: &Kernel| (extents(sizes).blocks() * kernel.warps * 32) as u64;
    let most = Limits::default().max_resident_threads;
    train::INSTANCES.iter().filter(|kernel| threads(kernel) <= most).collect()
}

#[test]
fn sizes_that_end_within_tiles() {
    let cases_of = |(sizes, steps)| {
        let kernels = kernels_for(sizes);
        assert!(!kernels.is_empty());
        cases(sizes, steps, &kernels)
    };
    let all: Vec<Case> = HARD.into_iter().flat_map(cases_of).collect();
    assert_right(&all, &Device::cpu(), Case::assess_twice);
}

#[test]
fn the_sizes_of_mnist() {
    let sizes = [784, 300, 100, 10, 64];
    assert_right(&cases(sizes, 2, &kernels_for(sizes)), &Device::cpu(), Case::assess);
    // In fewer rows, the blocks of the kernels for GPUs are on the executor at once as well.
    let sizes = [784, 300, 100, 10, 8];
    assert!(kernels_for(sizes).iter().any(|kernel| kernel.meta.name == "resident_epoch"));
    assert_right(&cases(sizes, 2, &[kernel("resident_epoch")]), &Device::cpu(), Case::assess);
}

#[test]
fn on_threads_of_the_system() {
    let device = Device::cpu_with(Executor::new().with_scheduler(Scheduler::Threads));
    for sizes in [[20, 13, 7, 3, 5], [5, 3, 2, 2, 2]] {
        assert_right(&cases(sizes, 5, &[kernel("resident_epoch_serial")]), &device, Case::assess_twice);
    }
}

#[test]
fn under_seeds() {
    for seed in 0..8 {
        let device = Device::cpu_with(Executor::new().with_seed(seed));
        assert_right(&cases([20, 13, 7, 3, 5], 6, &[kernel("resident_epoch_serial")]), &device, Case::assess);
    }
}

#[test]
fn as_ptx_by_each_back_end() {
    for (backend, turns) in emulated::back_ends().zip([Turns::Ascending, Turns::Descending]) {
        let device = emulated::device(backend, NvvmArch::Compute90, turns);
        let runs = |kernel: &&Kernel| device.limits().runs(kernel.meta);
        let kernels: Vec<&Kernel> = train::INSTANCES.iter().filter(runs).collect();
        assert_right(&cases([20, 13, 7, 3, 3], 5, &kernels), &device, Case::assess_twice);
    }
}

/// Whatever steps a launch ends between, the bits are the same.
#[test]
fn launches_can_end_anywhere() {
    for device in [Device::cpu(), emulated::device(Backend::Nvvm, NvvmArch::Compute90, Turns::Ascending)] {
        let training = Training::new(extents([20, 13, 7, 3, 3]), 5, 1);
        // Of the executor's stacks there are not enough for the kernels of a GPU beside other tests.
        for kernel in train::INSTANCES.iter().filter(|it| it.meta.cpu_only == device.limits().runs_cpu_only) {
            let whole = training.run(&device, kernel).unwrap();
            for parts in [&[1, 4][..], &[3, 2], &[2, 1, 2], &[1; 5]] {
                let got = training.run_in_parts(&device, kernel, parts).unwrap();
                assert!(got == whole, "{} in launches of {parts:?}", kernel.meta.name);
            }
        }
    }
}

/// A row's block that is not there sends nothing: the others' waits are in vain.
#[test]
fn a_wait_that_never_ends_is_a_fault() {
    let training = Training::new(extents([20, 13, 7, 3, 5]), 2, 1);
    let kernel = kernel("resident_epoch_serial");
    let blocks = training.extents.blocks() - 1;
    let error = training.run_on_blocks(&Device::cpu(), kernel, blocks).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("resident_epoch_serial") && error.contains("wait_until_each"), "{error}");
}

/// The square root of the mean square of what the parameters of a layer differ by.
fn distance(layer: &LayerOf<f64>, weights: &[f64], biases: &[f64]) -> f64 {
    let pairs = layer.weights.iter().zip(weights).chain(layer.biases.iter().zip(biases));
    let squares: Vec<f64> = pairs.map(|(a, b)| (a - b).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

/// After 20 steps the parameters are as near to those of `f64` as those of plain loops in `f32` are. Most of what they are
/// off by is their own rounding at each step, which is the same chance for both: hence the tenth.
#[test]
fn twenty_steps_are_as_exact_as_plain_f32() {
    for (sizes, seed) in [([784, 300, 100, 10, 64], 1), ([100, 40, 30, 10, 32], 2)] {
        let training = Training::new(extents(sizes), 20, seed);
        let (exact, _) = training.reference::<f64>();
        let (plain, _) = training.reference::<f32>();
        let got = training.run(&Device::cpu(), kernel("resident_epoch_serial")).unwrap();
        for (l, (exact, plain)) in exact.iter().zip(&plain).enumerate() {
            let plain = LayerOf::<f64>::of(plain);
            let of_plain = distance(exact, &plain.weights, &plain.biases);
            let of_kernel = distance(exact, &got[2 * l].1, &got[2 * l + 1].1);
            println!("{sizes:?}, layer {l}: off by {of_kernel:.2e}, plain f32 by {of_plain:.2e}");
            assert!(
                of_kernel <= 1.1 * of_plain,
                "layer {l} is off by {of_kernel:e}, plain f32 by {of_plain:e}"
            );
        }
    }
}
