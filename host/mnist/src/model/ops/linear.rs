//! The linear layer, forward and backward.

use mlp_kernels::grid::per_element;
use mlp_kernels::linear;

use super::{Layer, Shape, area, need};
use crate::model::error::ModelError;
use ferrowarp_device::device::{Buffer, Device};

fn check_forward(out: usize, inp: usize, layer: &Layer, shape: Shape) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs } = shape;
    need(&[
        ("length of the outputs", out, area(rows, outputs)),
        ("length of the inputs", inp, area(rows, inputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
        ("length of the biases", layer.biases.len(), outputs.into()),
    ])
}

/// Computes `out = inp * weights + biases`, one thread per output.
pub(in crate::model) fn linear_forward(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
) -> Result<(), ModelError> {
    check_forward(out.len(), inp.len(), layer, shape)?;
    let Shape { rows, inputs, outputs } = shape;
    let config = per_element(rows, outputs);
    let (weights, biases) = (&layer.weights, &layer.biases);
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the outputs.
    unsafe { linear::linear_forward::launch(on, config, out, inp, weights, biases, rows, inputs, outputs)? };
    Ok(())
}

/// Computes `d_inp = d_out * weights^T`, one thread per output.
pub(in crate::model) fn linear_backward_input(
    on: &Device,
    d_inp: &mut Buffer<f32>,
    d_out: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs } = shape;
    need(&[
        ("length of the input gradient", d_inp.len(), area(rows, inputs)),
        ("length of the output gradient", d_out.len(), area(rows, outputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
    ])?;
    let config = per_element(rows, inputs);
    let weights = &layer.weights;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers the inputs.
    unsafe {
        linear::linear_backward_input::launch(on, config, d_inp, d_out, weights, rows, inputs, outputs)?
    };
    Ok(())
}
