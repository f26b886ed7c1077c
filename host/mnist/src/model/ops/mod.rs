//! Every kernel of a training step as a safe function: the shapes are checked against the buffers, the grid is
//! chosen, then the kernel is launched.

mod activation;
mod batch;
mod linear;
mod loss;
mod tile;
mod update;

use cuda_std::launch::LaunchConfig;

use super::error::{ModelError, to_u32};
use ferrowarp::device::Buffer;

pub(super) use activation::{relu_backward, relu_forward};
pub(super) use batch::{ordered_batch, shuffled_batch};
pub(super) use linear::{
    Activation, linear_act_forward, linear_backward_input, linear_forward, linear_relu_backward,
};
pub(super) use loss::{
    count_correct, cross_entropy_backward, cross_entropy_loss, one_hot, softmax, softmax_cross_entropy,
};
pub(super) use update::{Sgd, linear_update, update_layer};

/// Threads of a one-dimensional block in kernels with a thread per row.
const ROW_BLOCK: u32 = 32;

/// Threads of a two-dimensional block in kernels with a thread per element.
const ELEMENT_BLOCK: (u32, u32) = (32, 8);

/// The shape of a linear layer applied to a batch.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Shape {
    pub batch: u32,
    pub inputs: u32,
    pub outputs: u32,
}

impl Shape {
    pub fn new(batch: usize, inputs: usize, outputs: usize) -> Result<Self, ModelError> {
        Ok(Self {
            batch: to_u32("batch size", batch)?,
            inputs: to_u32("number of inputs", inputs)?,
            outputs: to_u32("number of outputs", outputs)?,
        })
    }
}

/// A layer's parameters on the device; the velocities are empty unless there is momentum.
#[derive(Debug)]
pub(in crate::model) struct Layer {
    pub inputs: usize,
    pub outputs: usize,
    pub weights: Buffer<f32>,
    pub biases: Buffer<f32>,
    pub weight_velocity: Buffer<f32>,
    pub bias_velocity: Buffer<f32>,
}

/// Checks that each named buffer holds at least as many elements as its shape.
fn need(sizes: &[(&'static str, usize, u64)]) -> Result<(), ModelError> {
    for &(what, len, needed) in sizes {
        if (len as u64) < needed {
            let expected = usize::try_from(needed).unwrap_or(usize::MAX);
            return Err(ModelError::Mismatch { what, got: len, expected });
        }
    }
    Ok(())
}

fn area(rows: u32, cols: u32) -> u64 {
    u64::from(rows) * u64::from(cols)
}

/// A thread per element of `[rows, cols]`.
fn per_element(rows: u32, cols: u32) -> LaunchConfig {
    let (x, y) = ELEMENT_BLOCK;
    LaunchConfig::new((cols.div_ceil(x), rows.div_ceil(y)), (x, y))
}

/// A thread per row.
fn per_row(rows: u32) -> LaunchConfig {
    LaunchConfig::cover(rows as usize, ROW_BLOCK)
}
