//! Every rung of the training ladder trains the same function, and gives its own bits on every run.

use std::ops::ControlFlow;
use std::sync::{Arc, Barrier};

use crate::common::SIDE;
use crate::common::networks::{
    Data, SIZES, epoch, largest_difference, momentum_of, network, pipelines, spec,
};
use ferrowarp_device::device::{Device, DeviceError, Stream};
use ferrowarp_mnist::model::{EpochStats, Parameters, Pipeline, Rates, Timeline, TrainingSet};

/// 20 steps and half a batch.
const SAMPLES: usize = 410;
const BATCH: usize = 20;

/// The largest difference between the weights of two rungs after 42 steps, by rounding alone: sums of up to 784 terms of up
/// to 1, added in different orders.
const TOLERANCE: f32 = 2e-5;

/// Rates that differ from step to step, and are less than half as large in the second epoch.
fn rates(epoch: u32) -> Rates {
    let of_step = |step| 0.05 + 0.02 * (step % 5) as f32;
    (0..SAMPLES.div_ceil(BATCH)).map(|step| of_step(step) / (1 + 2 * epoch) as f32).collect()
}

/// The results of two epochs.
#[derive(Clone, Debug, PartialEq)]
struct Trained {
    parameters: Parameters,
    stats: Vec<EpochStats>,
    /// The most samples between two reports of progress.
    most_at_once: usize,
}

/// Trains with a pause every `every` steps, if there are any.
fn train(pipeline: Pipeline, momentum: f32, every: Option<usize>) -> Trained {
    let device = Device::cpu();
    let data = Data::new(&device, SAMPLES);
    let (samples, mut network) = (data.of(pipeline), network(&device, pipeline, &SIZES, BATCH));
    let (mut all, mut most_at_once) = (Vec::new(), 0);
    for epoch in 0..2 {
        let spec = spec(epoch, rates(epoch), momentum);
        let mut stats = EpochStats::default();
        while stats.samples < SAMPLES {
            let until = every.map_or(SAMPLES, |every| stats.samples + every * BATCH);
            let mut last = stats.samples;
            let mut progress = |done| {
                most_at_once = most_at_once.max(done - last);
                last = done;
                ControlFlow::Continue(())
            };
            stats = network.train_epoch(&samples, &spec, stats, until, &mut progress).unwrap();
            assert_eq!(stats.samples, until.min(SAMPLES), "{pipeline:?}");
            if stats.samples < SAMPLES {
                assert_eq!(network.divergence_ahead(&samples, &spec, stats.samples).unwrap(), None);
            }
        }
        all.push(stats);
        network.evaluate(&data.on_device).unwrap();
    }
    assert_eq!((network.pipeline(), network.take_notice()), (pipeline, None));
    Trained { parameters: network.parameters().unwrap(), stats: all, most_at_once }
}

#[test]
fn all_rungs_learn_the_same() {
    for momentum in [0.0, 0.5] {
        let naive = train(Pipeline::Naive, momentum, None);
        let moved = largest_difference(&naive.parameters, &Parameters::init(&SIZES, 7));
        assert!(moved > 0.05, "the network learns nothing that could be compared");
        for pipeline in pipelines().filter(|&pipeline| momentum <= momentum_of(pipeline)) {
            let trained = train(pipeline, momentum, None);
            let apart = largest_difference(&trained.parameters, &naive.parameters);
            assert!(apart <= TOLERANCE, "{pipeline:?} with momentum {momentum}: {apart}");
            for (a, b) in trained.stats.iter().zip(&naive.stats) {
                let apart = (a.loss_sum - b.loss_sum).abs();
                assert!(apart <= 1e-5 * b.loss_sum, "{pipeline:?}: {a:?} and {b:?}");
            }
            assert_eq!(
                trained,
                train(pipeline, momentum, None),
                "{pipeline:?}: another run gives other bits"
            );
        }
    }
}

#[test]
fn pauses_change_nothing() {
    for pipeline in pipelines() {
        let momentum = momentum_of(pipeline);
        let Trained { parameters, stats, .. } = train(pipeline, momentum, None);
        for every in [1, 7, 15] {
            let paused = train(pipeline, momentum, Some(every));
            assert!(paused.parameters == parameters, "{pipeline:?}, every {every} steps");
            assert_eq!(paused.stats, stats, "{pipeline:?}, every {every} steps");
        }
    }
}

