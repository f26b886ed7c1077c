//! Every rung of the training ladder trains the same function, and gives its own bits on every run.

use std::ops::ControlFlow;
use std::sync::{Arc, Barrier};

use crate::common::{SIDE, digits};
use clap::ValueEnum as _;
use ferrowarp_data::{Dataset, Samples};
use ferrowarp_device::device::{Device, DeviceError, Stream};
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::model::{
    DeviceDataset, EpochSpec, EpochStats, Network, Parameters, Pipeline, Precision, Rates, Timeline,
    TrainingSet,
};

/// 50 steps and half a batch.
const SAMPLES: usize = 1010;
const BATCH: usize = 20;
const EPOCHS: u32 = 2;

/// By how much weights of two rungs may differ after 100 steps: rounding alone, in sums of up to 784 terms of up to 1 that
/// are added in other orders.
const TOLERANCE: f32 = 2e-5;

fn dataset(samples: usize) -> Dataset {
    let (images, labels) = digits(samples, 1);
    Dataset { images, labels, rows: SIDE, cols: SIDE }
}

fn uploaded(device: &Device, data: &Dataset, classes: usize) -> DeviceDataset {
    DeviceDataset::upload(device, &data.images, &data.labels, data.features(), classes).unwrap()
}

fn network(device: &Device, pipeline: Pipeline, sizes: &[usize]) -> Network {
    let batch_size = BatchSize::new(BATCH as u64).unwrap();
    Network::new(device, &Parameters::init(sizes, 7), pipeline, Precision::F32, batch_size).unwrap()
}

/// Rates that are others at each step, and less than half as large in the second epoch.
fn rates(epoch: u32) -> Rates {
    let of_step = |step| 0.05 + 0.02 * (step % 5) as f32;
    (0..SAMPLES.div_ceil(BATCH)).map(|step| of_step(step) / (1 + 2 * epoch) as f32).collect()
}

/// What is left of a training.
#[derive(Clone, Debug, PartialEq)]
struct Trained {
    parameters: Parameters,
    stats: Vec<EpochStats>,
    /// The most samples from one report of progress to the next.
    most_at_once: usize,
}

/// Trains with a pause every `every` steps, if there are any.
fn train(pipeline: Pipeline, momentum: f32, every: Option<usize>) -> Trained {
    let device = Device::cpu();
    let data = dataset(SAMPLES);
    let (on_device, on_host) = (uploaded(&device, &data, 10), Samples::from(data));
    let data = match pipeline {
        Pipeline::Overlapped => TrainingSet::OnHost(&on_host),
        _ => TrainingSet::OnDevice(on_device.clone()),
    };
    let mut network = network(&device, pipeline, &[SIDE * SIDE, 24, 16, 10]);
    let (mut all, mut most_at_once) = (Vec::new(), 0);
    for epoch in 0..EPOCHS {
        let spec = EpochSpec { seed: 5, epoch, rates: rates(epoch), momentum };
        let mut stats = EpochStats::default();
        while stats.samples < SAMPLES {
            let until = every.map_or(SAMPLES, |every| stats.samples + every * BATCH);
            let mut last = stats.samples;
            let mut progress = |done| {
                most_at_once = most_at_once.max(done - last);
                last = done;
                ControlFlow::Continue(())
            };
            stats = network.train_epoch(&data, &spec, stats, until, &mut progress).unwrap();
            assert_eq!(stats.samples, until.min(SAMPLES), "{pipeline:?}");
            if stats.samples < SAMPLES {
                assert_eq!(network.divergence_ahead(&data, &spec, stats.samples).unwrap(), None);
            }
        }
        all.push(stats);
        network.evaluate(&on_device).unwrap();
    }
    assert_eq!((network.pipeline(), network.take_notice()), (pipeline, None));
    Trained { parameters: network.parameters().unwrap(), stats: all, most_at_once }
}

fn values(parameters: &Parameters) -> impl Iterator<Item = f32> {
    parameters.layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.biases)).copied()
}

