//! A cluster: its blocks run in turns up to the cluster's barrier, and go on once all threads of all of them have come.

use std::collections::BTreeMap;

use super::block::Block;
use super::mbarrier::Barrier;
use super::thread::{Cx, State};
use super::warp::Wait;
use super::{Exec, Grid, Memory, Turns};
use crate::error::{Cause, Fault};
use crate::instr::SINK;

/// The shared memory of all blocks of a cluster, one after the other.
pub(super) struct Shared {
    pub memory: Memory,
    /// The barriers in it, by their place.
    pub barriers: BTreeMap<usize, Barrier>,
    /// Bytes of a block.
    stride: usize,
    /// By rank, whether all threads have exited.
    has_ended: Vec<bool>,
    /// Whether the blocks know of each other, by the cluster's barrier, that they have started.
    have_met: bool,
}

impl Shared {
    /// Where the byte `offset` of a block is.
    pub fn at(&self, rank: u32, offset: u64) -> usize {
        rank as usize * self.stride + offset as usize
    }

    /// Whether the block `own` may use the memory of block `rank` now.
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

/// Runs the blocks of the cluster that starts at `first` to their end.
pub(super) fn run(grid: &Grid<'_>, first: [u32; 3]) -> Result<(), Box<Fault>> {
    let stride = grid.shared.iter().map(|&(_, end)| end).max().unwrap_or(0) as usize;
    let blocks = grid.cluster as usize;
    let memory = Memory::new(stride * blocks);
    let barriers = BTreeMap::new();
    let mut shared = Shared { memory, barriers, stride, has_ended: vec![false; blocks], have_met: false };
    let ctaid = |rank: u32| [first[0] + rank, first[1], first[2]];
    let mut all: Vec<Block<'_>> = (0..grid.cluster).map(|rank| Block::new(grid, ctaid(rank), rank)).collect();
    loop {
        for turn in 0..blocks {
            let rank = match grid.turns {
                Turns::Ascending => turn,
                Turns::Descending => blocks - 1 - turn,
            };
            all[rank].run(&mut shared)?;
            let has_exited = |state: &State| matches!(state, State::Exited);
            if all[rank].threads.iter().all(|thread| has_exited(&thread.state)) {
                shared.has_ended[rank] = true;
                shared.memory.forget(rank * stride..(rank + 1) * stride);
            }
        }
        if shared.has_ended.iter().all(|&has_ended| has_ended) {
            return Ok(());
        }
        release(&mut all)?;
        shared.have_met = true;
    }
}

/// Lets all threads go on that wait at the barrier, if all do.
fn release(blocks: &mut [Block<'_>]) -> Result<(), Box<Fault>> {
    let waits = |block: &Block<'_>, at: usize| match block.threads[at].state {
        State::Waits(Wait::Cluster { aligned }) => Some((aligned, block.place(at))),
        _ => None,
    };
    let everybody = |blocks: &[Block<'_>]| {
        let threads = |(rank, block): (usize, &Block<'_>)| (0..block.threads.len()).map(move |at| (rank, at));
        blocks.iter().enumerate().flat_map(threads).collect::<Vec<_>>()
    };
    let everybody = everybody(blocks);
    let first = everybody.iter().find_map(|&(rank, at)| Some((rank, at, waits(&blocks[rank], at)?)));
    let Some((first_rank, first_at, (aligned, place))) = first else { return Ok(()) };
    let comes = |&&(rank, at): &&(usize, usize)| {
        waits(&blocks[rank], at)
            .is_some_and(|(other, there)| other == aligned && (!aligned || there == place))
    };
    if let Some(&(rank, at)) = everybody.iter().find(|thread| !comes(thread)) {
        let (block, missing) = (blocks[rank].ctaid, blocks[rank].threads[at].ids.tid);
        let cause = Cause::ClusterBarrier { block, missing, instead: blocks[rank].doing(at) };
        return Err(blocks[first_rank].fault(first_at, cause));
    }
    for (rank, at) in everybody {
        blocks[rank].resume(at, [(SINK, 0), (SINK, 0)]);
    }
    Ok(())
}

impl Cx<'_> {
    /// `barrier.cluster.arrive`.
    pub fn arrive(&mut self) -> Exec {
        if core::mem::replace(self.has_arrived, true) {
            let reason = "barrier.cluster.arrive after an arrival that was not waited for";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        Ok(())
    }

    /// `barrier.cluster.wait`.
    pub fn at_cluster_barrier(&mut self, aligned: bool) -> Exec<Wait> {
        if !core::mem::take(self.has_arrived) {
            let reason = "barrier.cluster.wait without barrier.cluster.arrive before it";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        Ok(Wait::Cluster { aligned })
    }
}
