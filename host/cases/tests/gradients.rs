//! The oracles' gradients against finite differences of the oracles' losses, which know nothing of them.

use ferrowarp::Softmax;
use ferrowarp_cases::reference::{
    LayerOf, LayerShape, Sgd, Sum, cross_entropy, linear_backward_input, linear_forward, parameter_gradients,
    softmax_backward, softmax_with, step,
};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// A step that leaves all numbers used here exact in `f32`.
const STEP: f32 = 1.0 / 1024.0;

/// No step, and no share of the targets that all classes get.
const PLAIN: Sgd = Sgd { lr: 0.0, smoothing: 0.0 };

/// The derivative by five points, whose error is of the order of the step's fourth power.
fn derivative(of: impl Fn(f64) -> f64, step: f64) -> f64 {
    (8.0 * (of(step) - of(-step)) - (of(2.0 * step) - of(-2.0 * step))) / (12.0 * step)
}

/// The gradient of a function of numbers of `f32`.
fn gradient(at: &[f32], of: impl Fn(&[f32]) -> f64) -> Vec<f64> {
    let partial = |i: usize| {
        let moved = |by: f64| {
            let mut numbers = at.to_vec();
            numbers[i] += by as f32;
            assert_eq!(f64::from(numbers[i]), f64::from(at[i]) + by, "the step is not exact");
            of(&numbers)
        };
        derivative(moved, STEP.into())
    };
    (0..at.len()).map(partial).collect()
}

/// Multiples of 2^-10 between -2 and 2.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..len).map(|_| f32::from(random.random_range(-2048i16..=2048)) * STEP).collect()
}

fn assert_near(oracle: &[f64], differences: &[f64], tolerance: f64) {
    assert_eq!(oracle.len(), differences.len());
    assert!(differences.iter().any(|x| x.abs() > 1e-2), "nothing to compare: {differences:?}");
    for (i, (a, b)) in oracle.iter().zip(differences).enumerate() {
        assert!((a - b).abs() <= tolerance * (1.0 + b.abs()), "element {i}: {a}, by differences {b}");
    }
}

fn values(sums: &[Sum]) -> Vec<f64> {
    sums.iter().map(|sum| sum.value).collect()
}

/// The sum of `weights`, one for each element.
fn weighted(elements: &[f64], weights: &[f32]) -> f64 {
    elements.iter().zip(weights).map(|(x, &w)| x * f64::from(w)).sum()
}

#[test]
fn of_cross_entropy() {
    for (cols, target) in [(2, 1), (10, 0), (10, 7), (33, 32)] {
        let logits = numbers(cols, cols as u64);
        let by_differences = gradient(&logits, |logits| cross_entropy(logits, target, -100).loss);
        assert_near(&cross_entropy(&logits, target, -100).gradient, &by_differences, 1e-9);
    }
}

#[test]
fn of_softmax_and_log_softmax() {
    for options in [Softmax::new(), Softmax::new().log()] {
        for cols in [2, 10, 33] {
            let (logits, dy) = (numbers(cols, 1), numbers(cols, 2));
            let y: Vec<f32> = softmax_with(&logits, cols, &options).iter().map(|&y| y as f32).collect();
            let by_differences =
                gradient(&logits, |logits| weighted(&softmax_with(logits, cols, &options), &dy));
            // The oracle takes the result as f32, as the kernels do.
            assert_near(&values(&softmax_backward(&dy, &y, options.is_log())), &by_differences, 1e-6);
        }
    }
}

#[test]
fn of_a_linear_layer() {
    let shape = LayerShape { batch: 3, inputs: 5, outputs: 4 };
    let (inp, weights, biases, d_out) = (numbers(15, 1), numbers(20, 2), numbers(4, 3), numbers(12, 4));
    let loss = |inp: &[f32], weights: &[f32], biases: &[f32]| {
        weighted(&values(&linear_forward(inp, weights, biases, shape)), &d_out)
    };
    let (d_weights, d_biases) = parameter_gradients(&inp, &d_out, shape);
    let d_inp = linear_backward_input(&d_out, &weights, shape);
    assert_near(&values(&d_inp), &gradient(&inp, |inp| loss(inp, &weights, &biases)), 1e-9);
    assert_near(&values(&d_weights), &gradient(&weights, |weights| loss(&inp, weights, &biases)), 1e-9);
    assert_near(&values(&d_biases), &gradient(&biases, |biases| loss(&inp, &weights, biases)), 1e-9);
}

#[test]
fn of_a_network() {
    for smoothing in [0.0, 0.25] {
        of_a_network_with(smoothing);
    }
}

/// Of targets of which this share is spread over all classes.
fn of_a_network_with(smoothing: f32) {
    const SIZES: [usize; 4] = [6, 5, 4, 3];
    let labels = [0, 2, 1, 1, 0, 2, 2];
    let layer = |(l, sizes): (usize, &[usize])| LayerOf::<f64> {
        weights: numbers(sizes[0] * sizes[1], l as u64).iter().map(|&x| x.into()).collect(),
        biases: numbers(sizes[1], 10 + l as u64).iter().map(|&x| x.into()).collect(),
    };
    let layers: Vec<_> = SIZES.windows(2).enumerate().map(layer).collect();
    let inp: Vec<Vec<f64>> = (0..labels.len())
        .map(|row| numbers(SIZES[0], 100 + row as u64).iter().map(|&x| x.into()).collect())
        .collect();
    let mut stepped = layers.clone();
    step(&mut stepped, inp.clone(), &labels, Sgd { lr: 1.0, smoothing });

    let loss = |layers: &[LayerOf<f64>]| {
        let judgements = step(&mut layers.to_vec(), inp.clone(), &labels, Sgd { lr: 0.0, smoothing });
        judgements.iter().map(|of| of.loss).sum::<f64>() / labels.len() as f64
    };
    // The cross entropy with the share as a part of all classes' mean one, which is another way to say it.
    let judged =
        |smoothing| step(&mut layers.clone(), inp.clone(), &labels, Sgd { lr: 0.0, smoothing })[0].loss;
    let mean =
        (0..3).map(|label| step(&mut layers.clone(), inp.clone(), &[label; 7], PLAIN)[0].loss).sum::<f64>()
            / 3.0;
    let expected = f64::from(1.0 - smoothing) * judged(0.0) + f64::from(smoothing) * mean;
    assert!((judged(smoothing) - expected).abs() < 1e-12, "{smoothing}");
    for l in 0..layers.len() {
        let changed = |change: &dyn Fn(&mut LayerOf<f64>)| {
            let mut layers = layers.clone();
            change(&mut layers[l]);
            loss(&layers)
        };
        let weights = 0..layers[l].weights.len();
        let d_weights: Vec<f64> =
            weights.map(|i| derivative(|by| changed(&|layer| layer.weights[i] += by), 1e-4)).collect();
        let biases = 0..layers[l].biases.len();
        let d_biases: Vec<f64> =
            biases.map(|i| derivative(|by| changed(&|layer| layer.biases[i] += by), 1e-4)).collect();
        let moved = |before: &[f64], after: &[f64]| before.iter().zip(after).map(|(a, b)| a - b).collect();
        let moved_weights: Vec<f64> = moved(&layers[l].weights, &stepped[l].weights);
        let moved_biases: Vec<f64> = moved(&layers[l].biases, &stepped[l].biases);
        assert_near(&moved_weights, &d_weights, 1e-9);
        assert_near(&moved_biases, &d_biases, 1e-9);
    }
}
