//! The linear layer, forward and backward.

use gpu_kernels::mlp::grid::{Tile, per_element};
use gpu_kernels::mlp::{fused_backward, fused_forward, linear};

use super::tile;
use super::{Layer, Shape, area, need};
use crate::model::error::ModelError;
use ferrowarp::device::{Buffer, Device};

fn check_forward(out: usize, inp: usize, layer: &Layer, shape: Shape) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs } = shape;
    need(&[
        ("length of the outputs", out, area(rows, outputs)),
        ("length of the inputs", inp, area(rows, inputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
        ("length of the biases", layer.biases.len(), outputs.into()),
    ])
}

/// `out = inp * weights + biases`, one thread per output.
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
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the outputs.
    unsafe { linear::linear_forward::launch(on, config, out, inp, weights, biases, rows, inputs, outputs)? };
    Ok(())
}

/// The activation that a tiled forward pass ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::model) enum Activation {
    Relu,
    Identity,
}

/// `out = act(inp * weights + biases)` on tiles.
pub(in crate::model) fn linear_act_forward(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
    act: Activation,
) -> Result<(), ModelError> {
    check_forward(out.len(), inp.len(), layer, shape)?;
    let Shape { rows, inputs, outputs } = shape;
    let tile = tile::choose(on, rows, outputs);
    let config = tile.config(rows, outputs);
    let (weights, biases) = (&layer.weights, &layer.biases);
    macro_rules! launch {
        ($kernel:ident) => {
            fused_forward::$kernel::launch(on, config, out, inp, weights, biases, rows, inputs, outputs)?
        };
    }
    // SAFETY: the buffers hold their shapes, as was just checked; grid and block are the tile's.
    unsafe {
        match (act, tile) {
            (Activation::Relu, Tile::T64x64) => launch!(linear_relu_forward_64x64),
            (Activation::Relu, Tile::T64x32) => launch!(linear_relu_forward_64x32),
            (Activation::Relu, Tile::T32x32) => launch!(linear_relu_forward_32x32),
            (Activation::Identity, Tile::T64x64) => launch!(linear_forward_64x64),
            (Activation::Identity, Tile::T64x32) => launch!(linear_forward_64x32),
            (Activation::Identity, Tile::T32x32) => launch!(linear_forward_32x32),
        }
    }
    Ok(())
}

/// `d_inp = d_out * weights^T`, one thread per output.
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
    // SAFETY: the buffers hold their shapes, as was just checked, and the grid covers the inputs.
    unsafe {
        linear::linear_backward_input::launch(on, config, d_inp, d_out, weights, rows, inputs, outputs)?
    };
    Ok(())
}

/// `d_inp = d_out * weights^T` where the activation is positive, on tiles.
pub(in crate::model) fn linear_relu_backward(
    on: &Device,
    d_inp: &mut Buffer<f32>,
    d_out: &Buffer<f32>,
    activations: &Buffer<f32>,
    layer: &Layer,
    shape: Shape,
) -> Result<(), ModelError> {
    let Shape { rows, inputs, outputs } = shape;
    need(&[
        ("length of the input gradient", d_inp.len(), area(rows, inputs)),
        ("length of the output gradient", d_out.len(), area(rows, outputs)),
        ("length of the activations", activations.len(), area(rows, inputs)),
        ("length of the weights", layer.weights.len(), area(inputs, outputs)),
    ])?;
    let tile = tile::choose(on, rows, inputs);
    let config = tile.config(rows, inputs);
    let weights = &layer.weights;
    macro_rules! launch {
        ($kernel:ident) => {
            fused_backward::$kernel::launch(
                on,
                config,
                d_inp,
                d_out,
                weights,
                activations,
                rows,
                inputs,
                outputs,
            )?
        };
    }
    // SAFETY: the buffers hold their shapes, as was just checked; grid and block are the tile's.
    unsafe {
        match tile {
            Tile::T64x64 => launch!(linear_relu_backward_64x64),
            Tile::T64x32 => launch!(linear_relu_backward_64x32),
            Tile::T32x32 => launch!(linear_relu_backward_32x32),
        }
    }
    Ok(())
}
