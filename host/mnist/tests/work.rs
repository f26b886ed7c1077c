//! What a step must do, as it is computed from the shapes, beside what is launched and what the page of the ladder says.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex};

use crate::common::SIDE;
use crate::common::networks::{Data, epoch, network, pipelines, spec};
use cuda_std::launch::{KernelCall, LaunchError, Launcher, Limits};
use cuda_std::simt::Executor;
use ferrowarp_device::device::Device;
use ferrowarp_mnist::model::{KernelWork, Pipeline, Trained};
use gpu_kernels::mlp::resident::{Extents, train};

/// The network and the batches of the page.
const SIZES: [usize; 4] = [784, 300, 100, 10];
const BATCH: usize = 64;

/// Steps of a launch of the resident rung on the CPU.
const RESIDENT_STEPS: usize = 8;

/// An executor that counts launches by the names of their kernels.
struct Counting {
    executor: Executor,
    launches: Arc<Mutex<BTreeMap<&'static str, u64>>>,
}

impl Launcher for Counting {
    unsafe fn submit(&self, call: &KernelCall<'_>) -> Result<(), LaunchError> {
        *self.launches.lock().unwrap().entry(call.meta.name).or_default() += 1;
        // SAFETY: the caller's contract is the callee's.
        unsafe { self.executor.submit(call) }
    }
}

fn work_of(pipeline: Pipeline, sizes: &[usize], rows: [usize; 2], has_momentum: bool) -> Vec<KernelWork> {
    KernelWork::of_step(pipeline, Trained { sizes, has_momentum, is_short: false }, rows)
}

fn short_step() -> Vec<KernelWork> {
    let trained = Trained { sizes: &SIZES, has_momentum: false, is_short: true };
    KernelWork::of_step(Pipeline::Fused, trained, [BATCH; 2])
}

/// The launches of an epoch of `steps` whole batches.
fn launched(
    executor: Executor,
    pipeline: Pipeline,
    sizes: &[usize],
    steps: usize,
) -> BTreeMap<&'static str, u64> {
    const BATCH: usize = 20;
    let (launches, limits) = (Arc::new(Mutex::new(BTreeMap::new())), executor.limits().clone());
    let device = Device::with_launcher(Counting { executor, launches: launches.clone() }, limits);
    let data = Data::new(&device, steps * BATCH);
    let mut network = network(&device, pipeline, sizes, BATCH);
    let stats = epoch(&mut network, &data.of(pipeline), &spec(0, 0.1, 0.0));
    assert_eq!((stats.samples, network.take_notice()), (steps * BATCH, None));
    launches.lock().unwrap().clone()
}

#[test]
fn a_step_launches_what_is_counted() {
    const STEPS: usize = 3;
    for sizes in [&[SIDE * SIDE, 10][..], &[SIDE * SIDE, 12, 10], &[SIDE * SIDE, 24, 16, 10]] {
        for pipeline in pipelines() {
            if pipeline == Pipeline::Resident && sizes.len() != 4 {
                continue;
            }
            let mut found = launched(Executor::new(), pipeline, sizes, STEPS);
            let step = work_of(pipeline, sizes, [20, 20], false);
            assert!(!step.is_empty());
            for KernelWork { kernel, launches, .. } in step {
                let of_kernel = |name: &&'static str| name.starts_with(kernel);
                let name = *found.keys().find(|name| of_kernel(name)).unwrap_or_else(|| {
                    panic!("{pipeline:?} of {sizes:?} launches no {kernel}, but {found:?}")
                });
                let expected = match pipeline {
                    Pipeline::Resident => STEPS.div_ceil(RESIDENT_STEPS) as u64,
                    _ => launches * STEPS as u64,
                };
                assert_eq!(found.remove(name), Some(expected), "{pipeline:?} of {sizes:?}: {kernel}");
            }
            // The first batch of an epoch, which no step before it has gathered.
            let first =
                matches!(pipeline, Pipeline::Fused | Pipeline::Graph).then_some(("shuffled_batch", 1));
            assert_eq!(found, BTreeMap::from_iter(first), "{pipeline:?} of {sizes:?}");
        }
    }
}

