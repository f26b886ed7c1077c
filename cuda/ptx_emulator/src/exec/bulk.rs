//! `cp.async.bulk` (PTX ISA, "Data Movement and Conversion Instructions: Bulk copy").
//!
//! A copy to shared memory is made when a phase lacks nothing but bytes and a thread has looked at it for the second time:
//! until then, when all others have had a turn, the target is as if nothing had been written to it.

use std::collections::BTreeSet;

use super::Exec;
use super::memory::{Access, Place};
use super::thread::{Cx, Ids};
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{BulkCopy, Slot, Space};

/// What addresses and sizes are multiples of.
pub(super) const UNIT: u64 = 16;

/// A copy that has been started.
#[derive(Clone, Copy, Debug)]
struct Flight {
    target: Place,
    source: Place,
    bytes: u64,
    /// The place of its barrier.
    barrier: usize,
    /// The PTX line that started it.
    line: u32,
}

/// The copies on their way to the shared memory of a cluster.
#[derive(Debug, Default)]
pub(super) struct Flights {
    all: Vec<Flight>,
    /// Who has looked at a phase that they would complete: the place of its barrier, rank, warp and lane.
    looked: BTreeSet<(usize, [u32; 3])>,
}

impl Flights {
    /// What is wrong when a block ends whose shared memory is in this range.
    pub fn check_end(&self, block: core::ops::Range<usize>) -> Exec {
        let comes_here = |flight: &&Flight| block.contains(&flight.barrier);
        self.all.iter().find(comes_here).map_or(Ok(()), |Flight { bytes, line, .. }| {
            Err(Cause::InFlight(format!(
                "the copy of {bytes} bytes of PTX line {line} was on its way when the block ended"
            ))
            .into())
        })
    }

    /// Takes those that count at a barrier, if a thread looks at it for the second time.
    fn taken(&mut self, barrier: usize, ids: Ids) -> Vec<Flight> {
        let is_second = !self.looked.insert((barrier, [ids.rank, ids.warp, ids.lane]));
        if !is_second || !self.all.iter().any(|flight| flight.barrier == barrier) {
            return Vec::new();
        }
        self.looked.retain(|(other, _)| *other != barrier);
        self.all.extract_if(.., |flight| flight.barrier == barrier).collect()
    }
}

impl Cx<'_> {
    /// `cp.async.bulk` to shared memory.
    pub fn start_bulk_copy(&mut self, copy: &BulkCopy) -> Exec {
        let bytes = self.bulk_bytes(copy.bytes)?;
        let target = self.places(copy.target.space, self.address(&copy.target)?, bytes, Access::Store)?;
        let source = self.places(copy.source.space, self.address(&copy.source)?, bytes, Access::Load)?;
        let barrier = self.fenced_barrier(&copy.barrier)?;
        for at in (0..bytes).step_by(8) {
            self.store(target.plus(at), 8, Bits::UNDEFINED);
        }
        let line = self.line();
        self.shared.flights.looked.retain(|(other, _)| *other != barrier);
        self.shared.flights.all.push(Flight { target, source, bytes, barrier, line });
        Ok(())
    }

    /// The size of a bulk copy.
    pub fn bulk_bytes(&self, bytes: Slot) -> Exec<u64> {
        match self.value(bytes)? {
            bytes if bytes > 0 && bytes.is_multiple_of(UNIT) => Ok(bytes),
            bytes => Err(Cause::Unsupported(format!("a bulk copy of {bytes} bytes")).into()),
        }
    }

    /// Checks bytes of one allocation, the first of them at a multiple of 16.
    pub fn places(&self, space: Space, address: u64, bytes: u64, access: Access) -> Exec<Place> {
        let first = self.place_of(space, address, UNIT, access)?;
        for at in (UNIT..bytes).step_by(UNIT as usize) {
            self.place_of(space, address + at, UNIT, access)?;
        }
        Ok(first)
    }

    /// The copies that a phase lacks are made, if it lacks nothing else and the thread looks at it again.
    pub fn land(&mut self, barrier: usize) -> Exec {
        for flight in self.shared.flights.taken(barrier, self.ids) {
            let Flight { target, source, bytes, .. } = flight;
            for at in 0..bytes {
                let byte = self.load(source.plus(at), 1);
                self.store(target.plus(at), 1, byte);
            }
            if let Place::Shared(at) = target {
                self.shared.unfenced.copy(at, bytes as usize);
            }
            self.complete_bytes(barrier, bytes)?;
        }
        Ok(())
    }
}
