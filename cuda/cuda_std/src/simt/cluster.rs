//! A unit of work for one OS thread: a block, the blocks of a cluster, or the blocks of a cooperative grid.
//!
//! Each block has its own scheduler. The schedulers take turns: each lets its threads run until all have returned or
//! wait for another block. When all threads of a cluster wait at its barrier, they go on. In each turn of a block, its
//! threads that wait for words are checked once. If no thread can continue during a sweep over all blocks, that is a
//! fault: none ever will, because no other code writes.
//!
//! A block's shared memory becomes uninitialised when the block starts, and again when it has ended. So a kernel that
//! writes to a block before it runs, or reads from one after it has ended, gets wrong results here, although the memory
//! still exists.

use core::cell::RefCell;
use core::slice;
use core::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::block::{Block, Member};
use super::context;
use super::coroutine::Scheduler;
use super::fault::Fault;
use super::fiber::{MOST_IDLE_FIBERS, Work};
use super::grid::Grid;
use super::schedule::Random;
use super::shared::{self, BlockShared};
use super::stuck::{self, View};
use crate::launch::LaunchConfig;

/// The number of threads of clusters that may have a stack at the same time.
const MOST_THREADS: u64 = 16 * 1024;

/// The number of idle fibers up to which a cooperative grid keeps its own.
const MOST_IDLE_COOPERATIVE: usize = 8192;

/// Cooperative grids of more threads run one at a time in the process, since all of them have a stack.
const LARGE_GRID: u64 = 4096;

static LARGE_GRIDS: Mutex<()> = Mutex::new(());

thread_local! {
    static SHARED: RefCell<Vec<(u32, BlockShared)>> = const { RefCell::new(Vec::new()) };
}

/// Returns the number of OS threads that may run clusters of this launch at the same time.
pub(super) fn most_workers(config: &LaunchConfig) -> u64 {
    if config.cluster == 1 {
        return u64::MAX;
    }
    (MOST_THREADS / (u64::from(config.cluster) * config.block.volume())).max(1)
}

