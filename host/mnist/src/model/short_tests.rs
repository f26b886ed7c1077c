//! Compares steps with three launches and with five, on the CPU, where five are the default.

use std::ops::ControlFlow;

use super::ops::short::Short;
use super::{
    DeviceDataset, EpochSpec, EpochStats, KernelWork, Network, Parameters, Pipeline, Precision, Trained,
    TrainingSet,
};
use crate::BatchSize;
use ferrowarp_device::device::Device;

const SIZES: [usize; 4] = [20, 24, 16, 10];

/// Returns parameters and losses after two epochs of 5 steps and a short one.
fn trained(pipeline: Pipeline, is_short: bool, momentum: f32) -> (Parameters, Vec<EpochStats>) {
    const SAMPLES: usize = 33;
    let device = Device::cpu();
    let images: Vec<u8> = (0..SAMPLES * SIZES[0]).map(|i| (i * 7919 % 251) as u8).collect();
    let labels: Vec<u8> = (0..SAMPLES).map(|i| (i * i % 10) as u8).collect();
    let data = DeviceDataset::upload(&device, &images, &labels, SIZES[0], 10).unwrap();
    let (data, batch_size) = (TrainingSet::OnDevice(data), BatchSize::new(6).unwrap());
    let parameters = Parameters::init(&SIZES, 7);
    let mut network = Network::new(&device, &parameters, pipeline, Precision::F32, batch_size).unwrap();
    assert!(!network.is_short());
    if is_short {
        let short = Short::new(&device, &network.core.lock().layers, network.setup).unwrap();
        network.core.lock().short = short;
        assert!(network.is_short());
    }
    let epochs = (0..2).map(|epoch| {
        let rates = (1..7).map(|step| 0.03 * step as f32).collect();
        let spec = EpochSpec { seed: 5, epoch, rates, momentum };
        let mut go_on = |_| ControlFlow::Continue(());
        network.train_epoch(&data, &spec, EpochStats::default(), usize::MAX, &mut go_on).unwrap()
    });
    let epochs = epochs.collect();
    (network.parameters().unwrap(), epochs)
}

#[test]
fn short_steps_learn_what_others_do() {
    for momentum in [0.0, 0.5] {
        let (long, long_epochs) = trained(Pipeline::Fused, false, momentum);
        let (short, epochs) = trained(Pipeline::Fused, true, momentum);
        for (a, b) in short.layers.iter().zip(&long.layers) {
            let pairs = a.weights.iter().zip(&b.weights).chain(a.biases.iter().zip(&b.biases));
            let apart = pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(apart < 1e-6, "momentum {momentum}: {apart}");
        }
        for (a, b) in epochs.iter().zip(&long_epochs) {
            assert_eq!((a.samples, a.correct), (b.samples, b.correct));
            assert!((a.loss_sum - b.loss_sum).abs() < 1e-5 * b.loss_sum, "{a:?} and {b:?}");
        }
        // The bits are the same in each run and in a graph.
        for pipeline in [Pipeline::Fused, Pipeline::Graph] {
            assert_eq!(trained(pipeline, true, momentum), (short.clone(), epochs.clone()), "{pipeline:?}");
        }
    }
}

#[test]
fn only_small_networks_in_f32_take_short_steps() {
    let device = Device::cpu();
    let fits = |sizes: &[usize], precision, batch| {
        let batch_size = BatchSize::new(batch).unwrap();
        let parameters = Parameters::init(sizes, 7);
        let network = Network::new(&device, &parameters, Pipeline::Fused, precision, batch_size).unwrap();
        let core = network.core.lock();
        Short::new(&device, &core.layers, network.setup).unwrap().is_some()
    };
    assert!(fits(&[784, 300, 100, 10], Precision::F32, 64));
    assert!(!fits(&[784, 300, 100, 10], Precision::F32, 65));
    assert!(!fits(&[784, 300, 100, 10], Precision::Tf32, 64));
    assert!(!fits(&[784, 301, 100, 10], Precision::F32, 64));
    assert!(!fits(&[784, 300, 99, 10], Precision::F32, 64));
    assert!(!fits(&[833, 300, 100, 10], Precision::F32, 64));
    assert!(!fits(&[784, 300, 10], Precision::F32, 64));
}

#[test]
fn a_short_step_computes_what_a_long_one_does() {
    let sizes = [784, 300, 100, 10];
    let [short, long] = [true, false].map(|is_short| {
        let trained = Trained { sizes: &sizes, has_momentum: false, is_short };
        KernelWork::of_step(Pipeline::Fused, trained, [64, 64])
    });
    let flop = |work: &[KernelWork]| work.iter().map(|kernel| kernel.flop).sum::<u64>();
    assert_eq!(short.iter().map(|kernel| kernel.launches).sum::<u64>(), 3);
    assert_eq!(flop(&short), flop(&long));
}