#[test]
fn all_rungs_learn_the_same() {
    for momentum in [0.0, 0.5] {
        let naive = train(Pipeline::Naive, momentum, None);
        assert_eq!(naive.stats.iter().map(|stats| stats.samples).collect::<Vec<_>>(), [SAMPLES; 2]);
        let before = Parameters::init(&naive.parameters.sizes(), 7);
        let moved = values(&naive.parameters).zip(values(&before)).map(|(a, b)| (a - b).abs());
        assert!(moved.fold(0.0, f32::max) > 0.05, "the network learns nothing that could be compared");
        for &pipeline in Pipeline::value_variants().iter().filter(|&&pipeline| has(pipeline, momentum)) {
            let trained = train(pipeline, momentum, None);
            let apart =
                values(&trained.parameters).zip(values(&naive.parameters)).map(|(a, b)| (a - b).abs());
            let apart = apart.fold(0.0, f32::max);
            assert!(apart <= TOLERANCE, "{pipeline:?} with momentum {momentum}: {apart}");
            for (a, b) in trained.stats.iter().zip(&naive.stats) {
                assert!(
                    (a.loss_sum - b.loss_sum).abs() <= 1e-5 * b.loss_sum,
                    "{pipeline:?}: {a:?} and {b:?}"
                );
            }
            assert_eq!(
                trained,
                train(pipeline, momentum, None),
                "{pipeline:?}: another run gives other bits"
            );
        }
    }
}

/// Whether the rung trains with this momentum.
fn has(pipeline: Pipeline, momentum: f32) -> bool {
    momentum == 0.0 || pipeline != Pipeline::Resident
}

#[test]
fn pauses_change_nothing() {
    for &pipeline in Pipeline::value_variants() {
        let momentum = if has(pipeline, 0.5) { 0.5 } else { 0.0 };
        let Trained { parameters, stats, .. } = train(pipeline, momentum, None);
        for every in [1, 7, 30] {
            let paused = train(pipeline, momentum, Some(every));
            assert!(paused.parameters == parameters, "{pipeline:?}, every {every} steps");
            assert_eq!(paused.stats, stats, "{pipeline:?}, every {every} steps");
        }
    }
}

/// Each step separately, at one rate.
#[test]
fn rates_are_those_of_their_steps() {
    const STEPS: usize = 7;
    let device = Device::cpu();
    let data = dataset(STEPS * BATCH - 3);
    let (on_device, on_host) = (uploaded(&device, &data, 10), Samples::from(data));
    for &pipeline in Pipeline::value_variants() {
        let data = match pipeline {
            Pipeline::Overlapped => TrainingSet::OnHost(&on_host),
            _ => TrainingSet::OnDevice(on_device.clone()),
        };
        let momentum = if has(pipeline, 0.5) { 0.5 } else { 0.0 };
        let train = |rates: &dyn Fn(usize) -> Rates, every: usize| {
            let mut network = network(&device, pipeline, &[SIDE * SIDE, 24, 16, 10]);
            for epoch in 0..2 {
                let mut stats = EpochStats::default();
                for step in (0..STEPS).step_by(every) {
                    let spec = EpochSpec { seed: 5, epoch, rates: rates(step), momentum };
                    let (goes_on, until) = (&mut |_| ControlFlow::Continue(()), (step + every) * BATCH);
                    stats = network.train_epoch(&data, &spec, stats, until, goes_on).unwrap();
                }
            }
            assert_eq!(network.pipeline(), pipeline);
            network.parameters().unwrap()
        };
        let all = rates(0);
        let expected = train(&|step| all.at(step).into(), 1);
        for every in [STEPS, 3, 1] {
            assert!(train(&|_| all.clone(), every) == expected, "{pipeline:?}, every {every} steps");
        }
        assert!(
            train(&|_| all.at(0).into(), STEPS) != expected,
            "{pipeline:?}: the rates make no difference"
        );
    }
}

#[test]
fn a_graph_is_many_steps_by_one_call() {
    assert_eq!(train(Pipeline::Fused, 0.0, None).most_at_once, BATCH);
    assert_eq!(train(Pipeline::Graph, 0.0, None).most_at_once, 48 * BATCH);
    assert_eq!(train(Pipeline::Graph, 0.0, Some(7)).most_at_once, 4 * BATCH);
}

#[test]
fn rungs_with_the_kernels_of_another_give_its_bits() {
    let pairs = [
        (Pipeline::Naive, Pipeline::Deferred),
        (Pipeline::Naive, Pipeline::Overlapped),
        (Pipeline::Fused, Pipeline::Graph),
    ];
    for (a, b) in pairs {
        let [a, b] = [a, b].map(|pipeline| train(pipeline, 0.5, None));
        assert!(a.parameters == b.parameters);
        assert_eq!(a.stats, b.stats);
    }
}

