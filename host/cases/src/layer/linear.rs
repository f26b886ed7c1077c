//! The linear layer, forward and backward.

use anyhow::Result;
use cuda_std::launch::LaunchConfig;
use ferrowarp::device::Device;
use gpu_kernels::mlp::grid::{Tile, per_element};
use gpu_kernels::mlp::{fused_backward, fused_forward, linear};

use super::run::Run;
use super::{Check, Expected, Outputs, Problem, Runner, SUM, exact, layer_shape, shape};
use crate::reference;

/// `inp * weights + biases`.
fn forward(p: &Problem) -> Vec<Expected> {
    reference::linear_forward(&p.activations, &p.weights, &p.biases, layer_shape(p))
}

/// `max(inp * weights + biases, 0)`.
fn forward_relu(p: &Problem) -> Vec<Expected> {
    let mut out = forward(p);
    out.iter_mut().for_each(|x| x.value = x.value.max(0.0));
    out
}

/// `d_out * weights^T`.
fn backward(p: &Problem) -> Vec<Expected> {
    reference::linear_backward_input(&p.d_out, &p.weights, layer_shape(p))
}

/// [`backward`] where the activations are positive, else 0.
fn backward_relu(p: &Problem) -> Vec<Expected> {
    let masked = backward(p).into_iter().zip(&p.activations);
    masked.map(|(x, &activation)| if activation > 0.0 { x } else { exact(0.0) }).collect()
}

macro_rules! forward {
    ($kernel:ty, $config:expr, $reference:path) => {
        Check {
            kernel: <$kernel>::META,
            roundings: SUM,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let (inp, weights) = (run.input(&p.activations)?, run.input(&p.weights)?);
                let biases = run.input(&p.biases)?;
                let mut out = run.output::<f32>(p.batch * p.outputs)?;
                let config: fn(u32, u32) -> LaunchConfig = $config;
                let [batch, inputs, outputs] = shape(p);
                let (inp, weights, biases) = (inp.view()?, weights.view()?, biases.view()?);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                unsafe {
                    <$kernel>::launch(
                        device,
                        config(batch, outputs),
                        out.view()?,
                        inp,
                        weights,
                        biases,
                        batch,
                        inputs,
                        outputs,
                    )
                }?;
                Ok(vec![out.finish()?])
            }),
            reference: |p| vec![("out", $reference(p))],
        }
    };
}

macro_rules! backward {
    ($kernel:ty, $tile:ident) => {
        Check {
            kernel: <$kernel>::META,
            roundings: SUM,
            run: Runner::With(|device, p| {
                let run = Run::new(device, p);
                let (d_out, weights) = (run.input(&p.d_out)?, run.input(&p.weights)?);
                let activations = run.input(&p.activations)?;
                let mut d_inp = run.output::<f32>(p.batch * p.inputs)?;
                let [batch, inputs, outputs] = shape(p);
                let (d_out, weights, activations) = (d_out.view()?, weights.view()?, activations.view()?);
                // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
                unsafe {
                    <$kernel>::launch(
                        device,
                        Tile::$tile.config(batch, inputs),
                        d_inp.view()?,
                        d_out,
                        weights,
                        activations,
                        batch,
                        inputs,
                        outputs,
                    )
                }?;
                Ok(vec![d_inp.finish()?])
            }),
            reference: |p| vec![("d_inp", backward_relu(p))],
        }
    };
}

fn linear_backward_input(device: &Device, p: &Problem) -> Result<Outputs> {
    let run = Run::new(device, p);
    let (d_out, weights) = (run.input(&p.d_out)?, run.input(&p.weights)?);
    let mut d_inp = run.output::<f32>(p.batch * p.inputs)?;
    let [batch, inputs, outputs] = shape(p);
    let config = per_element(batch, inputs);
    let (d_out, weights) = (d_out.view()?, weights.view()?);
    // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
    unsafe {
        linear::linear_backward_input::launch(
            device,
            config,
            d_inp.view()?,
            d_out,
            weights,
            batch,
            inputs,
            outputs,
        )
    }?;
    Ok(vec![d_inp.finish()?])
}

/// The checks.
pub const CHECKS: &[Check] = &[
    forward!(linear::linear_forward, per_element, forward),
    Check {
        kernel: linear::linear_backward_input::META,
        roundings: SUM,
        run: Runner::With(linear_backward_input),
        reference: |p| vec![("d_inp", backward(p))],
    },
    forward!(fused_forward::linear_relu_forward_64x64, |m, n| Tile::T64x64.config(m, n), forward_relu),
    forward!(fused_forward::linear_relu_forward_64x32, |m, n| Tile::T64x32.config(m, n), forward_relu),
    forward!(fused_forward::linear_relu_forward_32x32, |m, n| Tile::T32x32.config(m, n), forward_relu),
    forward!(fused_forward::linear_forward_64x64, |m, n| Tile::T64x64.config(m, n), forward),
    forward!(fused_forward::linear_forward_64x32, |m, n| Tile::T64x32.config(m, n), forward),
    forward!(fused_forward::linear_forward_32x32, |m, n| Tile::T32x32.config(m, n), forward),
    backward!(fused_backward::linear_relu_backward_64x64, T64x64),
    backward!(fused_backward::linear_relu_backward_64x32, T64x32),
    backward!(fused_backward::linear_relu_backward_32x32, T32x32),
];
