//! `cp.async.bulk` to shared memory, and `st.async` (PTX ISA, "Data Movement and Conversion Instructions").
//!
//! A copy to shared memory lands as late as possible: when a phase lacks only bytes and a thread polls it for the second
//! time, after all others have had a turn. Until then the target is undefined.

use std::collections::BTreeSet;

use super::Exec;
use super::memory::{Access, Place};
use super::thread::{Cx, Ids};
use super::tile::Tile;
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{BulkCopy, Slot, Space, StoreAsync};

/// Addresses and sizes must be multiples of this.
pub(super) const UNIT: u64 = 16;

/// The source of a copy.
#[derive(Debug)]
enum Source {
    /// The memory, read when the copy lands.
    Memory(Place),
    /// Bytes.
    Value(Vec<Bits>),
    /// The tensor, read when the copy lands, with zeros outside.
    Box(Tile),
}

/// A copy in flight.
#[derive(Debug)]
struct Flight {
    target: Place,
    source: Source,
    bytes: u64,
    /// The offset of its barrier.
    barrier: usize,
    /// The PTX line that started it.
    line: u32,
}

/// The copies in flight to the shared memory of a cluster.
#[derive(Debug, Default)]
pub(super) struct Flights {
    all: Vec<Flight>,
    /// Who has polled a phase that they would complete: the barrier's offset, and the thread's rank, warp and lane.
    looked: BTreeSet<(usize, [u32; 3])>,
}

impl Flights {
    /// Checks a block at its end, with its shared memory in this range.
    pub fn check_end(&self, block: core::ops::Range<usize>) -> Exec {
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
    fn line_into(&self, bytes: core::ops::Range<usize>) -> Option<u32> {
        let overlaps = |flight: &&Flight| match flight.target {
            Place::Shared(at) => at < bytes.end && bytes.start < at + flight.bytes as usize,
            _ => false,
        };
        self.all.iter().find(overlaps).map(|flight| flight.line)
    }

    /// Takes the copies that count at a barrier, if the thread polls it for the second time.
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
        self.check_fenced(source, bytes)?;
        let barrier = self.fenced_barrier(&copy.barrier)?;
        self.start_flight((target, Source::Memory(source), bytes), barrier)
    }

    /// `st.async`.
    pub fn start_store(&mut self, store: &StoreAsync) -> Exec {
        if self.grid.cluster == 1 {
            let reason = "st.async in a launch without clusters, at which GPUs trap; launch clusters of at least 2 blocks, or \
                write to the block's own memory";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        let bytes = store.bytes * store.values.len() as u64;
        let target = self.place(&store.at, bytes, Access::Store)?;
        let barrier = self.barrier_place(&store.barrier)?;
        let byte = |value: Bits, at: u64| value.map(|raw| raw >> (8 * at) & 0xff);
        let values = store.values.iter().map(|&value| self.bits(value));
        let value = values.flat_map(|value| (0..store.bytes).map(move |at| byte(value, at))).collect();
        self.start_flight((target, Source::Value(value), bytes), barrier)
    }

    /// Starts a copy of a box to this offset of shared memory.
    pub fn start_box(&mut self, target: usize, tile: Tile, bytes: u64, barrier: usize) -> Exec {
        self.start_flight((Place::Shared(target), Source::Box(tile), bytes), barrier)
    }

    /// Starts a copy. The target is undefined until it lands.
    fn start_flight(&mut self, (target, source, bytes): (Place, Source, u64), barrier: usize) -> Exec {
        let (Place::Shared(at), stride) = (target, self.shared.stride()) else { return Ok(()) };
        if at / stride != barrier / stride {
            let reason = "a copy that counts at a barrier of another block than its target's";
            return Err(Cause::Cluster(reason.to_owned()).into());
        }
        if let Some(line) = self.shared.flights.line_into(at..at + bytes as usize) {
            let reason =
                format!("a copy into shared memory that the copy of PTX line {line} is on its way to");
            return Err(Cause::InFlight(reason).into());
        }
        for at in (0..bytes).step_by(4) {
            self.store(target.plus(at), 4, Bits::UNDEFINED.and(0xffff_ffff));
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

    /// Checks bytes of one allocation; the first must be at a multiple of 16.
    pub fn places(&self, space: Space, address: u64, bytes: u64, access: Access) -> Exec<Place> {
        let first = self.place_of(space, address, UNIT, access)?;
        for at in (UNIT..bytes).step_by(UNIT as usize) {
            self.place_of(space, address + at, UNIT, access)?;
        }
        Ok(first)
    }

    /// Lands the copies that a phase waits for, if it lacks nothing else and the thread polls it again.
    pub fn land(&mut self, barrier: usize) -> Exec {
        for flight in self.shared.flights.taken(barrier, self.ids) {
            let Flight { target, source, bytes, .. } = flight;
            let Place::Shared(start) = target else { continue };
            match &source {
                Source::Box(tile) => self.land_box(start, tile)?,
                Source::Memory(source) => {
                    for at in 0..bytes {
                        self.store(target.plus(at), 1, self.load(source.plus(at), 1));
                    }
                }
                Source::Value(value) => {
                    (0..bytes).zip(value).for_each(|(at, &byte)| self.store(target.plus(at), 1, byte));
                }
            }
            if !matches!(source, Source::Value(_)) {
                self.shared.unfenced.copy(start, bytes as usize);
            }
            self.complete_bytes(barrier, bytes)?;
        }
        Ok(())
    }
}
