//! The fences of a block's threads for copies, which access memory by another path than the threads.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The number of barriers that are remembered. A missing fence for further ones is not detected.
const BARRIERS: usize = 32;

/// The fences of a block. All accesses are relaxed, so they order nothing.
#[derive(Default)]
pub(crate) struct Fences {
    /// The number of times that threads have fenced their writes to shared memory.
    of_writes: AtomicU32,
    /// The addresses of barriers that were initialised since the last fence, or 0.
    of_barriers: [AtomicUsize; BARRIERS],
}

impl Fences {
    /// Notes that a thread fences its writes to shared memory, barriers included.
    pub fn fence(&self) {
        self.of_writes.fetch_add(1, Ordering::Relaxed);
        self.fence_barriers();
    }

    /// Notes that a thread fences the barriers that it has initialised.
    pub fn fence_barriers(&self) {
        self.of_barriers.iter().for_each(|barrier| barrier.store(0, Ordering::Relaxed));
    }

    /// Notes that a thread initialises a barrier.
    pub fn note_barrier(&self, address: usize) {
        for barrier in &self.of_barriers {
            if barrier.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Returns whether any thread has fenced its writes.
    pub fn any(&self) -> bool {
        self.count() > 0
    }

    /// Returns the number of times that threads have fenced their writes.
    pub fn count(&self) -> u32 {
        // A plain load may give an old value.
        self.of_writes.fetch_add(0, Ordering::Relaxed)
    }

    /// Returns whether a thread has used a fence since the barrier was initialised, as far as is known.
    pub fn is_fenced(&self, barrier: usize) -> bool {
        self.of_barriers.iter().all(|other| other.fetch_add(0, Ordering::Relaxed) != barrier)
    }

    /// Forgets everything, for another block.
    pub fn clear(&self) {
        self.of_writes.store(0, Ordering::Relaxed);
        self.fence_barriers();
    }
}
