//! What runs on one OS thread at a time: a block, or the blocks of a cluster together.
//!
//! Each block has a scheduler of its own. They take turns: each lets its threads run until all have returned or wait
//! at the cluster's barrier. When all threads of all blocks wait there, they go on.
//!
//! A block's shared memory becomes uninitialised when the block starts, and again when it has ended. So a kernel that
//! writes to a block which may not run yet, or reads from one that may have left, gives wrong results here, while the
//! memory itself stays.

use core::cell::RefCell;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};

use super::block::{Block, Member};
use super::context;
use super::coroutine::Scheduler;
use super::fault::Fault;
use super::fiber::Work;
use super::schedule::Random;
use super::shared::{self, BlockShared};
use super::{Grid, stuck};
use crate::launch::{Dim3, LaunchConfig};

/// Threads of clusters that may have a stack at a time.
const MOST_THREADS: u64 = 16 * 1024;

thread_local! {
    static SHARED: RefCell<Vec<(u32, BlockShared)>> = const { RefCell::new(Vec::new()) };
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
    shared::poison_statics();
    let size = grid.config.cluster;
    let first = grid.config.grid.unravel(unit * u64::from(size));
    // With a seed: the random numbers of a block.
    let random = |rank: u32| Random::of(grid, unit * u64::from(size) + u64::from(rank));
    if size == 1 {
        // The same as below without the vectors.
        let member = Member::new(grid);
        let block = Block::new(grid, first, slice::from_ref(&member), 0);
        let work = Work::new(&block);
        let mut scheduler = Scheduler::new(&work, random(0));
        let result = run_together(slice::from_mut(&mut scheduler), None);
        scheduler.end();
        member.keep_shared();
        return result;
    }
    let members: Vec<Member> = (0..size).map(|_| Member::new(grid)).collect();
    let index = |rank| Dim3 { x: first.x + rank, ..first };
    let blocks: Vec<Block<'_>> =
        (0..size).map(|rank| Block::new(grid, index(rank), &members, rank as usize)).collect();
    let works: Vec<Work<'_>> = blocks.iter().map(Work::new).collect();
    let mut schedulers: Vec<Scheduler<'_>> =
        works.iter().zip(0..).map(|(work, rank)| Scheduler::new(work, random(rank))).collect();
    let result = run_together(&mut schedulers, Random::of(grid, !unit));
    schedulers.into_iter().for_each(Scheduler::end);
    members.into_iter().for_each(Member::keep_shared);
    result
}

impl Member {
    fn new(grid: &Grid<'_>) -> Self {
        Self { shared: take_shared(grid.config.shared_bytes), has_ended: AtomicBool::new(false) }
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

/// Runs the blocks of a cluster, which come by rank; with random numbers their turns come in a shuffled order.
fn run_together(blocks: &mut [Scheduler<'_>], random: Option<Random>) -> Result<(), Box<Fault>> {
    let outer = context::enter(core::ptr::null());
    let result = start_and_meet(blocks, random);
    if let Err(fault) = &result {
        // The threads of the block at fault are unwound; now those of the others.
        blocks.iter_mut().for_each(|block| drop(block.fail(Fault::clone(fault))));
    }
    context::enter(outer);
    result
}

fn start_and_meet(blocks: &mut [Scheduler<'_>], mut random: Option<Random>) -> Result<(), Box<Fault>> {
    // Empty without a seed: ranks in order, and no allocation for a block alone.
    let mut turns: Vec<usize> = random.iter().flat_map(|_| 0..blocks.len()).collect();
    let mut shuffle = |turns: &mut Vec<usize>| random.iter_mut().for_each(|random| random.shuffle(turns));
    shuffle(&mut turns);
    for turn in 0..blocks.len() {
        let rank = turns.get(turn).copied().unwrap_or(turn);
        let block = &mut blocks[rank];
        if turn > 0 {
            block.block().shared.poison();
        }
        block.start_all()?;
        until_barrier(block, rank)?;
    }
    while !blocks.iter().all(Scheduler::has_ended) {
        if blocks.iter().any(Scheduler::waits_for_phase) {
            if !blocks.iter().any(Scheduler::has_phase_left) {
                let stuck = blocks.iter().find_map(|block| block.view().why_stuck());
                return Err(Box::new(stuck.unwrap_or_else(|| blocks[0].why_stuck())));
            }
            shuffle(&mut turns);
            for turn in 0..blocks.len() {
                let rank = turns.get(turn).copied().unwrap_or(turn);
                until_barrier(&mut blocks[rank], rank)?;
            }
            continue;
        }
        let barrier = blocks.iter().find_map(Scheduler::in_cluster);
        if barrier.is_some_and(|barrier| !blocks.iter().all(|block| block.all_wait_at(barrier))) {
            let views: Vec<_> = blocks.iter().map(Scheduler::view).collect();
            if let Some(fault) = stuck::why_cluster_stuck(&views) {
                return Err(Box::new(fault));
            }
        }
        shuffle(&mut turns);
        for turn in 0..blocks.len() {
            let rank = turns.get(turn).copied().unwrap_or(turn);
            let block = &mut blocks[rank];
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
        cluster[rank].has_ended.store(true, Ordering::Relaxed);
        shared.poison();
    }
    Ok(())
}
