//! Turns at the tensor cores, by named barriers.

use common_kernels::ring::WARPGROUP;
use cuda_std::thread;

/// The order in which consumers start their multiplications: each waits until the one before has started its own. So one
/// computes exponentials while the tensor cores work for another.
#[derive(Clone, Copy)]
pub struct Turns {
    own: u32,
    next: u32,
}

impl Turns {
    /// The first named barrier; the stores use those before it.
    const FIRST: u32 = 8;

    /// Returns the turns of a consumer.
    ///
    /// # Safety
    /// All threads of the warpgroup call each method together: one warpgroup [`Self::begin`], once, and then all
    /// [`Self::wait`] and [`Self::pass`] in turn.
    #[inline(always)]
    pub unsafe fn new(consumer: u32, consumers: u32) -> Self {
        let next = if consumer + 1 == consumers { 0 } else { consumer + 1 };
        Self { own: Self::FIRST + consumer, next: Self::FIRST + next }
    }

    /// Gives the first turn to the calling warpgroup.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn begin(self) {
        // SAFETY: all threads of the warpgroup execute this, which gives it the turn that `wait` takes.
        unsafe { thread::arrive_named_aligned(self.own, 2 * WARPGROUP) };
    }

    /// Waits for the warpgroup's turn.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait(self) {
        // SAFETY: all threads of the warpgroup execute this, and those of the one before arrive.
        unsafe { thread::sync_named_aligned(self.own, 2 * WARPGROUP) };
    }

    /// Gives the turn to the next warpgroup.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn pass(self) {
        // SAFETY: all threads of the warpgroup execute this, and those of the next one wait.
        unsafe { thread::arrive_named_aligned(self.next, 2 * WARPGROUP) };
    }
}
