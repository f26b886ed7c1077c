//! The multi-layer perceptron: its parameters, the order of its kernels, training epochs, and evaluation.
//!
//! Layout: activations are `[batch, features]`, weights `[inputs, outputs]`, all f32 and row-major. The data set is on the
//! device as u8 pixels. The batches of an epoch are gathered there, in the order of [`mlp_kernels::batch::permuted`],
//! so an epoch copies nothing to the device and fetches its losses once, at its end.

mod activations;
mod core;
mod dataset;
mod epoch;
mod error;
mod feed;
mod fused;
mod graph;
mod judge;
mod naive;
mod network;
mod ops;
mod parallel;
mod parameters;
mod pipeline;
mod precision;
mod resident;
mod results;
#[cfg(test)]
mod short_tests;
mod timeline;
mod transfer;
mod work;

pub use dataset::{DeviceDataset, TrainingSet};
pub use epoch::{EpochSpec, Rates};
pub use error::ModelError;
pub use network::Network;
pub use parameters::{LayerParameters, Parameters};
pub use pipeline::Pipeline;
pub use precision::Precision;
pub use results::{Divergence, EpochStats, Evaluation};
pub use timeline::Timeline;
pub use work::{KernelWork, Trained};
