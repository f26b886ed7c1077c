//! The arguments of the kernels on the host.

use cuda_std::launch::RawBuffer;

use super::{InputGradientLaunch, UpdateLaunch};
use crate::state::StepState;

/// The arguments of [`linear_backward`](fn@super::linear_backward).
pub struct BackwardLaunch {
    /// The gradient of a layer's input.
    pub gradient: InputGradientLaunch,
    /// The step of another layer.
    pub update: UpdateLaunch,
    /// The state of training.
    pub state: RawBuffer<StepState>,
    /// The index of the step's rate there.
    pub turn: u32,
    /// Rows of the batch.
    pub rows: u32,
}

/// The arguments of [`linear_updates`](fn@super::linear_updates).
pub struct UpdatesLaunch {
    /// The step of a layer.
    pub above: UpdateLaunch,
    /// The step of another layer.
    pub below: UpdateLaunch,
    /// The state of training.
    pub state: RawBuffer<StepState>,
    /// The learning rates of all steps of the epoch, and one more.
    pub rates: RawBuffer<f32>,
    /// The index of the step's rate in the state.
    pub turn: u32,
    /// Rows of the batch.
    pub rows: u32,
}

impl UpdateLaunch {
    /// No step.
    pub const fn none() -> Self {
        Self {
            weights: RawBuffer::NULL,
            biases: RawBuffer::NULL,
            weight_velocity: RawBuffer::NULL,
            bias_velocity: RawBuffer::NULL,
            activations: RawBuffer::NULL,
            d_out: RawBuffer::NULL,
            inputs: 0,
            outputs: 0,
            tile_rows: 0,
            blocks: 0,
        }
    }
}
