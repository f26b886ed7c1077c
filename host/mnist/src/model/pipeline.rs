//! The rungs of the training ladder.

use clap::ValueEnum as _;

use super::precision::Precision;

/// How the kernels of a step are chosen and queued: the rungs of a ladder. All rungs train the same network on the samples in
/// the same order. They add in different orders, so their weights differ by rounding. Each rung gives the same bits on every
/// run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Pipeline {
    /// One kernel per operation; the host fetches losses and hits after each step
    Naive,
    /// The kernels of `naive`; the host queues whole steps and fetches losses and hits once per epoch
    Deferred,
    /// The kernels of `deferred`; a thread decodes the next batch and a stream copies it while the device trains
    Overlapped,
    /// Five kernels per step of three layers, or three on a GPU with small batches: tiled matrix multiplications fused with
    /// bias, ReLU, loss and update; at most 16 classes
    Fused,
    /// `fused`, with up to 64 steps recorded as a CUDA graph and queued with one call
    Graph,
    /// Up to 1024 steps per launch, with the weights kept on the multiprocessors; two hidden layers, batches of at most 64,
    /// no momentum
    Resident,
}

impl Pipeline {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Whether it, or the rung that replaces it, has kernels of this precision. Pipelines with one kernel per operation have
    /// only `f32`.
    pub fn has(self, precision: Precision) -> bool {
        precision == Precision::F32 || self.is_fused()
    }

    /// Lists the pipelines with kernels of this precision, as on the command line.
    pub fn with(precision: Precision) -> String {
        let all = Pipeline::value_variants().iter().filter(|pipeline| pipeline.has(precision));
        all.map(|pipeline| pipeline.name()).collect::<Vec<_>>().join(", ")
    }

    /// Whether it evaluates the network with the fused kernels, and falls back to them in training.
    pub(super) fn is_fused(self) -> bool {
        match self {
            Pipeline::Naive | Pipeline::Deferred | Pipeline::Overlapped => false,
            Pipeline::Fused | Pipeline::Graph | Pipeline::Resident => true,
        }
    }
}