/// What runs PTX in the host's memory has the kernels of a GPU, as here an executor that refuses all others.
#[test]
fn a_device_gets_the_kernels_that_it_has() {
    let sizes = [SIDE * SIDE, 24, 16, 10];
    let is_cpu_only =
        |name: &&str| gpu_kernels::KERNELS.iter().any(|meta| meta.name == *name && meta.cpu_only);
    for pipeline in [Pipeline::Fused, Pipeline::Resident] {
        for runs_cpu_only in [true, false] {
            let limits = Limits { runs_cpu_only, ..Limits::default() };
            let found = launched(Executor::new().with_limits(limits), pipeline, &sizes, 2);
            let has_one = found.keys().any(is_cpu_only);
            assert_eq!(has_one, runs_cpu_only, "{pipeline:?} launches {found:?}");
        }
    }
}

/// Of a network of 3-2 in batches of 5, worked out by hand.
#[test]
fn bytes_and_operations_are_those_of_the_shapes() {
    let find = |step: &[KernelWork], name: &str| {
        let found = step.iter().find(|work| work.kernel == name).copied();
        let KernelWork { launches, bytes, flop, .. } = found.unwrap_or_else(|| panic!("no {name}"));
        [launches, bytes, flop]
    };
    let step = work_of(Pipeline::Naive, &[3, 2], [5, 5], false);
    assert_eq!(step.len(), 8);
    // 15 pixels and 5 labels, a byte each and then four.
    assert_eq!(find(&step, "shuffled_batch"), [1, 20 + 4 * 20, 15]);
    // 15 features, 6 weights, 2 biases, 10 outputs; 10 sums of 3 products and a bias.
    assert_eq!(find(&step, "linear_forward"), [1, 4 * (15 + 6 + 2 + 10), 10 * (3 + 3)]);
    // 15 features, 10 gradients, 8 parameters twice; 6 sums of 5 products, 2 of 5 terms, and for each of the 8 a division, a
    // product and a difference.
    assert_eq!(find(&step, "update_layer"), [1, 4 * (15 + 10 + 16), 6 * 10 + 2 * 5 + 8 * 3]);
    assert_eq!(find(&step, "cross_entropy_backward"), [1, 4 * 30, 10]);
    assert_eq!(find(&step, "count_correct"), [1, 4 * (10 + 5 + 5), 10]);

    // With momentum 8 velocities, read and written, a product and an addition each.
    let with = work_of(Pipeline::Overlapped, &[3, 2], [5, 5], true);
    assert_eq!(find(&with, "ordered_batch"), find(&step, "shuffled_batch"));
    assert_eq!(find(&with, "update_layer"), [1, 4 * (15 + 10 + 32), 60 + 10 + 24 + 16]);

    // The last layer with 10 logits and their gradients, 5 losses, hits and labels; the next batch is of 4.
    let fused = work_of(Pipeline::Fused, &[3, 2], [5, 4], false);
    assert_eq!(fused.iter().map(|work| work.kernel).collect::<Vec<_>>(), ["head", "linear_updates"]);
    assert_eq!(find(&fused, "head"), [1, 4 * (33 + 15) + 16 + 64, 60 + 7 * 10 + 4 * 5 + 12]);
    assert_eq!(find(&fused, "linear_updates"), [1, 4 * (15 + 10 + 16), 60 + 10 + 16]);
    let without = work_of(Pipeline::Graph, &[3, 2], [5, 0], false);
    assert_eq!(find(&without, "head")[1], 4 * (33 + 15));

    // 8 units a block; of the sums of 8 rows 4 quads for up to 16 columns from each of 2 blocks, of a row a quad of gradients, a
    // quad and 4 for the last layer, and that one's 16 classes of 32 quads, all written and read; pixels and labels; losses and
    // hits. For the inner products the pixels of two batches, and 64 times 64 of them written and read; a batch is written once
    // more, too.
    let resident = work_of(Pipeline::Resident, &[3, 9, 2, 2], [5, 5], false);
    let (sent, products) = ((8 * 2 * 4 + 5 * (1 + 1 + 4) + 16 * 32) * 16, 64 * 64 * 4);
    let bytes = 2 * sent + 5 * 4 + 5 * 8 + 3 * 5 * 3 + 2 * products;
    let [launches, moved, flop] = find(&resident, "resident_epoch");
    assert_eq!([launches, moved], [1, bytes]);
    // Besides what the fused step does, but the scaling of the next batch's 15 pixels in place of this one's: 25 inner
    // products of 3 pixels and the 1 of the bias, and of 45 sums 5 products, the rate's, and the difference.
    let fused = work_of(Pipeline::Fused, &[3, 9, 2, 2], [5, 5], false);
    let of_fused = fused.iter().map(|work| work.flop).sum::<u64>();
    assert_eq!(flop, of_fused + 25 * (3 + 3) + 45 * (5 + 4 + 1 + 1));
}

