//! What runs on one OS thread at a time: a block, or the blocks of a cluster together.
//!
//! Each block has a scheduler of its own. They take turns: each lets its threads run until all have returned or wait
//! at the cluster's barrier. When all threads of all blocks wait there, they go on.
//!
//! A block's shared memory becomes uninitialised when the block starts, and again when it has ended. So a kernel that
//! writes to a block which may not run yet, or reads from one that may have left, gives wrong results here, while the
//! memory itself stays.

use core::cell::{Cell, RefCell};
use core::slice;

use super::Grid;
use super::context::{self, WARP_SIZE};
use super::fault::{Fault, FaultKind};
use super::fiber::Block;
use super::scheduler::Scheduler;
use super::shared::{self, BlockShared};
use crate::launch::{Dim3, LaunchConfig};

/// Threads of clusters that may have a stack at a time.
const MOST_THREADS: u64 = 16 * 1024;

thread_local! {
    static SHARED: RefCell<Vec<(u32, BlockShared)>> = const { RefCell::new(Vec::new()) };
}

/// A block as the others of its cluster see it.
pub(crate) struct Member {
    /// Its shared memory.
    pub shared: BlockShared,
    /// Whether all its threads have returned.
    pub has_ended: Cell<bool>,
}

/// How many OS threads may run clusters of this launch at a time.
pub(super) fn most_workers(config: &LaunchConfig) -> u64 {
    if config.cluster == 1 {
        return u64::MAX;
    }
    (MOST_THREADS / (u64::from(config.cluster) * config.block.volume())).max(1)
}

/// Runs all threads of the block with this number or, in a launch of clusters, of the cluster.
pub(super) fn run_unit(grid: &Grid<'_>, unit: u64) -> Result<(), Box<Fault>> {
    let size = grid.config.cluster;
    let first = grid.config.grid.unravel(unit * u64::from(size));
    if size == 1 {
        // The same as below without the vectors.
        let member = Member::new(grid);
        let block = block(grid, first, slice::from_ref(&member), 0);
        let mut scheduler = Scheduler::new(&block);
        let result = run_together(slice::from_mut(&mut scheduler));
        scheduler.end();
        member.keep_shared();
        return result;
    }
    let members: Vec<Member> = (0..size).map(|_| Member::new(grid)).collect();
    let index = |rank| Dim3 { x: first.x + rank, ..first };
    let blocks: Vec<Block<'_>> =
        (0..size).map(|rank| block(grid, index(rank), &members, rank as usize)).collect();
    let mut schedulers: Vec<Scheduler<'_>> = blocks.iter().map(Scheduler::new).collect();
    let result = run_together(&mut schedulers);
    schedulers.into_iter().for_each(Scheduler::end);
    members.into_iter().for_each(Member::keep_shared);
    result
}

impl Member {
    fn new(grid: &Grid<'_>) -> Self {
        Self { shared: take_shared(grid.config.shared_bytes), has_ended: Cell::new(false) }
    }

    /// Keeps the memory for another block.
    fn keep_shared(self) {
        SHARED.with(|pool| pool.borrow_mut().push((self.shared.dynamic().1, self.shared)));
    }
}

fn take_shared(dynamic_bytes: u32) -> BlockShared {
    let known = SHARED.with(|pool| {
        let mut pool = pool.borrow_mut();
        let at = pool.iter().position(|(bytes, _)| *bytes == dynamic_bytes)?;
        Some(pool.swap_remove(at).1)
    });
    match known {
        Some(shared) => {
            shared.reset();
            shared
        }
        None => BlockShared::new(dynamic_bytes),
    }
}

fn block<'a>(grid: &'a Grid<'a>, index: Dim3, cluster: &'a [Member], rank: usize) -> Block<'a> {
    shared::poison_statics();
    let threads = grid.config.block.volume() as u32;
    let live_lanes = (0..threads.div_ceil(WARP_SIZE))
        .map(|warp| Cell::new(u32::MAX >> (WARP_SIZE - (threads - warp * WARP_SIZE).min(WARP_SIZE))));
    Block {
        grid,
        index,
        threads,
        next_thread: Cell::new(0),
        live_lanes: live_lanes.collect(),
        shared: &cluster[rank].shared,
        cluster,
        fault: RefCell::new(None),
    }
}

/// Runs the blocks of a cluster, which come by rank.
fn run_together(blocks: &mut [Scheduler<'_>]) -> Result<(), Box<Fault>> {
    let outer = context::enter(core::ptr::null());
    let result = start_and_meet(blocks);
    if let Err(fault) = &result {
        // The threads of the block at fault are unwound; now those of the others.
        blocks.iter_mut().for_each(|block| drop(block.fail(Fault::clone(fault))));
    }
    context::enter(outer);
    result
}

fn start_and_meet(blocks: &mut [Scheduler<'_>]) -> Result<(), Box<Fault>> {
    for (rank, block) in blocks.iter_mut().enumerate() {
        if rank > 0 {
            block.block().shared.poison();
        }
        block.start_all()?;
        until_barrier(block, rank)?;
    }
    while !blocks.iter().all(Scheduler::has_ended) {
        if let Some(fault) = why_stuck(blocks) {
            return Err(Box::new(fault));
        }
        for (rank, block) in blocks.iter_mut().enumerate() {
            block.release_cluster()?;
            until_barrier(block, rank)?;
        }
    }
    Ok(())
}

/// Runs a block up to the cluster's barrier or its end.
fn until_barrier(block: &mut Scheduler<'_>, rank: usize) -> Result<(), Box<Fault>> {
    block.advance()?;
    let Block { cluster, shared, .. } = block.block();
    if cluster.len() > 1 && block.has_ended() {
        cluster[rank].has_ended.set(true);
        shared.poison();
    }
    Ok(())
}

/// The fault of a cluster whose threads do not all wait at one barrier.
fn why_stuck(blocks: &[Scheduler<'_>]) -> Option<Fault> {
    let (waiting, (thread, request)) =
        blocks.iter().find_map(|block| Some((block.block(), block.in_cluster()?)))?;
    let (block, missing) =
        blocks.iter().find_map(|block| Some((block, block.missing_in_cluster(request)?)))?;
    let kind = FaultKind::ClusterBarrierNotReached {
        barrier: request.name,
        block: block.block().index,
        missing: block.block().coordinates(missing),
        instead: block.instead(missing),
    };
    Some(waiting.fault_of(Some(thread), Some(request.location.into()), kind))
}
