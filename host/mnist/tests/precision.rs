//! Operands of fewer bits, through the program: what has kernels for them, what a resumed run keeps, and how far the weights
//! come to lie from those of `f32`.

mod common;

use std::ops::ControlFlow;

use clap::ValueEnum as _;
use common::{Place, SIDE, digits, succeeds};
use ferrowarp::device::Device;
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::{
    DeviceDataset, EpochSpec, EpochStats, Network, Parameters, Pipeline, Precision,
};

const SMALL: [&str; 8] = ["--hidden", "32,16", "--batch-size", "20", "--lr", "0.1", "--seed", "7"];

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

/// 50 steps and half a batch.
const SAMPLES: usize = 1010;
const BATCH: usize = 20;

/// By how much weights may differ from those of `naive` in `f32` after an epoch of [`SAMPLES`], of which each step rounds
/// what it multiplies: numbers of 11 bits by one part in 2^11, those of 8 by one in 2^8. The weights move by about 0.1.
fn tolerance(precision: Precision) -> f32 {
    match precision {
        Precision::F32 => 0.0,
        Precision::Tf32 | Precision::F16 => 1e-3,
        Precision::Bf16 => 8e-3,
    }
}

/// The weights and the mean loss after an epoch.
fn train(pipeline: Pipeline, precision: Precision) -> (Vec<f32>, f64) {
    let device = Device::cpu();
    let (images, labels) = digits(SAMPLES, 1);
    let data = DeviceDataset::upload(&device, &images, &labels, SIDE * SIDE, 10).unwrap();
    let start = Parameters::init(&[SIDE * SIDE, 24, 16, 10], 7);
    let batch_size = BatchSize::new(BATCH as u64).unwrap();
    let mut network = Network::new(&device, &start, pipeline, precision, batch_size).unwrap();
    let spec = EpochSpec { seed: 5, epoch: 0, lr: 0.1, momentum: 0.0 };
    let goes_on = &mut |_| ControlFlow::Continue(());
    let stats = network.train_epoch(&data.into(), &spec, EpochStats::default(), usize::MAX, goes_on).unwrap();
    assert_eq!((network.pipeline(), network.take_notice()), (pipeline, None));
    let layers = network.parameters().unwrap().layers;
    let weights = layers.into_iter().flat_map(|layer| [layer.weights, layer.biases].concat());
    (weights.collect(), stats.loss())
}

/// The largest difference.
fn apart(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len());
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

/// The rungs that train with this precision themselves.
fn rungs(precision: Precision) -> impl Iterator<Item = Pipeline> {
    let has = move |pipeline: &Pipeline| pipeline.has(precision);
    Pipeline::value_variants().iter().copied().filter(has)
}

#[test]
fn each_precision_learns_nearly_the_same_and_its_own_bits() {
    let (exact, loss) = train(Pipeline::Naive, Precision::F32);
    for precision in [Precision::Tf32, Precision::Bf16, Precision::F16] {
        for pipeline in rungs(precision) {
            let (weights, of) = train(pipeline, precision);
            let far = apart(&weights, &exact);
            println!("{pipeline:?} {precision}: weights {far:e} apart, losses {:e}", (of - loss).abs());
            assert!(far <= tolerance(precision), "{pipeline:?} with {precision}: {far}");
            assert!(
                train(pipeline, Precision::F32).0 != weights,
                "{pipeline:?} does not round to {precision}"
            );
            assert!((of - loss).abs() <= 1e-2 * loss, "{pipeline:?} with {precision}: {of}, not {loss}");
            assert!(train(pipeline, precision).0 == weights, "{pipeline:?}, {precision}: other bits");
        }
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
    let needles = ["--precision f32 cannot be used to resume from", "whose run has f16"];
    place.refuses(place.train(&["--resume", "c", "--precision", "f32"]), &needles);
}
