//! The shared memory of a cluster, and what happens to it.

use std::collections::BTreeMap;

use super::grid::Exec;
use super::pending::Flights;
use super::phase::Barrier;
use super::shadow::Memory;
use super::watch::Pins;
use crate::error::Cause;

/// Bytes whose last write is recorded together.
const UNIT: u64 = 16;

/// The shared memory of all blocks of a cluster, one block after the other.
#[derive(Default)]
pub(crate) struct Shared {
    pub memory: Memory,
    /// Its mbarriers, by offset.
    pub barriers: BTreeMap<usize, Barrier>,
    /// The copies in flight to it.
    pub flights: Flights,
    pub unfenced: Unfenced,
    /// What pending `wgmma`s read from it.
    pub pins: Pins,
    /// Threads that have arrived at a barrier of a block without waiting. By block rank and barrier number: the barrier's
    /// thread count, and the arrivals so far.
    pub arrivals: BTreeMap<(u32, u32), (u32, usize)>,
    /// Bytes per block.
    pub stride: usize,
    /// By rank, whether all threads have exited.
    pub has_ended: Vec<bool>,
    /// Whether the blocks have met at the cluster barrier, so that each knows that the others have started.
    pub have_met: bool,
}

impl Shared {
    /// The undefined memory of `blocks` blocks.
    pub fn new(stride: usize, blocks: usize) -> Shared {
        Shared {
            memory: Memory::new(stride * blocks),
            unfenced: Unfenced::new(stride * blocks),
            stride,
            has_ended: vec![false; blocks],
            ..Shared::default()
        }
    }

    /// The offset of byte `offset` of a block.
    pub fn at(&self, rank: u32, offset: u64) -> usize {
        rank as usize * self.stride + offset as usize
    }

    /// Checks that the block `own` may access the memory of block `rank` now.
    pub fn check_life(&self, rank: u32, own: u32) -> Exec {
        let reason = match self.has_ended.get(rank as usize) {
            Some(_) if rank == own => return Ok(()),
            Some(true) => "has exited",
            Some(false) if !self.have_met => "may not have started, for no barrier of the cluster says so",
            Some(false) => return Ok(()),
            None => "does not exist",
        };
        Err(Cause::Cluster(format!(
            "an access to the shared memory of block {rank} of the cluster, which {reason}"
        ))
        .into())
    }
}

/// Writes to shared memory since the last `fence.proxy.async`, except those by bulk copies.
#[derive(Debug, Default)]
pub(crate) struct Unfenced {
    /// For each 16 bytes, one plus the number of fences before the last write.
    after: Vec<u32>,
    fences: u32,
    /// The number of fences of mbarriers.
    of_barriers: u32,
}

impl Unfenced {
    /// Creates the record of `bytes` undefined bytes.
    pub fn new(bytes: usize) -> Unfenced {
        Unfenced { after: vec![0; bytes.div_ceil(UNIT as usize)], fences: 0, of_barriers: 0 }
    }

    /// Records a thread's write, which does not cross a multiple of 16.
    #[inline]
    pub fn write(&mut self, at: usize) {
        self.after[at / UNIT as usize] = self.fences + 1;
    }

    /// Records a bulk copy's write of a multiple of 16 bytes.
    pub fn copy(&mut self, at: usize, bytes: usize) {
        let unit = UNIT as usize;
        self.after[at / unit..][..bytes / unit].fill(0);
    }

    /// Records that a thread of the cluster executes the fence.
    pub fn fence(&mut self, barriers_alone: bool) {
        self.of_barriers += 1;
        self.fences += u32::from(!barriers_alone);
    }

    /// The number of mbarrier fences so far.
    pub fn of_barriers(&self) -> u32 {
        self.of_barriers
    }

    /// Whether a fence followed the last thread's write to each of these bytes, a multiple of 16.
    pub fn are_fenced(&self, at: usize, bytes: usize) -> bool {
        let unit = UNIT as usize;
        self.after[at / unit..][..bytes / unit].iter().all(|&after| after <= self.fences)
    }
}
