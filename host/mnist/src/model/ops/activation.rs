//! The rectified linear unit.

use mlp_kernels::activation;
use mlp_kernels::grid::per_element;

use super::{area, need};
use crate::model::error::ModelError;
use ferrowarp_device::device::{Buffer, Device};

/// Computes `out = max(inp, 0)`.
pub(in crate::model) fn relu_forward(
    on: &Device,
    out: &mut Buffer<f32>,
    inp: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[("length of the outputs", out.len(), len), ("length of the inputs", inp.len(), len)])?;
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers them.
    unsafe { activation::relu_forward::launch(on, per_element(rows, cols), out, inp, rows, cols)? };
    Ok(())
}

/// Computes `d_inp = d_out` where the activation is positive.
pub(in crate::model) fn relu_backward(
    on: &Device,
    d_inp: &mut Buffer<f32>,
    d_out: &Buffer<f32>,
    activations: &Buffer<f32>,
    rows: u32,
    cols: u32,
) -> Result<(), ModelError> {
    let len = area(rows, cols);
    need(&[
        ("length of the input gradient", d_inp.len(), len),
        ("length of the output gradient", d_out.len(), len),
        ("length of the activations", activations.len(), len),
    ])?;
    let config = per_element(rows, cols);
    // SAFETY: the buffers hold their shapes, as just checked, and the grid covers them.
    unsafe { activation::relu_backward::launch(on, config, d_inp, d_out, activations, rows, cols)? };
    Ok(())
}