#[test]
fn a_rung_that_does_not_take_a_network_gives_way() {
    let device = Device::cpu();
    let data = uploaded(&device, &dataset(40), 20).into();
    let sizes = [SIDE * SIDE, 16, 20];
    let spec = EpochSpec { seed: 0, epoch: 0, rates: 0.1.into(), momentum: 0.0 };
    let mut trained = Vec::new();
    for pipeline in [Pipeline::Deferred, Pipeline::Fused, Pipeline::Graph] {
        let mut network = network(&device, pipeline, &sizes);
        assert_eq!(network.pipeline(), Pipeline::Deferred);
        let expected = (pipeline != Pipeline::Deferred).then(|| {
            format!(
                "the pipeline {} cannot run here, and deferred runs instead: number of classes of a fused pipeline is \
                 20; it must be between 1 and 16",
                pipeline.name()
            )
        });
        assert_eq!(network.take_notice(), expected);
        assert_eq!(network.take_notice(), None);
        let goes_on = &mut |_| ControlFlow::Continue(());
        network.train_epoch(&data, &spec, EpochStats::default(), usize::MAX, goes_on).unwrap();
        trained.push(network.parameters().unwrap());
    }
    assert!(trained.iter().all(|parameters| *parameters == trained[0]));
}

/// Here since another thread records.
#[test]
fn where_nothing_can_be_recorded_steps_are_launched_one_by_one() {
    let device = Device::cpu();
    let data = uploaded(&device, &dataset(200), 10).into();
    let spec = EpochSpec { seed: 3, epoch: 0, rates: 0.1.into(), momentum: 0.0 };
    let epoch = |network: &mut Network| {
        let goes_on = &mut |_| ControlFlow::Continue(());
        network.train_epoch(&data, &spec, EpochStats::default(), usize::MAX, goes_on).unwrap();
    };
    let mut expected = network(&device, Pipeline::Fused, &[SIDE * SIDE, 16, 10]);
    epoch(&mut expected);

    let mut refused = network(&device, Pipeline::Graph, &[SIDE * SIDE, 16, 10]);
    let (barrier, on) = (Arc::new(Barrier::new(2)), device.clone());
    let of_thread = barrier.clone();
    let work = move |_: &Stream, (): &mut ()| {
        of_thread.wait();
        of_thread.wait();
        Ok::<(), DeviceError>(())
    };
    let recording = std::thread::spawn(move || on.record((), work).map(drop));
    barrier.wait();
    epoch(&mut refused);
    barrier.wait();
    recording.join().unwrap().unwrap();
    assert_eq!(refused.pipeline(), Pipeline::Fused);
    let notice = refused.take_notice().unwrap();
    assert!(notice.starts_with("the pipeline graph cannot run here, and fused runs instead: "), "{notice}");
    assert!(refused.parameters().unwrap() == expected.parameters().unwrap());
    assert_eq!(refused.take_notice(), None);
}

#[test]
fn a_graph_follows_its_network_to_other_data() {
    let device = Device::cpu();
    let spec = EpochSpec { seed: 3, epoch: 0, rates: 0.1.into(), momentum: 0.0 };
    let train = |pipeline| {
        let mut network = network(&device, pipeline, &[SIDE * SIDE, 16, 10]);
        for (samples, momentum) in [(200, 0.0), (400, 0.0), (200, 0.0), (200, 0.5)] {
            let data = uploaded(&device, &dataset(samples), 10).into();
            let (spec, goes_on) =
                (EpochSpec { momentum, ..spec.clone() }, &mut |_| ControlFlow::Continue(()));
            network.train_epoch(&data, &spec, EpochStats::default(), usize::MAX, goes_on).unwrap();
        }
        network.parameters().unwrap()
    };
    assert!(train(Pipeline::Graph) == train(Pipeline::Fused));
}

