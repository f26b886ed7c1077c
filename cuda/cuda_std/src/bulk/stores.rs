//! Copies to global memory on the executor: a thread keeps its copies until it waits for them.

use core::mem::MaybeUninit;
use core::panic::Location;
use core::sync::atomic::Ordering;
use std::collections::VecDeque;
use std::panic::resume_unwind;

use crate::atomic::AtomicF32;
use crate::simt::FaultKind;
use crate::simt::states::State;
use crate::tensor::tile::Tile;

/// The target of a copy.
pub(crate) enum Target {
    /// Bytes in order.
    Memory(*mut u8),
    /// Numbers that are added.
    Sums(*mut f32),
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
    /// The source's content at the start. Empty under Miri, which detects races and must not read unwritten memory.
    pub was: Vec<u8>,
    /// The bytes read from the source, once the thread has waited for that.
    pub read: Vec<MaybeUninit<u8>>,
}

/// The copies of a thread.
#[derive(Default)]
pub(crate) struct Stores {
    /// Copies that are not in a group yet.
    open: Vec<Store>,
    /// The groups that are not complete, the oldest first.
    groups: VecDeque<Vec<Store>>,
}

impl Stores {
    pub(crate) fn start(&mut self, store: Store) {
        self.open.push(store);
    }

    /// Groups the open copies.
    pub(super) fn commit(&mut self) {
        self.groups.push_back(core::mem::take(&mut self.open));
    }

    /// Reads the sources of all groups except the latest `left`.
    pub(super) fn wait_read(&mut self, left: usize) -> Result<(), String> {
        let done = self.groups.len().saturating_sub(left);
        self.groups.iter_mut().take(done).flatten().try_for_each(Store::read)
    }

    /// Performs the copies of all groups except the latest `left`.
    pub(super) fn wait(&mut self, left: usize) -> Result<(), String> {
        self.wait_read(left)?;
        let done = self.groups.len().saturating_sub(left);
        self.groups.drain(..done).flatten().for_each(Store::write);
        Ok(())
    }
}

impl State for Stores {
    /// Performs the remaining copies when the thread returns; one that it has not waited for is a fault.
    fn end(self: Box<Self>) {
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
    /// Reads the source unless that has been done.
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
        // SAFETY: the caller that started the copy guarantees a valid source until now.
        self.read = unsafe { core::slice::from_raw_parts(self.source.cast(), self.bytes) }.to_vec();
        Ok(())
    }

    /// Writes what was read.
    fn write(self) {
        // SAFETY: the caller that started the copy guarantees a valid target until now.
        unsafe {
            match self.target {
                Target::Memory(target) => {
                    core::ptr::copy_nonoverlapping(self.read.as_ptr().cast(), target, self.bytes);
                }
                Target::Sums(sums) => {
                    for i in 0..self.bytes / size_of::<f32>() {
                        let number = self.read.as_ptr().cast::<f32>().add(i).read_unaligned();
                        AtomicF32::from_ptr(sums.add(i)).fetch_add(number, Ordering::Relaxed);
                    }
                }
                Target::Tile(tile) => tile.store(&self.read),
            }
        }
    }
}

/// Returns the memory's content for a comparison; nothing under Miri.
pub(crate) fn snapshot(source: *const u8, bytes: usize) -> Vec<u8> {
    let bytes = if cfg!(miri) { 0 } else { bytes };
    // SAFETY: the block's shared memory, which the executor has initialised. The compiler assumes nothing about the
    // value of a volatile read.
    (0..bytes).map(|at| unsafe { source.add(at).read_volatile() }).collect()
}
