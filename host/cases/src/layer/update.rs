//! SGD.

use cuda_std::launch::LaunchConfig;
use gpu_kernels::mlp::grid::{Tile, per_element};
use gpu_kernels::mlp::{fused_update, sgd};

use super::run::Run;
use super::{Check, Expected, Problem, References, Runner, SUM, exact, layer_shape, shape};
use crate::reference;

/// The learning rate.
const LEARNING_RATE: f32 = 0.125;
/// The momenta.
const MOMENTA: [f32; 2] = [0.0, 0.9];

/// Parameters and velocities after one step of SGD from the same start with each of [`MOMENTA`], with the gradients
/// divided by `divisor`.
fn updates(p: &Problem, divisor: f64) -> References {
    let (d_weights, d_biases) = reference::parameter_gradients(&p.activations, &p.d_out, layer_shape(p));
    let with = |momentum| {
        let (weights, weight_velocity) = steps(&p.weights, &p.weight_velocity, &d_weights, divisor, momentum);
        let (biases, bias_velocity) = steps(&p.biases, &p.bias_velocity, &d_biases, divisor, momentum);
        let names = ["weights", "biases", "weight_velocity", "bias_velocity"];
        names.into_iter().zip([weights, biases, weight_velocity, bias_velocity])
    };
    MOMENTA.into_iter().flat_map(with).collect()
}

/// Parameters and velocities of one kind after the step.
fn steps(
    parameters: &[f32],
    velocities: &[f32],
    gradients: &[Expected],
    divisor: f64,
    momentum: f32,
) -> (Vec<Expected>, Vec<Expected>) {
    let lr = f64::from(LEARNING_RATE);
    let step = |((&parameter, &velocity), gradient): ((&f32, &f32), &Expected)| {
        let carried = f64::from(momentum) * f64::from(velocity);
        let (value, magnitude) =
            (carried + gradient.value / divisor, carried.abs() + gradient.magnitude / divisor);
        let moved = Expected {
            value: f64::from(parameter) - lr * value,
            magnitude: f64::from(parameter).abs() + lr * magnitude,
        };
        // Without momentum the velocity stays as it is.
        (moved, if momentum == 0.0 { exact(f64::from(velocity)) } else { Expected { value, magnitude } })
    };
    parameters.iter().zip(velocities).zip(gradients).map(step).unzip()
}

macro_rules! update {
    ($kernel:ty, $config:expr, $divisor:expr) => {
        Check {
            kernel: <$kernel>::META,
            roundings: SUM,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let (activations, d_out) = (run.input(&p.activations)?, run.input(&p.d_out)?);
                let config: fn(u32, u32) -> LaunchConfig = $config;
                let [batch, inputs, outputs] = shape(p);
                let mut results = Vec::new();
                for momentum in MOMENTA {
                    let (mut weights, mut biases) = (run.updated(&p.weights)?, run.updated(&p.biases)?);
                    let mut weight_velocity = run.updated(&p.weight_velocity)?;
                    let mut bias_velocity = run.updated(&p.bias_velocity)?;
                    // SAFETY: the arrays have the problem's shapes, and the grid covers the weights.
                    unsafe {
                        <$kernel>::launch(
                            device,
                            config(inputs, outputs),
                            weights.view()?,
                            biases.view()?,
                            weight_velocity.view()?,
                            bias_velocity.view()?,
                            activations.view()?,
                            d_out.view()?,
                            batch,
                            inputs,
                            outputs,
                            LEARNING_RATE,
                            momentum,
                        )
                    }?;
                    for output in [weights, biases, weight_velocity, bias_velocity] {
                        results.push(output.finish()?);
                    }
                }
                Ok(results)
            }),
            reference: |p| {
                let divisor: fn(&Problem) -> f64 = $divisor;
                updates(p, divisor(p))
            },
        }
    };
}

/// The checks.
pub const CHECKS: &[Check] = &[
    update!(sgd::update_layer, per_element, |p| p.batch as f64),
    update!(fused_update::linear_update_64x64, |m, n| Tile::T64x64.config(m, n), |_| 1.0),
    update!(fused_update::linear_update_64x32, |m, n| Tile::T64x32.config(m, n), |_| 1.0),
    update!(fused_update::linear_update_32x32, |m, n| Tile::T32x32.config(m, n), |_| 1.0),
    // Fewer blocks than tiles: each walks down the rows.
    update!(fused_update::linear_update_32x32, |m, n| Tile::T32x32.walking_config(m, n, 2), |_| 1.0),
];