/// Samples on the host take no other way than those that are uploaded.
#[test]
fn samples_come_from_the_host_or_lie_on_the_device() {
    let device = Device::cpu();
    let data = dataset(130);
    let spec = EpochSpec { seed: 3, epoch: 4, rates: 0.1.into(), momentum: 0.5 };
    let (on_device, on_host) = (uploaded(&device, &data, 10), Samples::from(data));
    let train = |pipeline, data: &TrainingSet<'_>| {
        let mut network = network(&device, pipeline, &[SIDE * SIDE, 16, 10]);
        let goes_on = &mut |_| ControlFlow::Continue(());
        let trained = network.train_epoch(data, &spec, EpochStats::default(), usize::MAX, goes_on);
        trained.map(|stats| (stats, network.parameters().unwrap()))
    };
    let [on_device, on_host] = [TrainingSet::OnDevice(on_device), TrainingSet::OnHost(&on_host)];
    let expected = train(Pipeline::Deferred, &on_device).unwrap();
    for pipeline in [Pipeline::Naive, Pipeline::Deferred, Pipeline::Overlapped] {
        assert!(train(pipeline, &on_device).unwrap() == expected, "{pipeline:?}");
        assert!(train(pipeline, &on_host).unwrap() == expected, "{pipeline:?}");
    }
    for pipeline in [Pipeline::Fused, Pipeline::Graph] {
        let refused = train(pipeline, &on_host).unwrap_err().to_string();
        assert!(
            refused.ends_with("cannot take samples from the host; upload them to the device first"),
            "{refused}"
        );
    }
}

/// A run that stops, or fails, leaves the thread and the copies that are under way in order.
#[test]
fn an_epoch_from_the_host_can_break_off_anywhere() {
    let device = Device::cpu();
    let data = dataset(130);
    let spec = EpochSpec { seed: 3, epoch: 4, rates: 0.1.into(), momentum: 0.0 };
    let whole = {
        let mut network = network(&device, Pipeline::Overlapped, &[SIDE * SIDE, 16, 10]);
        let (samples, goes_on) = (Samples::from(data.clone()), &mut |_| ControlFlow::Continue(()));
        let data = TrainingSet::OnHost(&samples);
        network.train_epoch(&data, &spec, EpochStats::default(), usize::MAX, goes_on).unwrap();
        network.parameters().unwrap()
    };
    let samples = Samples::from(data);
    let data = TrainingSet::OnHost(&samples);
    let mut network = network(&device, Pipeline::Overlapped, &[SIDE * SIDE, 16, 10]);
    let mut stats = EpochStats::default();
    while stats.samples < 130 {
        let breaks_off = &mut |_| ControlFlow::Break(());
        let before = stats.samples;
        stats = network.train_epoch(&data, &spec, stats, usize::MAX, breaks_off).unwrap();
        assert_eq!(stats.samples, 130.min(before + BATCH));
    }
    assert!(network.parameters().unwrap() == whole);
}

#[test]
fn a_timeline_shows_what_each_rung_does() {
    let device = Device::cpu();
    let data = dataset(SAMPLES);
    let (on_device, on_host) = (uploaded(&device, &data, 10), Samples::from(data));
    let spec = EpochSpec { seed: 3, epoch: 0, rates: 0.1.into(), momentum: 0.0 };
    for &pipeline in Pipeline::value_variants() {
        let data = match pipeline {
            Pipeline::Overlapped => TrainingSet::OnHost(&on_host),
            _ => TrainingSet::OnDevice(on_device.clone()),
        };
        let mut network = network(&device, pipeline, &[SIDE * SIDE, 16, 10]);
        let goes_on = &mut |_| ControlFlow::Continue(());
        let mut epoch = |network: &mut Network| {
            network.train_epoch(&data, &spec, EpochStats::default(), usize::MAX, goes_on).unwrap();
        };
        epoch(&mut network);
        assert_eq!(network.take_timeline().unwrap(), None, "nobody asked for one");
        network.watch(8);
        epoch(&mut network);
        let timeline = network.take_timeline().unwrap().unwrap();
        let (steps, launches) = if pipeline == Pipeline::Graph { (48, 1) } else { (8, 8) };
        let (loads, copies, fetches) = match pipeline {
            Pipeline::Naive => (0, 0, 8),
            Pipeline::Overlapped => (8, 8, 0),
            _ => (0, 0, 0),
        };
        assert_eq!(timeline.steps, steps, "{pipeline:?}");
        let Timeline { load, copies: copied, fetches: fetched, kernels, host, .. } = timeline;
        let found = [load.len(), copied.len(), fetched.len(), kernels.len(), host.len()];
        assert_eq!(found, [loads, copies, fetches, launches, launches], "{pipeline:?}");
        for lane in [load, copied, fetched, kernels, host] {
            assert!(lane.iter().all(|span| span.start <= span.end), "{pipeline:?}: {lane:?}");
            assert!(lane.windows(2).all(|pair| pair[0].end <= pair[1].start), "{pipeline:?}: {lane:?}");
        }
    }
}
