//! Stages in shared memory that a thread fills by tensor copies, and that warps empty.

use cuda_std::barrier::Barrier;
use cuda_std::{thread, warp};

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// A ring of `STAGES` stages: its barriers, and the current stage.
#[derive(Clone, Copy)]
pub struct Ring<const STAGES: u32> {
    full: *mut Barrier,
    empty: *mut Barrier,
    stage: u32,
    parity: u32,
}

impl<const STAGES: u32> Ring<STAGES> {
    /// The number of barriers of a ring.
    pub const BARRIERS: usize = 2 * STAGES as usize;

    /// Creates the ring of [`BARRIERS`](Self::BARRIERS) barriers, at its first stage.
    #[inline(always)]
    pub fn new(barriers: *mut Barrier) -> Self {
        Self { full: barriers, empty: barriers.wrapping_add(STAGES as usize), stage: 0, parity: 0 }
    }

    /// Initialises the barriers. A stage is empty when each of `warps` warps has arrived.
    ///
    /// # Safety
    /// One thread calls this, before any other uses the barriers, which are shared memory of the block.
    #[inline(always)]
    pub unsafe fn init(self, warps: u32) {
        let mut stage = 0;
        while stage < STAGES as usize {
            // SAFETY: the caller's barriers.
            unsafe {
                Barrier::init(self.full.add(stage), 1);
                Barrier::init(self.empty.add(stage), warps);
            }
            stage += 1;
        }
    }

    /// Returns the number of the stage.
    #[inline(always)]
    pub fn stage(self) -> usize {
        self.stage as usize
    }

    /// Goes to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// Waits until the stage is empty, and announces `bytes` bytes of copies to it. Returns the barrier that counts them.
    ///
    /// # Safety
    /// The barriers are initialised. One thread fills the ring.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn fill(self, bytes: u32) -> *mut Barrier {
        // SAFETY: the caller's barriers.
        unsafe {
            let full = self.full.add(self.stage());
            Barrier::wait_parity(self.empty.add(self.stage()), self.parity ^ 1);
            Barrier::arrive_expect_tx(full, bytes);
            full
        }
    }

    /// Waits until the stage is full.
    ///
    /// # Safety
    /// The barriers are initialised.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait_full(self) {
        // SAFETY: the caller's barriers.
        unsafe { Barrier::wait_parity(self.full.add(self.stage()), self.parity) };
    }

    /// Counts the calling warp as done with the stage.
    ///
    /// # Safety
    /// The barriers are initialised, and all lanes of the warp call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn release(self) {
        if warp::lane_id() == 0 {
            // SAFETY: the caller's barriers.
            unsafe { Barrier::arrive(self.empty.add(self.stage())) };
        }
    }
}

/// Runs `init` in one thread of the block, and lets all others wait for it.
///
/// # Safety
/// All threads of the block call this. `init` initialises barriers in shared memory that no other thread uses yet.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn init_once(init: impl FnOnce()) {
    if thread::thread_idx_x() == 0 {
        init();
        Barrier::fence_init();
    }
    // SAFETY: the caller's contract: all threads execute this.
    unsafe { thread::sync_threads_aligned() };
}
