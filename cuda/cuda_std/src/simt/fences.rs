//! What threads of a block have fenced for copies that go another way to memory than their own accesses do.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Barriers that are remembered; of more it is not known that a fence is missing.
const BARRIERS: usize = 32;

/// The fences of a block. Read and written in relaxed order: it orders no accesses.
#[derive(Default)]
pub(crate) struct Fences {
    /// How often threads have fenced what they wrote to shared memory.
    of_writes: AtomicU32,
    /// The addresses of barriers that were initialised since the last fence, or 0.
    of_barriers: [AtomicUsize; BARRIERS],
}

impl Fences {
    /// A thread fences what it wrote to shared memory, barriers included.
    pub fn fence(&self) {
        self.of_writes.fetch_add(1, Ordering::Relaxed);
        self.fence_barriers();
    }

    /// A thread fences the barriers that it has initialised.
    pub fn fence_barriers(&self) {
        self.of_barriers.iter().for_each(|barrier| barrier.store(0, Ordering::Relaxed));
    }

    /// A thread initialises a barrier.
    pub fn note_barrier(&self, address: usize) {
        for barrier in &self.of_barriers {
            if barrier.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Whether any thread has fenced what it wrote.
    pub fn any(&self) -> bool {
        self.count() > 0
    }

    /// How often threads have fenced what they wrote.
    pub fn count(&self) -> u32 {
        // A plain load may give an old value.
        self.of_writes.fetch_add(0, Ordering::Relaxed)
    }

    /// Whether a thread has used a fence since the barrier was initialised, as far as is known.
    pub fn is_fenced(&self, barrier: usize) -> bool {
        self.of_barriers.iter().all(|other| other.fetch_add(0, Ordering::Relaxed) != barrier)
    }

    /// Forgets all for another block.
    pub fn clear(&self) {
        self.of_writes.store(0, Ordering::Relaxed);
        self.fence_barriers();
    }
}
