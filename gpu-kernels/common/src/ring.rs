//! Stages in shared memory that a thread fills by tensor copies, and that warps empty.

use cuda_std::barrier::Barrier;
use cuda_std::{thread, warp};

/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// A ring of `STAGES` stages: its barriers, and the current stage.
#[derive(Clone, Copy)]
pub struct Ring<const STAGES: usize> {
    full: *mut Barrier,
    empty: *mut Barrier,
    stage: u32,
    parity: u32,
}

impl<const STAGES: usize> Ring<STAGES> {
    /// The number of barriers of a ring.
    pub const BARRIERS: usize = 2 * STAGES;

    /// Creates the only ring of the block, whose stages are empty when `warps` warps have arrived.
    ///
    /// # Safety
    /// Same as for [`Self::new`]; all threads of the block call this.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn init_only(barriers: *mut Barrier, warps: u32) -> Self {
        // SAFETY: all threads execute this, and one initialises the barriers before any other uses them.
        unsafe {
            let ring = Self::new(barriers);
            init_once(|| ring.init(warps));
            ring
        }
    }

    /// Creates the ring of [`BARRIERS`](Self::BARRIERS) barriers, at its first stage.
    ///
    /// # Safety
    /// The barriers are shared memory of the block. One thread calls [`Self::init`], before any calls another method
    /// ([`init_once`]). One thread fills the stages, and all lanes of each other warp call [`Self::release`] together.
    #[inline(always)]
    pub unsafe fn new(barriers: *mut Barrier) -> Self {
        Self { full: barriers, empty: barriers.wrapping_add(STAGES), stage: 0, parity: 0 }
    }

    /// Initialises the barriers. A stage is empty when each of `warps` warps has arrived.
    #[inline(always)]
    pub fn init(self, warps: u32) {
        let mut stage = 0;
        while stage < STAGES {
            // SAFETY: the stage has two barriers, which no other thread uses yet.
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
        if self.stage == STAGES as u32 {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// Waits until the stage is empty.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_empty(self) {
        // SAFETY: the stage has two initialised barriers.
        unsafe { Barrier::wait_parity(self.empty.add(self.stage()), self.parity ^ 1) };
    }

    /// Waits until all warps are done with the stage as it is filled now.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_released(self) {
        // SAFETY: the stage has two initialised barriers.
        unsafe { Barrier::wait_parity(self.empty.add(self.stage()), self.parity) };
    }

    /// Waits until the stage is empty, and announces `bytes` bytes of copies to it. Returns the barrier that counts them.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fill(self, bytes: u32) -> *mut Barrier {
        self.wait_empty();
        // SAFETY: the stage has two initialised barriers.
        unsafe {
            let full = self.full.add(self.stage());
            Barrier::arrive_expect_tx(full, bytes);
            full
        }
    }

    /// Waits until the stage is full.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn wait_full(self) {
        // SAFETY: the stage has two initialised barriers.
        unsafe { Barrier::wait_parity(self.full.add(self.stage()), self.parity) };
    }

    /// Counts the calling warp as done with the stage.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release(self) {
        self.release_stage(self.stage());
    }

    /// Counts the calling warp as done with a stage.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release_stage(self, stage: usize) {
        if warp::lane_id() == 0 {
            // SAFETY: the stage has two initialised barriers.
            unsafe { Barrier::arrive(self.empty.add(stage)) };
        }
    }

    /// Like [`release_stage`](Self::release_stage), in each block of the cluster, for a stage that only `wgmma` has read.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release_stage_in_all(self, stage: usize, blocks: u32) {
        let lane = warp::lane_id();
        if lane < blocks {
            // SAFETY: the stage has two initialised barriers, at the same address in each block.
            unsafe { Barrier::arrive_remote_relaxed(self.empty.add(stage), lane) };
        }
    }

    /// Counts the calling warp as done with the stage, and goes to the next.
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn release_and_advance(&mut self) {
        self.release();
        self.advance();
    }
}

/// Returns element `i` of an array, without a bounds check, which could call code while accumulators are pending.
///
/// # Safety
/// `i` is less than `N`.
#[inline(always)]
pub unsafe fn element<T, const N: usize>(array: *mut [T; N], i: usize) -> *mut T {
    // SAFETY: the array has the element.
    unsafe { array.cast::<T>().add(i) }
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
    // SAFETY: all threads of the block execute this.
    unsafe { thread::sync_threads_aligned() };
}
