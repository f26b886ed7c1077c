//! What the emulator counted, as one program writes it and another one reads it.

use serde::{Deserialize, Serialize};

/// What warps did in the launches of one run, as the emulator counts it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarpCounts {
    /// Launches.
    pub launches: usize,
    /// Requests to global memory.
    pub requests: u64,
    /// Sectors of 32 bytes that loads touched, a request at a time.
    pub sectors_loaded: u64,
    /// As many of stores.
    pub sectors_stored: u64,
    /// Atomic operations of warps on global memory.
    pub atomics: u64,
    /// Passes over shared memory.
    pub wavefronts: u64,
    /// Those beyond the least.
    pub bank_conflicts: u64,
    /// Requests to local memory.
    pub local: u64,
    /// Passes over constant memory.
    pub constant: u64,
    /// Branches whose lanes parted.
    pub divergent_branches: u64,
    /// The part of a warp's threads that executed an instruction on average.
    pub efficiency: f64,
    /// Instructions of the PTX that warps executed.
    pub instructions: u64,
}
