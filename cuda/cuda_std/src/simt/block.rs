//! A running block: the state that its threads share, under any scheduler.

use core::any::Any;
use core::panic::Location;
use core::sync::atomic::{AtomicBool, AtomicU32};

use super::fault::{Fault, FaultKind, Place, SourceLine};
use super::flights::Flight;
use super::grid::Grid;
use super::request::WARP_SIZE;
use super::shared::{BlockShared, Overrun};
use super::unwind;
use super::watch::Whose;
use crate::launch::Dim3;

/// A block as the others of its cluster see it.
pub(crate) struct Member {
    /// Its shared memory.
    pub shared: BlockShared,
    /// Whether all its threads have returned.
    pub has_ended: AtomicBool,
}

/// A block of a grid.
pub(crate) struct Block<'a> {
    pub grid: &'a Grid<'a>,
    pub index: Dim3,
    pub threads: u32,
    /// For each warp, the lanes that have not returned. Accesses are relaxed, as for the GPU's own mask.
    pub live_lanes: Vec<AtomicU32>,
    pub shared: &'a BlockShared,
    /// The blocks of its cluster, itself included.
    pub cluster: &'a [Member],
}

impl<'a> Block<'a> {
    /// Creates the block `rank` of `cluster`.
    pub fn new(grid: &'a Grid<'a>, index: Dim3, cluster: &'a [Member], rank: usize) -> Self {
        let threads = grid.config.block.volume() as u32;
        let live_lanes = (0..threads.div_ceil(WARP_SIZE))
            .map(|warp| u32::MAX >> (WARP_SIZE - (threads - warp * WARP_SIZE).min(WARP_SIZE)));
        Block {
            grid,
            index,
            threads,
            live_lanes: live_lanes.map(AtomicU32::new).collect(),
            shared: &cluster[rank].shared,
            cluster,
        }
    }

    /// Returns the coordinates of the thread with this number.
    #[inline]
    pub fn coordinates(&self, thread: u32) -> Dim3 {
        let Dim3 { x, y, z } = self.grid.config.block;
        if y == 1 && z == 1 {
            return Dim3::new(thread, 0, 0);
        }
        Dim3::new(thread % x, thread / x % y, thread / x / y)
    }

    /// The lanes of the thread's warp that have not returned.
    #[inline]
    pub fn live_lanes_of(&self, thread: u32) -> &AtomicU32 {
        &self.live_lanes[(thread / WARP_SIZE) as usize]
    }

    /// Returns the thread as faults name it.
    pub fn whose(&self, thread: u32) -> Whose {
        let place = Place { block: self.index, thread: Some(self.coordinates(thread)) };
        Whose { kernel: self.grid.kernel, place }
    }

    /// Creates a fault of this block, or of one of its threads.
    pub fn fault_of(&self, thread: Option<u32>, location: Option<SourceLine>, kind: FaultKind) -> Fault {
        let place = Place { block: self.index, thread: thread.map(|thread| self.coordinates(thread)) };
        Fault { kernel: self.grid.kernel, place, location, kind, seed: self.grid.seed }
    }

    /// Returns the fault of a copy to the block that no thread has waited for, when its threads have returned.
    pub fn why_in_flight(&self) -> Option<Fault> {
        self.shared.flights.left().map(|flight| self.fault_in_flight(&flight))
    }

    /// Returns the fault of a pending copy from the block to another one of the cluster, when its threads have returned.
    pub fn why_read(&self) -> Option<Fault> {
        let holds = |address| self.shared.contains(address);
        let flight = self.cluster.iter().find_map(|member| member.shared.flights.that_reads(holds))?;
        Some(self.fault_in_flight(&flight))
    }

    /// Returns the fault of a write after the end of an array in the block's shared memory, when its threads have returned.
    pub fn why_overrun(&self) -> Option<Fault> {
        let Overrun { byte, bytes, array } = self.shared.overrun()?;
        let kind = FaultKind::BeyondShared { byte, bytes, is_dynamic: array.is_none() };
        Some(self.fault_of(None, array.map(SourceLine::from), kind))
    }

    fn fault_in_flight(&self, flight: &Flight) -> Fault {
        let kind = FaultKind::CopyNotWaitedFor { operation: flight.operation, bytes: flight.bytes() };
        Fault { place: flight.place, ..self.fault_of(None, Some(flight.location.into()), kind) }
    }

    /// Turns the payload of a thread's panic into a fault.
    pub fn fault_from(&self, thread: u32, payload: Box<dyn Any + Send>) -> Fault {
        let payload = match payload.downcast::<(FaultKind, &'static Location<'static>)>() {
            Ok(located) => return self.fault_of(Some(thread), Some(located.1.into()), located.0),
            Err(payload) => payload,
        };
        let (kind, location) = match payload.downcast::<FaultKind>() {
            Ok(kind) => (*kind, None),
            Err(payload) => {
                let (message, location) = unwind::take(&*payload);
                (FaultKind::Panic { message }, location)
            }
        };
        self.fault_of(Some(thread), location, kind)
    }
}
