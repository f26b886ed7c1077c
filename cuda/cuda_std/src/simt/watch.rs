//! What a test wants to know of its launches: which thread reached beyond a buffer, and which changed a byte.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::block::Block;
use super::context::ThreadContext;
use super::fault::Place;
use super::zones::Region;

/// A thread of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    pub kernel: &'static str,
    pub place: Place,
}

/// An access outside of the memory that a test made for a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stray {
    pub whose: Whose,
    /// The byte, from the memory's first.
    pub offset: isize,
    /// Whether it was a write, where the processor tells.
    pub is_write: Option<bool>,
}

/// A byte that is looked at whenever a thread has run for a while.
#[derive(Debug)]
struct Byte {
    address: *const u8,
    expected: u8,
    changed_by: Option<Whose>,
}

// SAFETY: who sets the byte answers for its address, whatever thread looks there.
unsafe impl Send for Byte {}

/// Set on an executor before its launches, and asked after them.
#[derive(Default)]
pub(crate) struct Watch {
    regions: Mutex<Vec<Arc<Region>>>,
    byte: Mutex<Option<Byte>>,
}

impl Watch {
    /// A watch of this memory.
    pub fn of(regions: Vec<Arc<Region>>) -> Self {
        Self { regions: Mutex::new(regions), byte: Mutex::default() }
    }

    /// New memory with a copy of `bytes`, between zones that no thread may touch; none where the system has no such memory.
    pub fn region(&self, bytes: &[u8]) -> Option<Arc<Region>> {
        let region = Arc::new(Region::new(bytes)?);
        lock(&self.regions).push(Arc::clone(&region));
        Some(region)
    }

    /// The memory that was made up to now, in order.
    pub fn regions(&self) -> Vec<Arc<Region>> {
        lock(&self.regions).clone()
    }

    /// Looks at a byte from now on, which holds `expected`.
    ///
    /// # Safety
    /// The byte is valid for reads as long as launches run with this.
    pub unsafe fn set_byte(&self, address: *const u8, expected: u8) {
        *lock(&self.byte) = Some(Byte { address, expected, changed_by: None });
    }

    /// The thread that changed the byte first.
    pub fn changed_by(&self) -> Option<Whose> {
        lock(&self.byte).as_ref()?.changed_by
    }

    /// Looks at the byte after this thread of the block has run.
    pub(super) fn look(&self, block: &Block<'_>, thread: u32) {
        if let Some(byte) = &mut *lock(&self.byte)
            // SAFETY: the word of `set_byte`; the block's threads are on this OS thread, and none of them runs.
            && unsafe { byte.address.read_volatile() } != byte.expected
        {
            let place = Place { block: block.index, thread: Some(block.coordinates(thread)) };
            byte.changed_by.get_or_insert(Whose { kernel: block.grid.kernel, place });
        }
    }
}

impl Whose {
    /// The thread that runs.
    pub(super) fn of(thread: &ThreadContext<'_>) -> Self {
        let place = Place { block: thread.block_idx, thread: Some(thread.thread_idx) };
        Self { kernel: thread.grid().kernel, place }
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watch").field("byte", &*lock(&self.byte)).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
