//! SGD.

use anyhow::Result;
use ferrowarp::device::Device;
use gpu_kernels::mlp::grid::per_element;
use gpu_kernels::mlp::sgd;

use super::check::{Check, SUM, exact, layer_shape, shape, within};
use super::problem::Problem;
use super::run::Run;
use crate::case::wide;
use crate::compare::{Expected, Outputs};
use crate::reference::{self, Sum};

/// The learning rate.
pub(super) const LEARNING_RATE: f32 = 0.125;
/// The momenta.
pub(super) const MOMENTA: [f32; 2] = [0.0, 0.9];

/// The updated arrays.
pub(super) const NAMES: [&str; 4] = ["weights", "biases", "weight_velocity", "bias_velocity"];

/// Parameters and velocities after one step of SGD, from the same start with each of [`MOMENTA`]. The gradients are divided
/// by `divisor`. The tolerance is `roundings` roundings.
pub(super) fn updates(p: &Problem, divisor: f64, roundings: f64) -> Expected {
    let (d_weights, d_biases) = reference::parameter_gradients(&p.activations, &p.d_out, layer_shape(p));
    let with = |momentum| {
        let (weights, weight_velocity) = steps(&p.weights, &p.weight_velocity, &d_weights, divisor, momentum);
        let (biases, bias_velocity) = steps(&p.biases, &p.bias_velocity, &d_biases, divisor, momentum);
        let updated = [weights, biases, weight_velocity, bias_velocity].map(|sums| within(sums, roundings));
        NAMES.into_iter().zip(updated)
    };
    MOMENTA.into_iter().flat_map(with).collect()
}

/// Parameters and velocities of one kind after the step.
fn steps(
    parameters: &[f32],
    velocities: &[f32],
    gradients: &[Sum],
    divisor: f64,
    momentum: f32,
) -> (Vec<Sum>, Vec<Sum>) {
    let lr = f64::from(LEARNING_RATE);
    let step = |((&parameter, &velocity), gradient): ((&f32, &f32), &Sum)| {
        let carried = f64::from(momentum) * f64::from(velocity);
        let (value, magnitude) =
            (carried + gradient.value / divisor, carried.abs() + gradient.magnitude / divisor);
        let moved = Sum {
            value: f64::from(parameter) - lr * value,
            magnitude: f64::from(parameter).abs() + lr * magnitude,
        };
        // Without momentum the velocity does not change.
        (moved, if momentum == 0.0 { exact(f64::from(velocity)) } else { Sum { value, magnitude } })
    };
    parameters.iter().zip(velocities).zip(gradients).map(step).unzip()
}

fn update_layer(device: &Device, p: &Problem) -> Result<Outputs> {
    let [batch, inputs, outputs] = shape(p);
    let mut all = Vec::new();
    for momentum in MOMENTA {
        let mut run = Run::new(p);
        let (activations, d_out) = (run.input(&p.activations), run.input(&p.d_out));
        let parameters = [&p.weights, &p.biases, &p.weight_velocity, &p.bias_velocity];
        let parameters = parameters.map(|elements| run.updated(elements));
        let results = run.on(device, |on, memory| {
            let (config, [w, b, wv, bv]) =
                (per_element(inputs, outputs), parameters.map(|output| memory.output(output)));
            let (inp, d_out, lr) = (memory.input(activations), memory.input(d_out), LEARNING_RATE);
            // SAFETY: the arrays have the problem's shapes, and the grid covers the weights.
            unsafe {
                sgd::update_layer::launch(
                    on, config, w, b, wv, bv, inp, d_out, batch, inputs, outputs, lr, momentum,
                )
            }
        })?;
        all.extend(NAMES.into_iter().zip(parameters.map(|output| wide(&results.of(output)))));
    }
    Ok(all)
}

/// The checks.
pub const CHECKS: &[Check] = &[Check {
    kernel: sgd::update_layer::META,
    run: update_layer,
    expected: |p| updates(p, p.batch as f64, SUM),
}];
