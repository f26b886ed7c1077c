//! What a step of each rung takes from the parameters, against finite differences of the loss in `f64`, which shares
//! nothing with the kernels and their oracles.

use crate::common::networks::{Data, epoch, network, pipelines, spec};
use crate::common::{SIDE, digits};
use ferrowarp_device::device::Device;
use ferrowarp_mnist::model::Parameters;

const SAMPLES: usize = 13;
const SIZES: [usize; 4] = [SIDE * SIDE, 9, 7, 10];

/// By how much a gradient may be off: a parameter of up to 0.4 is rounded when it is taken from, and sums of up to 784
/// terms of up to 0.1.
const TOLERANCE: f64 = 1e-6;

/// The parameters as `f64`: of each layer the weights, then the biases.
type Layers = Vec<[Vec<f64>; 2]>;

fn layers(parameters: &Parameters) -> Layers {
    let of = |numbers: &[f32]| numbers.iter().map(|&x| f64::from(x)).collect();
    parameters.layers.iter().map(|layer| [of(&layer.weights), of(&layer.biases)]).collect()
}

/// The mean loss of the samples, of whose targets the share `smoothing` is spread over all classes.
fn loss(layers: &Layers, (images, labels, smoothing): (&[u8], &[u8], f64)) -> f64 {
    let of_sample = |(image, &label): (&[u8], &u8)| {
        let mut values: Vec<f64> = image.iter().map(|&pixel| f64::from(pixel) / 255.0).collect();
        for (l, [weights, biases]) in layers.iter().enumerate() {
            let mut sums = biases.clone();
            for (value, row) in values.iter().zip(weights.chunks(biases.len())) {
                sums.iter_mut().zip(row).for_each(|(sum, weight)| *sum += value * weight);
            }
            let is_last = l + 1 == layers.len();
            values = sums.into_iter().map(|x| if is_last { x } else { x.max(0.0) }).collect();
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let of_target = (1.0 - smoothing) * values[usize::from(label)] + smoothing * mean;
        values.iter().map(|x| x.exp()).sum::<f64>().ln() - of_target
    };
    images.chunks(SIDE * SIDE).zip(labels).map(of_sample).sum::<f64>() / labels.len() as f64
}

/// The derivative of the loss by a parameter.
fn derivative(layers: &Layers, place: [usize; 3], samples: (&[u8], &[u8], f64)) -> f64 {
    let [layer, part, i] = place;
    let moved = |by: f64| {
        let mut layers = layers.clone();
        layers[layer][part][i] += by;
        loss(&layers, samples)
    };
    // So small that hardly a ReLU changes its mind between.
    (moved(1e-6) - moved(-1e-6)) / 2e-6
}

#[test]
fn a_step_takes_what_finite_differences_say() {
    for smoothing in [0.0, 0.25] {
        a_step_takes_what_finite_differences_say_with(smoothing);
    }
}

fn a_step_takes_what_finite_differences_say_with(smoothing: f32) {
    let (images, labels) = digits(SAMPLES, 1);
    let before = Parameters::init(&SIZES, 7);
    let layers_before = layers(&before);
    // Of the first layer's weights a part, which reaches every unit and pixels of every row.
    let places = (0..3).flat_map(|layer| [0, 1].map(|part| (layer, part))).flat_map(|(layer, part)| {
        let every = if (layer, part) == (0, 0) { 29 } else { 1 };
        (0..layers_before[layer][part].len()).step_by(every).map(move |i| [layer, part, i])
    });
    let expected: Vec<([usize; 3], f64)> = places
        .map(|place| (place, derivative(&layers_before, place, (&images, &labels, smoothing.into()))))
        .collect();
    for (layer, part) in [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)] {
        let of = expected.iter().filter(|([l, p, _], _)| (*l, *p) == (layer, part));
        let largest = of.map(|(_, by)| by.abs()).fold(0.0, f64::max);
        assert!(largest > 1e3 * TOLERANCE, "layer {layer}: gradients of {largest} show nothing");
    }

    let mean_loss = loss(&layers_before, (&images, &labels, smoothing.into()));
    let device = Device::cpu();
    for pipeline in pipelines() {
        let mut network = network(&device, pipeline, &SIZES, SAMPLES).with_label_smoothing(smoothing);
        let stats = epoch(&mut network, &Data::new(&device, SAMPLES).of(pipeline), &spec(0, 1.0, 0.0));
        assert!((stats.loss() - mean_loss).abs() < 1e-6, "{pipeline:?}: {} is not {mean_loss}", stats.loss());
        assert_eq!((network.pipeline(), network.take_notice()), (pipeline, None));
        let after = layers(&network.parameters().unwrap());
        for &(place, by_differences) in &expected {
            let [layer, part, i] = place;
            let taken = layers_before[layer][part][i] - after[layer][part][i];
            assert!(
                (taken - by_differences).abs() <= TOLERANCE,
                "{pipeline:?}, {place:?}: {taken}, by differences {by_differences}"
            );
        }
    }
}