/// Runs all threads of the unit of work with this number: a block, the blocks of a cluster or, in a cooperative launch, all
/// blocks of the grid.
pub(super) fn run_unit(grid: &Grid<'_>, unit: u64) -> Result<(), Box<Fault>> {
    shared::poison_statics();
    let size = grid.blocks_of_unit();
    let is_large = grid.is_cooperative && size * grid.config.block.volume() > LARGE_GRID;
    let _turn = (is_large && !context::is_inside())
        .then(|| LARGE_GRIDS.lock().unwrap_or_else(PoisonError::into_inner));
    let first = unit * size;
    // The random numbers of a block, in a launch with a seed.
    let random = |number: u64| Random::of(grid, number);
    if size == 1 && !grid.is_cooperative {
        // The same as below without the vectors.
        let member = Member::new(grid);
        let block = Block::new(grid, grid.config.grid.unravel(first), slice::from_ref(&member), 0);
        let work = Work::new(&block);
        let mut scheduler = Scheduler::new(&work, random(first));
        let result = run_together(slice::from_mut(&mut scheduler), 1, None);
        scheduler.end(MOST_IDLE_FIBERS);
        member.keep_shared();
        return result;
    }
    let cluster = grid.config.cluster as usize;
    let members: Vec<Member> = (0..size).map(|_| Member::new(grid)).collect();
    let clusters = members.chunks(cluster);
    let blocks: Vec<Block<'_>> = clusters
        .flat_map(|members| (0..cluster).map(move |rank| (members, rank)))
        .zip(first..)
        .map(|((members, rank), number)| Block::new(grid, grid.config.grid.unravel(number), members, rank))
        .collect();
    let works: Vec<Work<'_>> = blocks.iter().map(Work::new).collect();
    let mut schedulers: Vec<Scheduler<'_>> =
        works.iter().zip(first..).map(|(work, number)| Scheduler::new(work, random(number))).collect();
    let result = run_together(&mut schedulers, cluster, Random::of(grid, !unit));
    // A cooperative grid may have all fibers that can be kept, so other OS threads would get none.
    let most = if grid.is_cooperative { MOST_IDLE_COOPERATIVE } else { MOST_IDLE_FIBERS };
    schedulers.into_iter().for_each(|scheduler| scheduler.end(most));
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

/// Runs blocks, sorted by number, in clusters of `cluster` blocks. With random numbers, their turns are shuffled.
fn run_together(
    blocks: &mut [Scheduler<'_>],
    cluster: usize,
    random: Option<Random>,
) -> Result<(), Box<Fault>> {
    let outer = context::enter(core::ptr::null());
    let result = start_and_meet(blocks, cluster, random);
    if let Err(fault) = &result {
        // The threads of the block at fault are unwound; now unwind those of the others.
        blocks.iter_mut().for_each(|block| drop(block.fail(Fault::clone(fault))));
    }
    context::enter(outer);
    result
}

fn start_and_meet(
    blocks: &mut [Scheduler<'_>],
    cluster: usize,
    mut random: Option<Random>,
) -> Result<(), Box<Fault>> {
    // Empty without a seed: the blocks run in order, and a single block needs no allocation.
    let mut turns: Vec<usize> = random.iter().flat_map(|_| 0..blocks.len()).collect();
    let mut shuffle = |turns: &mut Vec<usize>| random.iter_mut().for_each(|random| random.shuffle(turns));
    shuffle(&mut turns);
    for turn in 0..blocks.len() {
        let number = turns.get(turn).copied().unwrap_or(turn);
        let block = &mut blocks[number];
        if turn > 0 {
            block.block().shared.poison();
        }
        block.start_all()?;
        block.advance()?;
        note_end(block, number % cluster)?;
    }
    let (mut goes_on, mut is_downwards) = (Vec::new(), false);
    while !blocks.iter().all(Scheduler::has_ended) {
        // For each cluster, whether all its threads have reached its barrier.
        goes_on.clear();
        goes_on.extend(blocks.chunks(cluster).map(has_met));
        let mut any = goes_on.contains(&true);
        shuffle(&mut turns);
        // Sweeps alternate in direction, so chains of blocks that wait for each other end within a sweep or two.
        is_downwards = !is_downwards && blocks.len() > cluster;
        for turn in 0..blocks.len() {
            let in_order = if is_downwards { blocks.len() - 1 - turn } else { turn };
            let number = turns.get(turn).copied().unwrap_or(in_order);
            let block = &mut blocks[number];
            if block.has_ended() {
                continue;
            }
            if goes_on[number / cluster] {
                block.release_cluster()?;
            }
            any |= block.take_turn()?;
            note_end(block, number % cluster)?;
        }
        if !any {
            return Err(Box::new(why_stuck(blocks, cluster)));
        }
    }
    Ok(())
}

/// Returns whether all threads of the cluster wait at its barrier.
fn has_met(blocks: &[Scheduler<'_>]) -> bool {
    let barrier = blocks.iter().find_map(Scheduler::in_cluster);
    barrier.is_some_and(|barrier| blocks.iter().all(|block| block.all_wait_at(barrier)))
}

/// The fault of blocks in which no thread can continue.
#[cold]
fn why_stuck(blocks: &[Scheduler<'_>], cluster: usize) -> Fault {
    fn views<'a>(blocks: &[Scheduler<'a>]) -> Vec<View<'a>> {
        blocks.iter().map(Scheduler::view).collect()
    }
    let of_phase = |block: &Scheduler<'_>| block.waits_for_phase().then(|| block.view().why_stuck())?;
    if let Some(fault) = blocks.iter().find_map(of_phase) {
        return fault;
    }
    let waits_for_words = |blocks: &&[Scheduler<'_>]| blocks.iter().any(Scheduler::waits_for_words);
    let mut alone = blocks.chunks(cluster).filter(|blocks| !waits_for_words(blocks));
    let fault = alone.find_map(|blocks| stuck::why_cluster_stuck(&views(blocks)));
    fault
        .or_else(|| stuck::why_words_stuck(&views(blocks)))
        .unwrap_or_else(|| stuck::unknown(blocks[0].block()))
}

/// Notes for the other blocks of the cluster, if there are any, that a block has ended.
fn note_end(block: &Scheduler<'_>, rank: usize) -> Result<(), Box<Fault>> {
    if !block.has_ended() {
        return Ok(());
    }
    let block = block.block();
    let mut fault = block.why_in_flight().or_else(|| block.why_overrun());
    if block.cluster.len() > 1 {
        block.cluster[rank].has_ended.store(true, Ordering::Relaxed);
        fault = fault.or_else(|| block.why_read());
        block.shared.poison();
    }
    fault.map_or(Ok(()), |fault| Err(Box::new(fault)))
}
