//! The emulator's counts, which one program writes and another one reads.

use serde::{Deserialize, Serialize};

/// Counts of the warps' operations in the launches of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WarpCounts {
    /// Launches.
    pub launches: usize,
    /// Requests to global memory.
    pub requests: u64,
    /// 32-byte sectors touched by loads, summed over requests.
    pub sectors_loaded: u64,
    /// 32-byte sectors touched by stores, summed over requests.
    pub sectors_stored: u64,
    /// Atomic operations of warps on global memory.
    pub atomics: u64,
    /// Passes over shared memory.
    pub wavefronts: u64,
    /// Shared memory passes beyond the least number.
    pub bank_conflicts: u64,
    /// Requests to local memory.
    pub local: u64,
    /// Passes over constant memory.
    pub constant: u64,
    /// Divergent branches.
    pub divergent_branches: u64,
    /// The average share of a warp's threads that execute an instruction.
    pub efficiency: f64,
    /// PTX instructions executed by warps.
    pub instructions: u64,
}
