//! Asynchronous copies on their way. Each lands as late as possible: when its thread waits for it, or when a phase lacks
//! only bytes and a thread polls it for the second time, after all others have had a turn.

use core::ops::Range;
use std::collections::{BTreeSet, VecDeque};

use super::bits::Bits;
use super::grid::Exec;
use super::space::Place;
use super::tile::Tile;
use crate::error::Cause;

/// What has been started and not waited for, by groups.
#[derive(Debug)]
pub(crate) struct Groups<T> {
    /// Not in a group yet.
    pub open: Vec<T>,
    pub groups: VecDeque<Vec<T>>,
}

impl<T> Default for Groups<T> {
    fn default() -> Groups<T> {
        Groups { open: Vec::new(), groups: VecDeque::new() }
    }
}

impl<T> Groups<T> {
    pub fn commit(&mut self) {
        self.groups.push_back(core::mem::take(&mut self.open));
    }

    /// The number of groups that a wait for all except the `left` latest completes.
    pub fn done(&self, left: u64) -> usize {
        self.groups.len().saturating_sub(usize::try_from(left).unwrap_or(usize::MAX))
    }

    /// Takes what a wait for all groups except the `left` latest completes.
    pub fn complete(&mut self, left: u64) -> Vec<T> {
        self.groups.drain(..self.done(left)).flatten().collect()
    }
}

/// A `cp.async`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copy {
    /// Offset in shared memory.
    pub target: u64,
    pub source: u64,
    pub size: u64,
    /// Bytes to copy; the rest becomes zeros.
    pub bytes: u64,
}

/// The target of a bulk copy to global memory.
#[derive(Debug)]
pub(crate) enum Target {
    /// Contiguous bytes.
    Bytes(Place),
    /// Contiguous `f32`, to which the source's are added.
    Sums(Place),
    /// A box of a tensor, from this offset of shared memory.
    Box(Tile, usize),
}

/// A bulk copy to global memory.
#[derive(Debug)]
pub(crate) struct Store {
    pub target: Target,
    pub source: Place,
    /// The source at that time, in units of 8 bytes.
    pub was: Vec<Bits>,
    /// Whether its thread has waited for the source to be read.
    pub is_read: bool,
    /// The PTX line that started it.
    pub line: u32,
}

/// The source of a copy that counts at a barrier.
#[derive(Debug)]
pub(crate) enum Source {
    /// The memory, read when the copy lands.
    Memory(Place),
    /// Bytes.
    Value(Vec<Bits>),
    /// The tensor, read when the copy lands, with zeros outside.
    Box(Tile),
}

/// A copy to shared memory that counts at a barrier.
#[derive(Debug)]
pub(crate) struct Flight {
    /// Offset in the cluster's shared memory.
    pub target: usize,
    pub source: Source,
    pub bytes: u64,
    /// The offset of its barrier.
    pub barrier: usize,
    /// The PTX line that started it.
    pub line: u32,
}

/// The copies in flight to the shared memory of a cluster.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    all: Vec<Flight>,
    /// Who has polled a phase that they would complete: the barrier's offset, and the thread's rank, warp and lane.
    looked: BTreeSet<(usize, [u32; 3])>,
}

impl Flights {
    pub fn start(&mut self, flight: Flight) {
        self.looked.retain(|(other, _)| *other != flight.barrier);
        self.all.push(flight);
    }

    /// Checks a block at its end, with its shared memory in this range.
    pub fn check_end(&self, block: &Range<usize>) -> Exec {
        let uses_it = |flight: &&Flight| {
            block.contains(&flight.barrier)
                || matches!(flight.source, Source::Memory(Place::Shared(at)) if block.contains(&at))
        };
        self.all.iter().find(uses_it).map_or(Ok(()), |Flight { bytes, line, .. }| {
            Err(Cause::InFlight(format!(
                "the copy of {bytes} bytes of PTX line {line} was on its way when a block ended that it reads or writes"
            ))
            .into())
        })
    }

    /// The PTX line of a copy in flight to some of these bytes.
    pub fn line_into(&self, bytes: &Range<usize>) -> Option<u32> {
        let overlaps = |flight: &&Flight| {
            flight.target < bytes.end && bytes.start < flight.target + flight.bytes as usize
        };
        self.all.iter().find(overlaps).map(|flight| flight.line)
    }

    /// Takes the copies that count at a barrier, if the thread polls it for the second time.
    pub fn take(&mut self, barrier: usize, thread: [u32; 3]) -> Vec<Flight> {
        let is_second = !self.looked.insert((barrier, thread));
        if !is_second || !self.all.iter().any(|flight| flight.barrier == barrier) {
            return Vec::new();
        }
        self.looked.retain(|(other, _)| *other != barrier);
        self.all.extract_if(.., |flight| flight.barrier == barrier).collect()
    }
}