/// A row for each rung, and for those whose steps are short on a GPU one of that.
fn table() -> String {
    let mut text = "| rung | kernels a step | MB | MFLOP |\n| --- | ---: | ---: | ---: |\n".to_owned();
    let mut row = |name: &str, kernels: Option<&str>, step: &[KernelWork]| {
        let sum = |of: fn(&KernelWork) -> u64| step.iter().map(of).sum::<u64>();
        let (megabytes, megaflop) = (sum(|work| work.bytes) as f64 / 1e6, sum(|work| work.flop) as f64 / 1e6);
        let kernels = kernels.map_or_else(|| sum(|work| work.launches).to_string(), str::to_owned);
        let _ = writeln!(text, "| {name} | {kernels} | {megabytes:.2} | {megaflop:.2} |");
    };
    for pipeline in pipelines() {
        let step = work_of(pipeline, &SIZES, [BATCH; 2], false);
        let kernels = (pipeline == Pipeline::Resident).then_some("1 an epoch");
        row(&pipeline.name(), kernels, &step);
        if matches!(pipeline, Pipeline::Fused | Pipeline::Graph) {
            let step = short_step();
            row(&format!("{} on a GPU", pipeline.name()), None, &step);
        }
    }
    text
}

#[test]
fn the_page_of_the_ladder_has_every_rung_and_these_figures() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/training-ladder.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (open, close) = ("<!-- work -->\n", "<!-- /work -->");
    let section = page.split_once(open).and_then(|(_, rest)| rest.split_once(close));
    let (section, _) = section.unwrap_or_else(|| panic!("the page has no section {open}"));
    assert!(section == table(), "the page has another table than that of the shapes, which is\n{}", table());
    for pipeline in pipelines() {
        let name = pipeline.name();
        for needed in [
            format!("\n## {name}: "),
            format!("\n<!-- rung {name} -->\n"),
            format!("(timelines/{name}.svg)"),
            format!("--pipeline {name}"),
        ] {
            assert!(page.contains(&needed), "docs/training-ladder.md has no `{}`", needed.trim());
        }
    }

    // What the text derives from them.
    let (images, steps) = (60_000, 60_000usize.div_ceil(BATCH));
    let step = work_of(Pipeline::Naive, &SIZES, [BATCH; 2], false);
    let launches = step.iter().map(|kernel| kernel.launches).sum::<u64>() * steps as u64;
    let short = short_step();
    let short = short.iter().map(|kernel| kernel.launches).sum::<u64>();
    let [features, hidden1, hidden2, classes] = SIZES;
    let extents = Extents { features, hidden1, hidden2, classes, batch: BATCH };
    let kernel = train::INSTANCES.iter().find(|kernel| kernel.meta.name == "resident_epoch").unwrap();
    let shared = kernel.config(&extents).shared_bytes / 1024;
    for derived in [
        format!("{images} images in batches of {BATCH}: {steps} steps an epoch"),
        format!("In an epoch {launches} launches and {} waits", 2 * steps),
        format!("and hits, {} bytes, once an epoch", images * 2 * size_of::<f32>()),
        format!("1 copy of {} bytes", BATCH * (SIZES[0] + 1)),
        format!("or {short} and {}", short * steps as u64 + 1),
        format!("{} blocks of weights", extents.weight_blocks()),
        format!("all {} blocks have to be on the device", extents.blocks()),
        format!("are {shared} KiB a block"),
        format!("on the CPU {RESIDENT_STEPS} steps, {} launches", steps.div_ceil(RESIDENT_STEPS)),
    ] {
        assert!(page.contains(&derived), "docs/training-ladder.md has no `{derived}`");
    }
    let options =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/training.md")).unwrap();
    let derived = format!("needs {shared} KiB of shared memory per block for MNIST");
    assert!(options.contains(&derived), "docs/training.md has no `{derived}`");
}
