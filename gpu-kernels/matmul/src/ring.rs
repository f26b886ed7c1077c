//! The stages of the kernels of warpgroups, and the barriers that count their copies.

use cuda_std::barrier::Barrier;
use cuda_std::{thread, warp};

/// Rows of tiles that are computed together.
pub const GROUP: u32 = 8;
/// Threads of a warpgroup.
pub const WARPGROUP: u32 = 128;

/// A position in a ring of stages, and the parity of the phase in which its copies arrive.
#[derive(Clone, Copy)]
pub struct Ring<const STAGES: u32> {
    /// The stage.
    pub stage: u32,
    /// The parity.
    pub parity: u32,
}

impl<const STAGES: u32> Ring<STAGES> {
    /// The first stage.
    pub const FIRST: Self = Self { stage: 0, parity: 0 };

    /// Goes to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}

/// Returns element `i` of an array, without a bounds check, which could call code while accumulators are pending.
///
/// # Safety
/// `i` is less than `N`.
#[inline(always)]
pub unsafe fn element<T, const N: usize>(array: *mut [T; N], i: usize) -> *mut T {
    // SAFETY: the caller's contract.
    unsafe { array.cast::<T>().add(i) }
}

/// Initialises the barriers of each stage: `full` for one arrival and its bytes, and `empty` for `arrivals`. All threads of
/// the block call this, and may use the barriers afterwards.
///
/// # Safety
/// The barriers are shared memory of the block that no code uses.
#[inline(always)]
pub unsafe fn init_barriers(full: *mut Barrier, empty: *mut Barrier, stages: u32, arrivals: u32) {
    // SAFETY: one thread initialises the caller's barriers, before all threads synchronise.
    unsafe {
        if thread::thread_idx_x() == 0 {
            for stage in 0..stages as usize {
                Barrier::init(full.add(stage), 1);
                Barrier::init(empty.add(stage), arrivals);
            }
            Barrier::fence_init();
        }
        thread::sync_threads_aligned();
    }
}

/// Counts one arrival of the calling warp.
///
/// # Safety
/// Same as for [`Barrier::arrive`]; all lanes of the warp call this.
#[inline(always)]
pub unsafe fn arrive_warp(barrier: *mut Barrier) {
    if warp::lane_id() == 0 {
        // SAFETY: the caller's barrier.
        unsafe { Barrier::arrive(barrier) };
    }
}
