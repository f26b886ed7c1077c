//! The same training in f64 on the host: the expected weights of a rung.

use ferrowarp_data::Dataset;
use ferrowarp_mnist::model::{EpochSpec, LayerParameters, Parameters};
use gpu_kernels::mlp::batch::permuted;

/// A layer in f64.
struct Layer {
    inputs: usize,
    outputs: usize,
    /// `[inputs, outputs]`.
    weights: Vec<f64>,
    biases: Vec<f64>,
}

/// Trains for an epoch of plain SGD over `data` in batches of `batch`; the last one may be short. Returns weights and
/// biases, layer by layer, and the mean of the losses, each before its step.
pub fn train(
    parameters: &Parameters,
    data: &Dataset,
    spec: &EpochSpec,
    batch: usize,
) -> (Vec<Vec<f64>>, f64) {
    let widen = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect();
    let layers = parameters.layers.iter().map(|LayerParameters { inputs, outputs, weights, biases }| Layer {
        inputs: *inputs,
        outputs: *outputs,
        weights: widen(weights),
        biases: widen(biases),
    });
    let mut layers: Vec<Layer> = layers.collect();
    let mut loss = 0.0;
    let order: Vec<usize> = (0..data.len() as u32)
        .map(|index| permuted(index, data.len() as u32, spec.seed, spec.epoch) as usize)
        .collect();
    for (i, samples) in order.chunks(batch).enumerate() {
        loss += step(&mut layers, data, samples, f64::from(spec.rates.at(i)));
    }
    let weights = layers.into_iter().flat_map(|layer| [layer.weights, layer.biases]).collect();
    (weights, loss / data.len() as f64)
}

/// Makes one step on these samples. Returns the sum of their losses.
fn step(layers: &mut [Layer], data: &Dataset, samples: &[usize], lr: f64) -> f64 {
    let mut steps: Vec<(Vec<f64>, Vec<f64>)> =
        layers.iter().map(|layer| (vec![0.0; layer.weights.len()], vec![0.0; layer.biases.len()])).collect();
    let mut loss = 0.0;
    for &sample in samples {
        let pixels = &data.images[sample * data.features()..][..data.features()];
        let mut values = vec![pixels.iter().map(|&pixel| f64::from(pixel) / 255.0).collect::<Vec<f64>>()];
        for (l, layer) in layers.iter().enumerate() {
            let mut out = layer.biases.clone();
            for (value, weights) in values[l].iter().zip(layer.weights.chunks(layer.outputs)) {
                out.iter_mut().zip(weights).for_each(|(out, weight)| *out += value * weight);
            }
            if l + 1 < layers.len() {
                out.iter_mut().for_each(|out| *out = out.max(0.0));
            }
            values.push(out);
        }
        let Some(logits) = values.last() else { continue };
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = logits.iter().map(|logit| (logit - largest).exp()).sum();
        let label = usize::from(data.labels[sample]);
        loss += largest + sum.ln() - logits[label];
        let mut gradient: Vec<f64> = logits.iter().map(|logit| (logit - largest).exp() / sum).collect();
        gradient[label] -= 1.0;
        for (l, layer) in layers.iter().enumerate().rev() {
            let (step, bias_step) = &mut steps[l];
            bias_step.iter_mut().zip(&gradient).for_each(|(step, gradient)| *step += gradient);
            let mut below = vec![0.0; layer.inputs];
            for (i, value) in values[l].iter().enumerate() {
                let row = i * layer.outputs..(i + 1) * layer.outputs;
                // A unit with output 0 gets no gradient, and neither do its weights.
                if *value != 0.0 {
                    step[row.clone()].iter_mut().zip(&gradient).for_each(|(step, g)| *step += value * g);
                    below[i] = layer.weights[row].iter().zip(&gradient).map(|(weight, g)| weight * g).sum();
                }
            }
            gradient = below;
        }
    }
    let rate = lr / samples.len() as f64;
    for (layer, (step, bias_step)) in layers.iter_mut().zip(steps) {
        layer.weights.iter_mut().zip(step).for_each(|(weight, step)| *weight -= rate * step);
        layer.biases.iter_mut().zip(bias_step).for_each(|(bias, step)| *bias -= rate * step);
    }
    loss
}

/// The largest distance between `parameters` and the weights of [`train`], relative to the largest weight of the layer.
/// Infinite if a value is NaN.
pub fn distance(parameters: &Parameters, expected: &[Vec<f64>]) -> f64 {
    let values = parameters.layers.iter().flat_map(|layer| [&layer.weights, &layer.biases]);
    let of_tensor = |(got, expected): (&Vec<f32>, &Vec<f64>)| {
        let largest = expected.iter().fold(f64::MIN_POSITIVE, |largest, value| largest.max(value.abs()));
        let differences = got.iter().zip(expected).map(|(&got, expected)| (f64::from(got) - expected).abs());
        differences.map(|d| if d.is_nan() { f64::INFINITY } else { d / largest }).fold(0.0, f64::max)
    };
    values.zip(expected).map(of_tensor).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The loss of a 2-3-2 network on two images in one batch, as a function of its parameters.
    fn loss(parameters: &Parameters, data: &Dataset) -> f64 {
        let spec = EpochSpec { seed: 1, epoch: 1, rates: 0.0.into(), momentum: 0.0 };
        train(parameters, data, &spec, 2).1
    }

    /// The oracle's step follows the gradient from differences of losses.
    #[test]
    fn a_step_goes_down_the_gradient() {
        let parameters = Parameters::init(&[2, 3, 2], 5);
        let data = Dataset { images: vec![255, 30, 10, 200], labels: vec![0, 1], rows: 1, cols: 2 };
        let spec = EpochSpec { seed: 1, epoch: 1, rates: 1.0.into(), momentum: 0.0 };
        let (moved, _) = train(&parameters, &data, &spec, 2);
        let mut is_moved = false;
        for (l, layer) in parameters.layers.iter().enumerate() {
            for (i, weight) in layer.weights.iter().enumerate() {
                let nudged = |by: f32| {
                    let mut nudged = parameters.clone();
                    nudged.layers[l].weights[i] += by;
                    (f64::from(nudged.layers[l].weights[i]), loss(&nudged, &data))
                };
                let ((high, above), (low, below)) = (nudged(1e-3), nudged(-1e-3));
                let gradient = (above - below) / (high - low);
                let step = f64::from(*weight) - moved[2 * l][i];
                assert!((step - gradient).abs() < 1e-5, "weight {i} of layer {l}: {step} and {gradient}");
                is_moved |= step.abs() > 1e-3;
            }
        }
        assert!(is_moved, "no weight has moved, so nothing was compared");
    }

    #[test]
    fn a_distance_is_relative_and_no_number_is_far() {
        let mut parameters = Parameters::init(&[2, 2], 1);
        let layer = &parameters.layers[0];
        let mut expected: Vec<Vec<f64>> = [&layer.weights, &layer.biases]
            .map(|values| values.iter().map(|&v| f64::from(v)).collect())
            .into();
        assert_eq!(distance(&parameters, &expected), 0.0);
        let largest = expected[1].iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        let place = expected[1].iter().position(|value| value.abs() == largest).unwrap();
        expected[1][place] *= 2.0;
        assert!((distance(&parameters, &expected) - 0.5).abs() < 1e-6);
        parameters.layers[0].weights[1] = f32::NAN;
        assert_eq!(distance(&parameters, &expected), f64::INFINITY);
    }
}
