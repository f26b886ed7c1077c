//! The arguments and the launch of the kernels on the host.

use cuda_std::launch::{LaunchConfig, RawBuffer};

use super::{HeadRowsLaunch, NextBatchLaunch};

/// The arguments of [`network_head`](fn@super::network_head).
pub struct HeadLaunch {
    /// The last layer of a batch.
    pub rows: HeadRowsLaunch,
    /// The batch of the next step.
    pub next: NextBatchLaunch,
}

impl NextBatchLaunch {
    /// No batch.
    pub const fn none() -> Self {
        Self {
            out: RawBuffer::NULL,
            labels_out: RawBuffer::NULL,
            images: RawBuffer::NULL,
            labels: RawBuffer::NULL,
            samples: 1,
            features: 0,
            batch: 0,
        }
    }
}

/// How a kernel divides its work.
#[derive(Clone, Copy, Debug)]
pub struct HeadShape {
    /// Threads of a block.
    pub block: u32,
    /// Lanes of a row.
    pub lanes: u32,
    /// Threads of a sample of the next batch.
    pub sample: u32,
}

impl HeadShape {
    /// Returns the blocks for `rows` rows.
    pub fn blocks(&self, rows: u32) -> u32 {
        rows.div_ceil(self.block / self.lanes)
    }

    /// Returns the launch for `rows` rows and a next batch of `samples`.
    pub fn config(&self, rows: u32, samples: u32) -> LaunchConfig {
        LaunchConfig::new(self.blocks(rows) + samples.div_ceil(self.block / self.sample), self.block)
    }
}
