//! The rungs of the training ladder.

use clap::ValueEnum as _;

use super::precision::Precision;

/// How the kernels of a step are chosen and queued: the rungs of a ladder. All train the same function with the samples in
/// the same order; sums are added in other orders, so that the weights of two rungs differ by rounding. Each rung gives
/// its own bits on every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pipeline {
    /// One kernel per operation; after each step the host fetches its losses and hits
    Naive,
    /// The kernels of `naive`; a step is queued as a whole, and nothing is fetched before the epoch's end
    Deferred,
    /// The kernels of `deferred`; a thread decodes the next batch and a stream copies it while the device trains on this one
    Overlapped,
    /// Few kernels a step, five for three layers, or three on a GPU with small batches: products on tiles in shared memory,
    /// with bias, ReLU, loss and update in them; at most 16 classes
    Fused,
    /// `fused`, recorded over up to 64 steps that are then queued by one call
    Graph,
    /// Up to 1024 steps in one launch, during which the weights stay on the multiprocessors; two hidden layers, batches of
    /// at most 64, no momentum
    Resident,
}

impl Pipeline {
    /// What the command line calls it.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it, or the rung that trains where it cannot, has kernels of this precision: one kernel per operation is of
    /// `f32` only.
    pub fn has(self, precision: Precision) -> bool {
        precision == Precision::F32 || self.is_fused()
    }

    /// The pipelines that have kernels of this precision, as the command line lists them.
    pub fn with(precision: Precision) -> String {
        let all = Pipeline::value_variants().iter().filter(|pipeline| pipeline.has(precision));
        all.map(|pipeline| pipeline.name()).collect::<Vec<_>>().join(", ")
    }

    /// Whether the fused kernels evaluate the network, and train it where nothing else does.
    pub(super) fn is_fused(self) -> bool {
        match self {
            Pipeline::Naive | Pipeline::Deferred | Pipeline::Overlapped => false,
            Pipeline::Fused | Pipeline::Graph | Pipeline::Resident => true,
        }
    }
}
