//! Runs a grid: one cluster after the other, or all at once in a cooperative grid. Concurrent blocks, and their threads,
//! take turns. The blocks of a cluster run up to the cluster barrier, and go on once all threads of the cluster have arrived,
//! or run until their threads wait for stores.

use core::ops::Range;

use super::block::Block;
use super::grid::{Grid, Turns, unravel};
use super::polls::Turn;
use super::shared::Shared;
use super::thread::{State, Thread};
use super::wait::Wait;
use crate::error::{Cause, Fault};
use crate::instr::SINK;

/// Nanoseconds that pass when all threads have polled in vain: then only the clock can end the wait.
const WAITING_NANOS: u64 = 100_000;

/// A running cluster.
struct Cluster<'a> {
    shared: Shared,
    blocks: Vec<Block<'a>>,
}

impl<'a> Cluster<'a> {
    /// Creates the cluster that starts with block `first`.
    fn new(grid: &'a Grid<'_>, first: u64) -> Cluster<'a> {
        let stride = grid.shared.iter().map(|&(_, end)| end).max().unwrap_or(0);
        // Address patterns are then the same in all blocks.
        let stride = stride.next_multiple_of(1024) as usize;
        let shared = Shared::new(stride, grid.cluster as usize);
        let ctaid = |rank: u32| unravel(first + u64::from(rank), grid.grid);
        let block = |rank| Block::new(grid, ctaid(rank), rank);
        Cluster { shared, blocks: (0..grid.cluster).map(block).collect() }
    }

    fn has_ended(&self) -> bool {
        self.shared.has_ended.iter().all(|&has_ended| has_ended)
    }

    /// Gives each block a turn, and releases the threads that have met. Returns the turn's result.
    fn run(&mut self, turns: Turns) -> Result<Turn, Box<Fault>> {
        let Cluster { shared, blocks } = self;
        let (mut whole, len) = (Turn::Stood, blocks.len());
        for rank in turns.of(len) {
            if shared.has_ended[rank] {
                continue;
            }
            whole = whole.with(blocks[rank].run(shared)?);
            let has_exited = |state: &State| matches!(state, State::Exited);
            if blocks[rank].threads.iter().all(|thread| has_exited(&thread.state)) {
                whole = Turn::Moved;
                shared.has_ended[rank] = true;
                let memory = rank * shared.stride..(rank + 1) * shared.stride;
                shared.flights.check_end(&memory).map_err(|cause| blocks[rank].fault(0, *cause))?;
                shared.memory.forget(memory);
            }
        }
        let is_ready =
            |block: &Block<'_>| block.threads.iter().any(|thread| matches!(thread.state, State::Ready));
        // A thread that polls may still arrive at the barrier.
        if !self.has_ended() && !self.blocks.iter().any(is_ready) {
            release(&mut self.blocks)?;
            self.shared.have_met = true;
            whole = Turn::Moved;
        }
        Ok(whole)
    }
}

impl Grid<'_> {
    /// Runs all clusters of blocks, x fastest.
    pub fn run(&self) -> Result<(), Box<Fault>> {
        let [x, y, z] = self.grid;
        let blocks = u64::from(x) * u64::from(y) * u64::from(z);
        let together = if self.is_cooperative { blocks } else { self.cluster.into() };
        (0..blocks).step_by(together.max(1) as usize).try_for_each(|first| run(self, first..first + together))
    }
}

/// Runs whole clusters of blocks to their end, all of them concurrently.
fn run(grid: &Grid<'_>, blocks: Range<u64>) -> Result<(), Box<Fault>> {
    let mut clusters: Vec<Cluster<'_>> =
        blocks.step_by(grid.cluster as usize).map(|first| Cluster::new(grid, first)).collect();
    if grid.turns == Turns::Descending {
        clusters.reverse();
    }
    while !clusters.iter().all(Cluster::has_ended) {
        let mut whole = Turn::Stood;
        for cluster in clusters.iter_mut().filter(|cluster| !cluster.has_ended()) {
            whole = whole.with(cluster.run(grid.turns)?);
        }
        grid.progress.is_quiet.set(whole != Turn::Moved);
        match whole {
            Turn::Moved => {}
            Turn::Looked => grid.pass(WAITING_NANOS),
            Turn::Stood => return Err(why_stuck(&mut clusters)),
        }
    }
    Ok(())
}

/// The fault of threads that wait in vain. The first that exists of: a thread that waits for a phase that lacks only bytes,
/// one that waits for others of its block, one that waits for any phase, one that waits for stores.
fn why_stuck(clusters: &mut [Cluster<'_>]) -> Box<Fault> {
    let mut found: Vec<(u32, usize, usize, usize, Box<Cause>)> = Vec::new();
    for (number, Cluster { shared, blocks }) in clusters.iter_mut().enumerate() {
        for (rank, block) in blocks.iter_mut().enumerate() {
            if let Some((at, cause)) = block.why_waiting() {
                found.push((1, number, rank, at, cause));
            }
            let ready = |(_, thread): &(usize, &mut Thread)| matches!(thread.state, State::Ready);
            for (at, thread) in block.threads.iter_mut().enumerate().filter(ready) {
                let phase = thread.polls.phase.and_then(|(at, pc)| Some((shared.barriers.get(&at)?, pc)));
                match (phase, thread.frames.last_mut()) {
                    (Some((barrier, pc)), Some(frame)) => {
                        // It has polled already, so its pc is after the wait.
                        frame.pc = pc;
                        let order = if barrier.lacks_bytes_alone() { 0 } else { 2 };
                        found.push((order, number, rank, at, barrier.lacks().into()));
                    }
                    _ => found.push((3, number, rank, at, Cause::Stuck.into())),
                }
            }
        }
    }
    let first = found.into_iter().min_by_key(|&(order, ..)| order);
    let (_, number, rank, at, cause) = first.unwrap_or_else(|| (3, 0, 0, 0, Cause::Stuck.into()));
    clusters[number].blocks[rank].fault(at, *cause)
}

/// Releases all threads that wait at the barrier, if all do.
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
