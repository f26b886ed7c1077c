//! Operands of fewer bits, through the program: what has kernels for them, what a resumed run keeps, and how far the weights
//! come to lie from those of `f32`.

use std::ops::ControlFlow;

use crate::common::{Place, SIDE, digits, succeeds};
use clap::ValueEnum as _;
use cuda_std::launch::{KernelCall, LaunchError, Launcher, Limits};
use ferrowarp_device::device::Device;
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::{
    DeviceDataset, EpochSpec, EpochStats, Network, Parameters, Pipeline, Precision,
};
use ferrowarp_mnist::train::Config;

const SMALL: [&str; 8] = ["--hidden", "32,16", "--batch-size", "20", "--lr", "0.1", "--seed", "7"];

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

/// 50 steps and half a batch.
const SAMPLES: usize = 1010;
const BATCH: usize = 20;
const SIZES: [usize; 4] = [SIDE * SIDE, 24, 16, 10];

/// By how much a weight may be off after one step, which moves it by up to 0.006: a few roundings of what is multiplied, one
/// after the other, to 11 bits or of `bf16` to 8.
fn tolerance_of_a_step(precision: Precision) -> f64 {
    let bits = if precision == Precision::Bf16 { 8 } else { 11 };
    4.0 * 0.006 / f64::from(1 << bits)
}

/// How far the weights may lie from those of `naive` in `f32` after [`SAMPLES`], in the mean square. That is about 1/30 of
/// the way they have gone; most of it is of units that a sample hardly reached and reaches no more.
const TOLERANCE: f64 = 4e-4;

/// The weights and the mean loss after `until` samples of an epoch, or after all of them.
fn train(pipeline: Pipeline, precision: Precision, until: usize) -> (Vec<f32>, f64) {
    let device = Device::cpu();
    let (images, labels) = digits(SAMPLES, 1);
    let data = DeviceDataset::upload(&device, &images, &labels, SIDE * SIDE, 10).unwrap();
    let start = Parameters::init(&SIZES, 7);
    let batch_size = BatchSize::new(BATCH as u64).unwrap();
    let mut network = Network::new(&device, &start, pipeline, precision, batch_size).unwrap();
    let spec = EpochSpec { seed: 5, epoch: 0, rates: 0.1.into(), momentum: 0.0 };
    let goes_on = &mut |_| ControlFlow::Continue(());
    let stats = network.train_epoch(&data.into(), &spec, EpochStats::default(), until, goes_on).unwrap();
    assert_eq!((network.pipeline(), network.take_notice()), (pipeline, None));
    let layers = network.parameters().unwrap().layers;
    let weights = layers.into_iter().flat_map(|layer| [layer.weights, layer.biases].concat());
    (weights.collect(), stats.loss())
}

/// The root of the mean square of what they differ by.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    assert_eq!(a.len(), b.len());
    let squares: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

/// The rungs that train with this precision themselves.
fn rungs(precision: Precision) -> impl Iterator<Item = Pipeline> {
    let is_resident = |pipeline| pipeline == Pipeline::Resident;
    let has = move |pipeline: &Pipeline| {
        pipeline.has(precision) && (!is_resident(*pipeline) || precision == Precision::F16)
    };
    Pipeline::value_variants().iter().copied().filter(has)
}

#[test]
fn each_precision_learns_nearly_the_same_and_its_own_bits() {
    let exact = [BATCH, SAMPLES].map(|until| train(Pipeline::Naive, Precision::F32, until));
    for precision in [Precision::Tf32, Precision::Bf16, Precision::F16] {
        for pipeline in rungs(precision) {
            let [(first, _), (weights, loss)] =
                [BATCH, SAMPLES].map(|until| train(pipeline, precision, until));
            let of_step = first.iter().zip(&exact[0].0).map(|(a, b)| f64::from((a - b).abs()));
            let of_step = of_step.fold(0.0, f64::max);
            let (far, of_loss) = (apart(&weights, &exact[1].0), (loss - exact[1].1).abs() / loss);
            println!("{pipeline:?}, {precision}: off by {of_step:e}, then {far:e}, the loss by {of_loss:e}");
            assert!(of_step <= tolerance_of_a_step(precision), "{pipeline:?}, {precision}: {of_step}");
            assert!(far <= TOLERANCE, "{pipeline:?}, {precision}: {far}");
            assert!(of_loss <= 1e-3, "{pipeline:?}, {precision}: {of_loss}");
            let of_f32 = train(pipeline, Precision::F32, SAMPLES).0;
            assert!(of_f32 != weights, "{pipeline:?} does not round to {precision}");
            assert!(
                train(pipeline, precision, SAMPLES).0 == weights,
                "{pipeline:?}, {precision}: other bits"
            );
        }
    }
}

#[test]
fn a_graph_gives_the_bits_of_its_steps() {
    for precision in [Precision::Tf32, Precision::Bf16, Precision::F16] {
        assert!(
            train(Pipeline::Graph, precision, SAMPLES) == train(Pipeline::Fused, precision, SAMPLES),
            "{precision}"
        );
    }
}

/// A weight that `f32` holds and `f16` does not makes a loss that no step goes on from.
#[test]
fn a_number_too_large_for_f16_is_a_divergence() {
    let device = Device::cpu();
    let (images, labels) = digits(40, 3);
    let data = DeviceDataset::upload(&device, &images, &labels, SIDE * SIDE, 10).unwrap().into();
    let mut start = Parameters::init(&[SIDE * SIDE, 16, 8, 10], 7);
    // A part of the images has 0 at the first pixel: 0 times infinity is neither.
    start.layers[0].weights[3] = 1e5;
    let spec = EpochSpec { seed: 5, epoch: 0, rates: 0.1.into(), momentum: 0.0 };
    let batch_size = BatchSize::new(40).unwrap();
    for (precision, diverges) in [(Precision::Bf16, false), (Precision::Tf32, false), (Precision::F16, true)]
    {
        let mut network = Network::new(&device, &start, Pipeline::Fused, precision, batch_size).unwrap();
        let ahead = network.divergence_ahead(&data, &spec, 0).unwrap();
        assert_eq!(ahead.is_some(), diverges, "{precision}: {ahead:?}");
    }
}