/// Compares with single steps, each at one rate.
#[test]
fn each_step_has_its_rate() {
    const STEPS: usize = 7;
    let device = Device::cpu();
    let data = Data::new(&device, STEPS * BATCH - 3);
    for pipeline in pipelines() {
        let train = |rates: &dyn Fn(usize) -> Rates, every: usize| {
            let mut network = network(&device, pipeline, &SIZES, BATCH);
            for epoch in 0..2 {
                let mut stats = EpochStats::default();
                for step in (0..STEPS).step_by(every) {
                    let spec = spec(epoch, rates(step), momentum_of(pipeline));
                    let (progress, until) = (&mut |_| ControlFlow::Continue(()), (step + every) * BATCH);
                    stats = network.train_epoch(&data.of(pipeline), &spec, stats, until, progress).unwrap();
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
    assert_eq!(train(Pipeline::Graph, 0.0, None).most_at_once, 18 * BATCH);
    assert_eq!(train(Pipeline::Graph, 0.0, Some(7)).most_at_once, 4 * BATCH);
}

#[test]
fn rungs_with_the_kernels_of_another_give_its_bits() {
    for (a, b) in [
        (Pipeline::Naive, Pipeline::Deferred),
        (Pipeline::Naive, Pipeline::Overlapped),
        (Pipeline::Fused, Pipeline::Graph),
    ] {
        let [a, b] = [a, b].map(|pipeline| train(pipeline, 0.5, None));
        assert!(a.parameters == b.parameters);
        assert_eq!(a.stats, b.stats);
    }
}

#[test]
fn a_rung_that_does_not_take_a_network_gives_way() {
    let device = Device::cpu();
    let data = Data::with_classes(&device, 40, 20).on_device.into();
    let mut trained = Vec::new();
    for pipeline in [Pipeline::Deferred, Pipeline::Fused, Pipeline::Graph] {
        let mut network = network(&device, pipeline, &[SIDE * SIDE, 16, 20], BATCH);
        assert_eq!(network.pipeline(), Pipeline::Deferred);
        let expected = (pipeline != Pipeline::Deferred).then(|| {
            format!(
                "the pipeline {} cannot run here, and deferred runs instead: number of classes of a fused pipeline is \
                 20; it must be between 1 and 16",
                pipeline.name()
            )
        });
        assert_eq!([network.take_notice(), network.take_notice()], [expected, None]);
        epoch(&mut network, &data, &spec(0, 0.1, 0.0));
        trained.push(network.parameters().unwrap());
    }
    assert!(trained.iter().all(|parameters| *parameters == trained[0]));
}

/// Another thread records at the same time.
#[test]
fn where_nothing_can_be_recorded_steps_are_launched_one_by_one() {
    let device = Device::cpu();
    let (data, spec) = (Data::new(&device, 200).on_device.into(), spec(0, 0.1, 0.0));
    let [mut expected, mut refused] =
        [Pipeline::Fused, Pipeline::Graph].map(|pipeline| network(&device, pipeline, &SIZES, BATCH));
    epoch(&mut expected, &data, &spec);

    let (barrier, on) = (Arc::new(Barrier::new(2)), device.clone());
    let of_thread = barrier.clone();
    let work = move |_: &Stream, (): &mut ()| {
        of_thread.wait();
        of_thread.wait();
        Ok::<(), DeviceError>(())
    };
    let recording = std::thread::spawn(move || on.record((), work).map(drop));
    barrier.wait();
    epoch(&mut refused, &data, &spec);
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
    let train = |pipeline| {
        let mut network = network(&device, pipeline, &SIZES, BATCH);
        for (samples, momentum) in [(200, 0.0), (400, 0.0), (200, 0.0), (200, 0.5)] {
            epoch(&mut network, &Data::new(&device, samples).on_device.into(), &spec(0, 0.1, momentum));
        }
        network.parameters().unwrap()
    };
    assert!(train(Pipeline::Graph) == train(Pipeline::Fused));
}

#[test]
fn samples_may_be_on_the_host_or_on_the_device() {
    let device = Device::cpu();
    let (data, spec) = (Data::new(&device, 130), spec(4, 0.1, 0.5));
    let train = |pipeline, data: &TrainingSet<'_>| {
        let mut network = network(&device, pipeline, &SIZES, BATCH);
        let progress = &mut |_| ControlFlow::Continue(());
        let trained = network.train_epoch(data, &spec, EpochStats::default(), usize::MAX, progress);
        trained.map(|stats| (stats, network.parameters().unwrap()))
    };
    let [on_device, on_host] =
        [TrainingSet::OnDevice(data.on_device.clone()), TrainingSet::OnHost(&data.on_host)];
    let expected = train(Pipeline::Deferred, &on_device).unwrap();
    for pipeline in [Pipeline::Naive, Pipeline::Deferred, Pipeline::Overlapped] {
        assert!(train(pipeline, &on_device).unwrap() == expected, "{pipeline:?}");
        assert!(train(pipeline, &on_host).unwrap() == expected, "{pipeline:?}");
    }
    for pipeline in [Pipeline::Fused, Pipeline::Graph] {
        let refused = train(pipeline, &on_host).unwrap_err().to_string();
        let cure = "cannot take samples from the host; upload them to the device first";
        assert!(refused.ends_with(cure), "{refused}");
    }
}

/// A run that stops leaves the thread and the pending copies in order.
#[test]
fn an_epoch_from_the_host_can_stop_after_any_step() {
    let device = Device::cpu();
    let (data, spec) = (Data::new(&device, 130), spec(4, 0.1, 0.0));
    let samples = TrainingSet::OnHost(&data.on_host);
    let [mut whole, mut parts] = [(); 2].map(|()| network(&device, Pipeline::Overlapped, &SIZES, BATCH));
    epoch(&mut whole, &samples, &spec);
    let mut stats = EpochStats::default();
    while stats.samples < 130 {
        let before = stats.samples;
        let progress = &mut |_| ControlFlow::Break(());
        stats = parts.train_epoch(&samples, &spec, stats, usize::MAX, progress).unwrap();
        assert_eq!(stats.samples, 130.min(before + BATCH));
    }
    assert!(parts.parameters().unwrap() == whole.parameters().unwrap());
}

#[test]
fn a_timeline_shows_what_each_rung_does() {
    let device = Device::cpu();
    let (data, spec) = (Data::new(&device, SAMPLES), spec(0, 0.1, 0.0));
    for pipeline in pipelines() {
        let samples = data.of(pipeline);
        let mut network = network(&device, pipeline, &[SIDE * SIDE, 16, 10], BATCH);
        epoch(&mut network, &samples, &spec);
        assert_eq!(network.take_timeline().unwrap(), None, "none was requested");
        network.watch(8);
        epoch(&mut network, &samples, &spec);
        let timeline = network.take_timeline().unwrap().unwrap();
        let (steps, launches) = if pipeline == Pipeline::Graph { (18, 1) } else { (8, 8) };
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
