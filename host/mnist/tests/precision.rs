//! Operands with fewer bits: which pipelines have kernels for them, what a resumed run keeps, and how far the weights are
//! from those of `f32`.

use std::ops::ControlFlow;

use crate::common::networks::{Data, SIZES, pipelines, spec, values};
use crate::common::{Place, SIDE, succeeds, words};
use cuda_std::launch::{KernelCall, LaunchError, Launcher, Limits};
use ferrowarp_device::device::Device;
use ferrowarp_mnist::BatchSize;
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::{EpochStats, Network, Parameters, Pipeline, Precision};
use ferrowarp_mnist::train::Config;

const SMALL: &str = "--hidden 32,16 --batch-size 20 --lr 0.1 --seed 7";

/// 50 steps and half a batch.
const SAMPLES: usize = 1010;
const BATCH: usize = 20;

/// The largest error of a weight after one step, which moves it by up to 0.006: a few roundings, one after the other, to 11
/// bits or for `bf16` to 8.
fn tolerance_of_a_step(precision: Precision) -> f64 {
    let bits = if precision == Precision::Bf16 { 8 } else { 11 };
    4.0 * 0.006 / f64::from(1 << bits)
}

/// The largest distance of the weights from those of `naive` in `f32` after [`SAMPLES`], as the root of the mean square. It
/// is about 1/30 of the distance that they have moved. Most of it is from units that a sample hardly reached.
const TOLERANCE: f64 = 4e-4;

/// The weights and the mean loss after `until` samples of an epoch.
fn train(pipeline: Pipeline, precision: Precision, until: usize) -> (Vec<f32>, f64) {
    let device = Device::cpu();
    let (data, start) = (Data::new(&device, SAMPLES).on_device.into(), Parameters::init(&SIZES, 7));
    let batch_size = BatchSize::new(BATCH as u64).unwrap();
    let mut network = Network::new(&device, &start, pipeline, precision, batch_size).unwrap();
    let progress = &mut |_| ControlFlow::Continue(());
    let stats =
        network.train_epoch(&data, &spec(0, 0.1, 0.0), EpochStats::default(), until, progress).unwrap();
    assert_eq!((network.pipeline(), network.take_notice()), (pipeline, None));
    (values(&network.parameters().unwrap()), stats.loss())
}

/// The root of the mean square of the differences.
fn apart(a: &[f32], b: &[f32]) -> f64 {
    let squares: Vec<f64> = a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).collect();
    (squares.iter().sum::<f64>() / squares.len() as f64).sqrt()
}

#[test]
fn each_precision_learns_nearly_the_same_and_its_own_bits() {
    let exact = [BATCH, SAMPLES].map(|until| train(Pipeline::Naive, Precision::F32, until));
    for precision in [Precision::Tf32, Precision::Bf16, Precision::F16] {
        let has = |pipeline: &Pipeline| {
            pipeline.has(precision) && (*pipeline != Pipeline::Resident || precision == Precision::F16)
        };
        for pipeline in pipelines().filter(has) {
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
            let again = train(pipeline, precision, SAMPLES);
            assert!(again.0 == weights, "{pipeline:?}, {precision}: other bits");
            if pipeline == Pipeline::Graph {
                assert!(
                    again == train(Pipeline::Fused, precision, SAMPLES),
                    "{precision}: other bits than its steps"
                );
            }
        }
    }
}

/// A weight that `f32` holds and `f16` does not gives an infinite loss.
#[test]
fn a_number_too_large_for_f16_is_a_divergence() {
    let device = Device::cpu();
    let data = Data::new(&device, 40).on_device.into();
    let mut start = Parameters::init(&SIZES, 7);
    start.layers[0].weights[3] = 1e5;
    let batch_size = BatchSize::new(40).unwrap();
    for (precision, diverges) in [(Precision::Bf16, false), (Precision::Tf32, false), (Precision::F16, true)]
    {
        let mut network = Network::new(&device, &start, Pipeline::Fused, precision, batch_size).unwrap();
        let ahead = network.divergence_ahead(&data, &spec(0, 0.1, 0.0), 0).unwrap();
        assert_eq!(ahead.is_some(), diverges, "{precision}: {ahead:?}");
    }
}

struct Nowhere;

impl Launcher for Nowhere {
    unsafe fn submit(&self, _: &KernelCall<'_>) -> Result<(), LaunchError> {
        unreachable!("nothing is launched")
    }
}

#[test]
fn networks_and_devices_without_such_kernels_are_refused() {
    let refusal = |device: &Device, outputs: usize, pipeline, precision| {
        let start = Parameters::init(&[SIDE * SIDE, 16, outputs], 7);
        Network::new(device, &start, pipeline, precision, BatchSize::DEFAULT).unwrap_err().to_string()
    };
    let cpu = Device::cpu();
    for pipeline in [Pipeline::Fused, Pipeline::Graph, Pipeline::Resident] {
        let says = refusal(&cpu, 20, pipeline, Precision::Bf16);
        for needle in
            ["precision bf16", "deferred, which would run instead", "20; it must be", "; train with f32"]
        {
            assert!(says.contains(needle), "{says}");
        }
    }
    let says = refusal(&cpu, 20, Pipeline::Naive, Precision::F16);
    assert!(says.ends_with("train with f32, or with one of the pipelines fused, graph, resident"), "{says}");

    let limits = Limits { capability: 75, runs_cpu_only: false, ..Limits::default() };
    let says = refusal(&Device::with_launcher(Nowhere, limits), 10, Pipeline::Fused, Precision::Tf32);
    for needle in ["precision tf32", "need compute capability 8.0", "this device has 7.5", "with f32"] {
        assert!(says.contains(needle), "{says}");
    }
}

#[test]
fn the_weights_name_their_precision_and_a_resumed_run_keeps_it() {
    let place = Place::with_idx();
    let train = |more: &str| {
        succeeds(place.train(&words(&format!("{SMALL} --pipeline resident --precision f16 {more}"))));
    };
    train("--epochs 2 --save whole");
    assert_eq!(checkpoint::load(&place.path("whole")).unwrap().training.unwrap().precision, "f16");
    train("--epochs 1 --checkpoint c --checkpoint-every 9");
    succeeds(place.train(&words("--resume c --epochs 2 --save parts")));
    assert!(place.read("whole") == place.read("parts"), "a resumed run rounds otherwise");
    let mut found = checkpoint::newest(&place.path("c")).unwrap();
    assert_eq!(Config::of_run(&found).unwrap().precision, Precision::F16);
    found.snapshot.training.precision = "f8".to_owned();
    let says = Config::of_run(&found).unwrap_err().to_string();
    let needle = "this program does not have the precision";
    assert!(says.contains("--precision f8") && says.contains(needle), "{says}");
}
