//! What the blocks of one launch share.

use std::sync::Arc;

use super::limit::Clock;
use super::scopes::Scopes;
use super::watch::Watch;
use super::zones::Region;
use crate::launch::LaunchConfig;

/// What the blocks of one launch share.
pub(crate) struct Grid<'a> {
    pub kernel: &'static str,
    pub config: LaunchConfig,
    pub body: &'a (dyn Fn() + Sync),
    /// Whether its blocks are all alive at once, and may wait for each other.
    pub is_cooperative: bool,
    /// Shuffles the order of blocks, warps and threads.
    pub seed: Option<u64>,
    pub atomic_scopes: Scopes,
    /// If the launch has a time limit.
    pub clock: Option<&'a Clock>,
    pub watch: Option<&'a Watch>,
    /// The memory of the test.
    #[cfg_attr(
        not(all(target_os = "linux", not(miri))),
        allow(dead_code, reason = "read where accesses to it are signals")
    )]
    pub regions: Vec<Arc<Region>>,
}

impl Grid<'_> {
    /// Returns the number of blocks of a unit of work.
    pub fn blocks_of_unit(&self) -> u64 {
        if self.is_cooperative { self.config.grid.volume() } else { self.config.cluster.into() }
    }
}
