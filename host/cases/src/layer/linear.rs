//! The linear layer, forward and backward.

use anyhow::Result;
use ferrowarp::device::Device;
use gpu_kernels::mlp::grid::per_element;
use gpu_kernels::mlp::linear;

use super::check::{Check, SUM, exact, layer_shape, shape, within};
use super::problem::Problem;
use super::run::Run;
use crate::case::wide;
use crate::compare::Outputs;
use crate::reference::{self, Sum};

/// `inp * weights + biases`.
pub(super) fn forward(p: &Problem) -> Vec<Sum> {
    reference::linear_forward(&p.activations, &p.weights, &p.biases, layer_shape(p))
}

/// `max(inp * weights + biases, 0)`.
pub(super) fn forward_relu(p: &Problem) -> Vec<Sum> {
    let mut out = forward(p);
    out.iter_mut().for_each(|x| x.value = x.value.max(0.0));
    out
}

/// `d_out * weights^T`.
fn backward(p: &Problem) -> Vec<Sum> {
    reference::linear_backward_input(&p.d_out, &p.weights, layer_shape(p))
}

/// [`backward`] where the activations are positive, else 0.
pub(super) fn backward_relu(p: &Problem) -> Vec<Sum> {
    let masked = backward(p).into_iter().zip(&p.activations);
    masked.map(|(x, &activation)| if activation > 0.0 { x } else { exact(0.0) }).collect()
}

fn linear_forward(device: &Device, p: &Problem) -> Result<Outputs> {
    let mut run = Run::new(p);
    let (inp, weights, biases) = (run.input(&p.activations), run.input(&p.weights), run.input(&p.biases));
    let out = run.output::<f32>(p.batch * p.outputs);
    let [batch, inputs, outputs] = shape(p);
    let config = per_element(batch, outputs);
    let results = run.on(device, |on, memory| {
        let (out, inp) = (memory.output(out), memory.input(inp));
        let (weights, biases) = (memory.input(weights), memory.input(biases));
        // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
        unsafe {
            linear::linear_forward::launch(on, config, out, inp, weights, biases, batch, inputs, outputs)
        }
    })?;
    Ok(vec![("out", wide(&results.of(out)))])
}

fn linear_backward_input(device: &Device, p: &Problem) -> Result<Outputs> {
    let mut run = Run::new(p);
    let (d_out, weights) = (run.input(&p.d_out), run.input(&p.weights));
    let d_inp = run.output::<f32>(p.batch * p.inputs);
    let [batch, inputs, outputs] = shape(p);
    let config = per_element(batch, inputs);
    let results = run.on(device, |on, memory| {
        let (d_inp, d_out, weights) = (memory.output(d_inp), memory.input(d_out), memory.input(weights));
        // SAFETY: the arrays have the problem's shapes, and the grid covers the output.
        unsafe {
            linear::linear_backward_input::launch(on, config, d_inp, d_out, weights, batch, inputs, outputs)
        }
    })?;
    Ok(vec![("d_inp", wide(&results.of(d_inp)))])
}

/// The checks.
pub const CHECKS: &[Check] = &[
    Check {
        kernel: linear::linear_forward::META,
        run: linear_forward,
        expected: |p| vec![("out", within(forward(p), SUM))],
    },
    Check {
        kernel: linear::linear_backward_input::META,
        run: linear_backward_input,
        expected: |p| vec![("d_inp", within(backward(p), SUM))],
    },
];
