//! The executor's half of copies to global memory: a thread keeps its copies until it waits for them.

use core::mem::MaybeUninit;
use core::panic::Location;
use std::collections::VecDeque;
use std::panic::resume_unwind;

use crate::simt::FaultKind;
use crate::tensor::tile::Tile;

/// Where a copy goes.
pub(crate) enum Target {
    /// Bytes in order.
    Memory(*mut u8),
    /// A tile of a tensor.
    Tile(Box<Tile>),
}

/// A copy that has been started.
pub(crate) struct Store {
    /// The function that started it.
    pub operation: &'static str,
    pub target: Target,
    pub source: *const u8,
    pub bytes: usize,
    pub location: &'static Location<'static>,
    /// What the source held then. Miri detects races, and may not look at unwritten memory.
    pub was: Vec<u8>,
    /// What was read of the source, once that was waited for.
    pub read: Vec<MaybeUninit<u8>>,
}

/// The copies of a thread.
#[derive(Default)]
pub(crate) struct Stores {
    /// Those that are in no group yet.
    open: Vec<Store>,
    /// The groups that are not complete, the oldest first.
    groups: VecDeque<Vec<Store>>,
}

impl Stores {
    pub(crate) fn start(&mut self, store: Store) {
        self.open.push(store);
    }

    /// Makes the open copies a group.
    pub(super) fn commit(&mut self) {
        self.groups.push_back(core::mem::take(&mut self.open));
    }

    /// Reads the sources of all groups but the `left` latest.
    pub(super) fn wait_read(&mut self, left: usize) -> Result<(), String> {
        let done = self.groups.len().saturating_sub(left);
        self.groups.iter_mut().take(done).flatten().try_for_each(Store::read)
    }

    /// Makes the copies of all groups but the `left` latest.
    pub(super) fn wait(&mut self, left: usize) -> Result<(), String> {
        self.wait_read(left)?;
        let done = self.groups.len().saturating_sub(left);
        self.groups.drain(..done).flatten().for_each(Store::write);
        Ok(())
    }

    /// Makes what is left when the thread returns.
    pub fn end(self) {
        for store in self.groups.into_iter().flatten().chain(self.open) {
            if store.read.is_empty() {
                let kind = FaultKind::StoreNotWaitedFor { operation: store.operation, bytes: store.bytes };
                resume_unwind(Box::new((kind, store.location)));
            }
            store.write();
        }
    }
}

impl Store {
    /// Reads the source, if that has not been done.
    fn read(&mut self) -> Result<(), String> {
        if !self.read.is_empty() {
            return Ok(());
        }
        if self.was != snapshot(self.source, self.bytes) {
            return Err(format!(
                " finds that shared memory has changed which {}() at {} reads; wait before any thread writes there \
                 again",
                self.operation, self.location
            ));
        }
        // SAFETY: the one who started it answers for the source until now.
        self.read = unsafe { core::slice::from_raw_parts(self.source.cast(), self.bytes) }.to_vec();
        Ok(())
    }

    /// Writes what was read.
    fn write(self) {
        // SAFETY: the one who started it answers for the target until now.
        unsafe {
            match self.target {
                Target::Memory(target) => {
                    core::ptr::copy_nonoverlapping(self.read.as_ptr().cast(), target, self.bytes);
                }
                Target::Tile(tile) => tile.store(&self.read),
            }
        }
    }
}

/// What memory holds, to be compared; nothing under Miri.
pub(crate) fn snapshot(source: *const u8, bytes: usize) -> Vec<u8> {
    let bytes = if cfg!(miri) { 0 } else { bytes };
    // SAFETY: the block's shared memory, all of which has been written to, be it by the executor; the compiler knows nothing
    // of what a volatile read finds.
    (0..bytes).map(|at| unsafe { source.add(at).read_volatile() }).collect()
}