#[test]
fn many_classes_are_refused_where_only_a_rung_of_f32_has_them() {
    let start = Parameters::init(&[SIDE * SIDE, 16, 20], 7);
    for pipeline in [Pipeline::Fused, Pipeline::Graph, Pipeline::Resident] {
        let made = Network::new(&Device::cpu(), &start, pipeline, Precision::Bf16, BatchSize::DEFAULT);
        let says = made.unwrap_err().to_string();
        let needles = ["precision bf16", "deferred, which would run instead", "20; it must be"];
        assert!(needles.iter().all(|needle| says.contains(needle)), "{says}");
        assert!(says.ends_with("; train with f32"), "{says}");
    }
    let naive = Network::new(&Device::cpu(), &start, Pipeline::Naive, Precision::F16, BatchSize::DEFAULT);
    let says = naive.unwrap_err().to_string();
    assert!(says.ends_with("train with f32, or with one of the pipelines fused, graph, resident"), "{says}");
}

#[test]
fn a_device_without_such_kernels_is_refused() {
    struct Nowhere;
    impl Launcher for Nowhere {
        unsafe fn submit(&self, _: &KernelCall<'_>) -> Result<(), LaunchError> {
            unreachable!("nothing is launched")
        }
    }
    let limits = Limits { capability: 75, runs_cpu_only: false, ..Limits::default() };
    let device = Device::with_launcher(Nowhere, limits);
    let start = Parameters::init(&[SIDE * SIDE, 16, 10], 7);
    let make = |precision| Network::new(&device, &start, Pipeline::Fused, precision, BatchSize::DEFAULT);
    assert!(make(Precision::F32).is_ok());
    let says = make(Precision::Tf32).unwrap_err().to_string();
    let needles = ["precision tf32", "need compute capability 8.0", "this device has 7.5", "with f32"];
    assert!(needles.iter().all(|needle| says.contains(needle)), "{says}");
}

#[test]
fn what_the_resident_rung_does_not_have_the_fused_one_does() {
    let place = Place::with_idx();
    let unfit: [(&str, &[&str], &str); 3] = [
        ("bf16", &[], "it has no kernels for the precision bf16"),
        ("tf32", &[], "it has no kernels for the precision tf32"),
        ("f16", &["--momentum", "0.5"], "the momentum is 0.5, but it takes only 0"),
    ];
    for (precision, more, why) in unfit {
        let of = |pipeline| {
            [&flags(&["--epochs", "1", "--precision", precision, "--pipeline", pipeline]), more].concat()
        };
        let output = place.train(&[&of("resident"), &["--save", "resident"][..]].concat()).output().unwrap();
        let warned = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{warned}");
        let says = format!("the pipeline resident cannot run here, and fused runs instead: {why}");
        assert!(warned.contains(&says), "{warned}");
        succeeds(place.train(&[&of("fused"), &["--save", "fused"][..]].concat()));
        let [resident, fused] =
            ["resident", "fused"].map(|name| checkpoint::load(&place.path(name)).unwrap());
        assert!(resident.parameters == fused.parameters, "{precision}");
    }
}

#[test]
fn rungs_without_such_kernels_are_refused_before_anything_is_written() {
    let place = Place::with_idx();
    for pipeline in ["naive", "deferred", "overlapped"] {
        for precision in ["tf32", "bf16", "f16"] {
            let settings = ["--pipeline", pipeline, "--precision", precision, "--save", "w"];
            let says =
                format!("--precision {precision} cannot be used: the pipeline {pipeline} has no kernels");
            place.refuses(place.train(&flags(&settings)), &[&says, "choose f32, or with --pipeline one of"]);
        }
    }
    place.refuses(
        place.train(&flags(&["--precision", "f8", "--save", "w"])),
        &["'f8' for '--precision", "f32", "tf32", "bf16", "f16"],
    );
}

#[test]
fn the_weights_name_their_precision_and_a_resumed_run_keeps_it() {
    let place = Place::with_idx();
    let of = |more: &[&str]| {
        succeeds(place.train(&flags(&[&["--pipeline", "resident", "--precision", "f16"], more].concat())))
    };
    of(&["--epochs", "2", "--save", "whole"]);
    assert_eq!(checkpoint::load(&place.path("whole")).unwrap().training.unwrap().precision, "f16");
    of(&["--epochs", "1", "--checkpoint", "c", "--checkpoint-every", "9"]);
    succeeds(place.train(&["--resume", "c", "--epochs", "2", "--save", "parts"]));
    assert!(place.read("whole") == place.read("parts"), "a resumed run rounds otherwise");
    let mut found = checkpoint::newest(&place.path("c")).unwrap();
    assert_eq!(Config::of_run(&found).unwrap().precision, Precision::F16);
    found.snapshot.training.precision = "f8".to_owned();
    let says = Config::of_run(&found).unwrap_err().to_string();
    assert!(
        says.contains("--precision f8") && says.contains("this program does not have the precision"),
        "{says}"
    );
    let needles = ["--precision f32 cannot be used to resume from", "whose run has f16"];
    place.refuses(place.train(&["--resume", "c", "--precision", "f32"]), &needles);
}
