//! Every kernel of the network against its f64 oracle, at sizes that fit no tile: on the CPU executor, and as the
//! PTX that a GPU gets, on the emulator.

use std::collections::BTreeSet;
use std::sync::Arc;

use cuda_std::launch::Limits;
use cuda_std::simt::{Executor, Scheduler};
use ferrowarp::device::Device;
use ferrowarp_cases::layer::{self, Problem};
use ferrowarp_cases::softmax::{self, ladder};
use ferrowarp_cases::{
    Case, Scope, Setting, assert_right, attention, axis, emulated, gallery, matmul, norm, small,
};
use gpu_kernels::mlp::batch;

/// Every kernel of the network on every problem.
fn cases(problems: impl Iterator<Item = Problem>, limits: &Limits) -> Vec<Case> {
    problems.flat_map(|problem| layer::cases(&Arc::new(problem), limits).collect::<Vec<_>>()).collect()
}

#[test]
fn on_the_executor() {
    let device = Device::cpu();
    assert_right(&cases(layer::problems(), device.limits()), &device, Case::assess);
}

#[test]
fn as_ptx() {
    emulated::assert_right_as_ptx(|setting| cases(layer::small_problems(), &setting.profile.limits));
}

/// Gradients that `f16` would lose most bits of, unless they are scaled before.
#[test]
fn small_gradients_are_kept() {
    let mut problem = Problem::new([20, 18, 35], 0, 0);
    problem.d_out.iter_mut().for_each(|gradient| *gradient *= f32::powi(2.0, -20));
    // Those of the parameters show where nothing large is added.
    let mut at_rest = problem.clone();
    for parameters in
        [&mut at_rest.weights, &mut at_rest.biases, &mut at_rest.weight_velocity, &mut at_rest.bias_velocity]
    {
        parameters.fill(0.0);
    }
    let device = Device::cpu();
    for problem in [problem, at_rest] {
        let mut cases: Vec<Case> = layer::cases(&Arc::new(problem), device.limits()).collect();
        let is_backward =
            |name: &str| ["linear_backward_", "linear_updates_"].iter().any(|of| name.starts_with(of));
        cases.retain(|case| case.kernels().all(is_backward));
        assert_right(&cases, &device, Case::assess);
    }
}

/// Where the lanes of a warp take what they multiply by shuffles.
#[test]
fn tensor_cores_on_threads_of_the_system() {
    let device = Device::cpu_with(Executor::new().with_scheduler(Scheduler::Threads));
    let of_tensor_cores = |kernel: &str| {
        let is_rounded = ["_tf32", "_bf16", "_f16"].iter().any(|name| kernel.ends_with(name));
        is_rounded
            && kernel.starts_with("linear_")
            && !kernel.contains("_serial")
            && !kernel.contains("_cluster")
    };
    let problem = Arc::new(Problem::new([5, 18, 35], 0, 0));
    let mut cases: Vec<Case> = layer::cases(&problem, device.limits()).collect();
    cases.retain(|case| case.kernels().all(of_tensor_cores));
    assert_eq!(cases.len(), 4 * 3, "the forward kernels with and without a ReLU");
    assert_right(&cases, &device, Case::assess_twice);
}

/// What is run in a scope, of the kernels that there are, is every one of them that the scope's devices have.
#[test]
fn every_kernel_is_assessed() {
    let layer = Arc::new(Problem::new([2, 5, 35], 0, 0));
    let last = Arc::new(Problem::new([2, 5, 10], 0, 0));
    let scopes =
        [Scope::Tiny, Scope::Small, Scope::OldEmulator, Scope::NewEmulator, Scope::Executor, Scope::Device];
    // The self-check of a GPU has nothing that is for the CPU alone.
    let mut gpu = Setting::new(Scope::Device);
    gpu.profile.limits.runs_cpu_only = false;
    for setting in scopes.map(Setting::new).iter().chain([&gpu]) {
        let (scope, limits) = (setting.scope, &setting.profile.limits);
        let mut cases = if matches!(scope, Scope::Tiny | Scope::Small) {
            small::all(scope)
        } else {
            let layers = layer::cases(&layer, limits).chain(layer::last(&last, limits));
            layers.chain(ladder::cases(scope, limits, |_| true)).collect()
        };
        if scope == Scope::Device {
            cases.extend(ladder::of_layer(&layer, limits));
        }
        cases.extend(softmax::cases(setting));
        if !matches!(scope, Scope::Tiny | Scope::Small) {
            cases.extend(matmul::cases(setting));
            cases.extend(attention::cases(setting));
            cases.extend(norm::cases(setting));
            cases.extend(axis::cases(setting));
            cases.extend(gallery::cases(scope, limits));
        }
        let assessed: BTreeSet<&str> = cases.iter().flat_map(Case::kernels).collect();
        let there =
            gpu_kernels::KERNELS.iter().filter(|kernel| limits.runs(kernel)).map(|kernel| kernel.name);
        // Miri runs few kernels with large tiles or blocks: it would take minutes for each.
        let is_slow =
            |name: &str| ["matmul_", "attention_", "norm_", "axis_"].iter().any(|of| name.starts_with(of));
        let is_left_out = |name: &&str| scope == Scope::Tiny && is_slow(name) && !assessed.contains(name);
        let there: BTreeSet<&str> = there.filter(|name| !is_left_out(name)).collect();
        let differ: Vec<_> = assessed.symmetric_difference(&there).collect();
        assert!(differ.is_empty(), "{scope:?}, {limits:?}: assessed only or there only: {differ:?}");
    }
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
