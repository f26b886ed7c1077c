//! The arguments and the launch of the kernel on the host.

use cuda_std::launch::LaunchConfig;

use super::extents::{Extents, TILE};
use super::{ResidentNetworkLaunch, ResidentStepsLaunch};

/// The arguments of [`train`](fn@super::train).
pub struct ResidentLaunch {
    /// The parameters.
    pub network: ResidentNetworkLaunch,
    /// The steps.
    pub steps: ResidentStepsLaunch,
}

/// How a kernel divides its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidentShape {
    /// Warps of a block.
    pub warps: usize,
    /// Tiles of features that each warp has.
    pub tiles: usize,
    /// 2 for sums as accurate as those of `f32`, 1 for operands of `f16`.
    pub halves: usize,
}

impl ResidentShape {
    /// Returns the largest number of features.
    pub fn features(&self) -> usize {
        self.warps * self.tiles * TILE - 1
    }

    /// Returns the launch. `extents` have been checked.
    pub fn config(&self, extents: &Extents) -> LaunchConfig {
        let shared = extents.shared_bytes(self.warps) as u32;
        LaunchConfig::new(extents.blocks() as u32, 32 * self.warps as u32).with_shared_bytes(shared)
    }
}
