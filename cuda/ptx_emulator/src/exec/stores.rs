//! `cp.async.bulk` to global memory: a thread holds its copies until it waits for them.

use std::collections::VecDeque;

use super::Exec;
use super::bulk::UNIT;
use super::memory::{Access, Place};
use super::thread::Cx;
use super::tile::Tile;
use super::undefined::Bits;
use crate::error::Cause;
use crate::instr::{BulkStore, Slot};

/// The target of a copy.
#[derive(Debug)]
pub(super) enum Target {
    /// Contiguous bytes.
    Bytes(Place),
    /// A box of a tensor, from this offset of shared memory.
    Box(Tile, usize),
}

/// A copy in flight.
#[derive(Debug)]
pub(super) struct Store {
    pub target: Target,
    pub source: Place,
    /// The source at that time, in units of 8 bytes.
    pub was: Vec<Bits>,
    /// Whether its thread has waited for the source to be read.
    pub is_read: bool,
    /// The PTX line that started it.
    pub line: u32,
}

/// The copies of a thread.
#[derive(Debug, Default)]
pub(super) struct Stores {
    open: Vec<Store>,
    groups: VecDeque<Vec<Store>>,
}

impl Stores {
    /// Adds a copy in flight.
    pub fn start(&mut self, store: Store) {
        self.open.push(store);
    }
}

impl Cx<'_> {
    /// `cp.async.bulk` to global memory.
    pub fn start_bulk_store(&mut self, store: &BulkStore) -> Exec {
        let bytes = self.bulk_bytes(store.bytes)?;
        let target = self.places(store.target.space, self.address(&store.target)?, bytes, Access::Store)?;
        let source = self.places(store.source.space, self.address(&store.source)?, bytes, Access::Load)?;
        if let Place::Shared(at) = source
            && !self.shared.unfenced.are_fenced(at, bytes as usize)
        {
            let reason =
                "a bulk copy reads what was written to shared memory with no fence.proxy.async since";
            return Err(Cause::InFlight(reason.to_owned()).into());
        }
        let was = self.contents(source, bytes);
        for at in (0..bytes).step_by(8) {
            self.store(target.plus(at), 8, Bits::UNDEFINED);
        }
        let line = self.line();
        self.stores.start(Store { target: Target::Bytes(target), source, was, is_read: false, line });
        Ok(())
    }

    /// Checks that a bulk copy may read the source, if it is shared memory.
    pub fn check_fenced(&self, source: Place, bytes: u64) -> Exec {
        match source {
            Place::Shared(at) if !self.shared.unfenced.are_fenced(at, bytes as usize) => {
                let reason =
                    "a bulk copy reads what was written to shared memory with no fence.proxy.async since";
                Err(Cause::InFlight(reason.to_owned()).into())
            }
            _ => Ok(()),
        }
    }

    /// The contents of bytes, in units of 8.
    pub fn contents(&self, source: Place, bytes: u64) -> Vec<Bits> {
        (0..bytes).step_by(8).map(|at| self.load(source.plus(at), 8)).collect()
    }

    /// `cp.async.bulk.commit_group`.
    pub fn commit_bulk_stores(&mut self) {
        let group = core::mem::take(&mut self.stores.open);
        self.stores.groups.push_back(group);
    }

    /// `cp.async.bulk.wait_group`; only for the sources if `read`.
    pub fn wait_for_bulk_stores(&mut self, left: Slot, read: bool) -> Exec {
        let left = self.value(left)? as usize;
        let done = self.stores.groups.len().saturating_sub(left);
        let mut groups = core::mem::take(&mut self.stores.groups);
        for store in groups.iter_mut().take(done).flatten().filter(|store| !store.is_read) {
            if self.contents(store.source, 8 * store.was.len() as u64) != store.was {
                let line = store.line;
                let reason = format!("the source of the copy of PTX line {line} has changed before the wait");
                return Err(Cause::InFlight(reason).into());
            }
            store.is_read = true;
        }
        if !read {
            groups.drain(..done).flatten().try_for_each(|store| self.make_bulk_store(store))?;
        }
        self.stores.groups = groups;
        Ok(())
    }

    fn make_bulk_store(&mut self, Store { target, was, .. }: Store) -> Exec {
        match target {
            Target::Bytes(target) => {
                for (at, bits) in (0..).step_by(8).zip(was) {
                    self.store(target.plus(at), 8, bits);
                }
                Ok(())
            }
            Target::Box(tile, source) => self.make_tensor_store(&tile, source, &was),
        }
    }

    /// Completes the remaining copies when the thread ends.
    pub fn end_bulk_stores(&mut self) -> Exec {
        let Stores { open, groups } = core::mem::take(self.stores);
        for store in groups.into_iter().flatten().chain(open) {
            if !store.is_read {
                let (bytes, line) = (8 * store.was.len(), store.line);
                let reason =
                    format!("the copy of {bytes} bytes of PTX line {line} was reading when its thread ended");
                return Err(Cause::InFlight(reason).into());
            }
            self.make_bulk_store(store)?;
        }
        Ok(())
    }
}

/// Writes to shared memory since the last `fence.proxy.async`, except those by bulk copies.
#[derive(Debug, Default)]
pub(super) struct Unfenced {
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
