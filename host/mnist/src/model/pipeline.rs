//! The pipelines, and what each evaluates a batch by.

use super::error::ModelError;
use super::network::Activations;
use super::ops::Layer;
use super::results::Scores;
use super::{fused, naive};
use ferrowarp::device::Device;

/// Which kernels a network runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pipeline {
    /// One kernel per operation, one thread per output.
    Naive,
    /// Products on tiles in shared memory, with bias, ReLU, loss and update fused in.
    Fused,
    /// Many steps in one launch, during which the weights stay on the multiprocessors. A network that it does not take is
    /// trained by the fused pipeline.
    Resident,
}

impl Pipeline {
    /// Whether the fused kernels evaluate the network, and train it where nothing else does.
    pub(super) fn is_fused(self) -> bool {
        self != Pipeline::Naive
    }
}

/// Logits of the batch in `state.inputs`, of `rows` samples.
pub(super) fn forward(
    on: &Device,
    pipeline: Pipeline,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
) -> Result<(), ModelError> {
    match pipeline {
        Pipeline::Naive => naive::forward(on, layers, state, rows),
        Pipeline::Fused | Pipeline::Resident => fused::forward(on, layers, state, rows),
    }
}

/// Losses and hits of the batch in `state.inputs`.
pub(super) fn loss(
    on: &Device,
    pipeline: Pipeline,
    layers: &[Layer],
    state: &mut Activations,
    rows: u32,
    scores: Scores<'_>,
) -> Result<(), ModelError> {
    match pipeline {
        Pipeline::Naive => {
            naive::forward(on, layers, state, rows)?;
            naive::loss(on, state, rows, scores)
        }
        Pipeline::Fused | Pipeline::Resident => fused::loss(on, layers, state, rows, scores),
    }
}
