//! Watches the launches of a test: which thread accessed memory beyond a buffer, and which changed a byte.

use core::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::fault::Place;
use super::zones::Region;

/// A thread of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whose {
    pub kernel: &'static str,
    pub place: Place,
}

/// An access outside the memory that a test allocated for a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stray {
    pub whose: Whose,
    /// The offset of the byte from the memory's start.
    pub offset: isize,
    /// Whether it was a write, if the processor reports it.
    pub is_write: Option<bool>,
}

/// A byte that is checked whenever a thread has run for a while.
#[derive(Debug)]
struct Byte {
    address: *const u8,
    expected: u8,
    changed_by: Option<Whose>,
}

// SAFETY: the caller that sets the byte guarantees its address, for every thread that reads it.
unsafe impl Send for Byte {}

/// Set on an executor before its launches, and read after them.
#[derive(Default)]
pub(crate) struct Watch {
    regions: Mutex<Vec<Arc<Region>>>,
    byte: Mutex<Option<Byte>>,
}

impl Watch {
    /// Creates a watch of this memory.
    pub fn of(regions: Vec<Arc<Region>>) -> Self {
        Self { regions: Mutex::new(regions), byte: Mutex::default() }
    }

    /// Allocates memory with a copy of `bytes`, between inaccessible zones; `None` if the system has no such memory.
    pub fn region(&self, bytes: &[u8]) -> Option<Arc<Region>> {
        let region = Arc::new(Region::new(bytes)?);
        lock(&self.regions).push(Arc::clone(&region));
        Some(region)
    }

    /// Returns the memory that was allocated so far, in order.
    pub fn regions(&self) -> Vec<Arc<Region>> {
        lock(&self.regions).clone()
    }

    /// Checks a byte from now on, which holds `expected`.
    ///
    /// # Safety
    /// The byte is valid for reads as long as launches run with this.
    pub unsafe fn set_byte(&self, address: *const u8, expected: u8) {
        *lock(&self.byte) = Some(Byte { address, expected, changed_by: None });
    }

    /// Returns the first thread that changed the byte.
    pub fn changed_by(&self) -> Option<Whose> {
        lock(&self.byte).as_ref()?.changed_by
    }

    /// Checks the byte after a thread has run.
    pub(super) fn look(&self, whose: impl FnOnce() -> Whose) {
        if let Some(byte) = &mut *lock(&self.byte)
            // SAFETY: `set_byte`'s caller guarantees the byte. The block's threads are on this OS thread, and none runs.
            && unsafe { byte.address.read_volatile() } != byte.expected
        {
            byte.changed_by.get_or_insert_with(whose);
        }
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
