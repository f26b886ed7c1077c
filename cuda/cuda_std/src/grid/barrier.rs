//! The barrier of a grid.

use core::sync::atomic::Ordering;

use super::Watchdog;
use crate::atomic::mid;
#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{Barrier, Collective, check_cooperative, collective};
use crate::thread;

/// The bit of a counter that each use of the barrier flips.
const ROUND: u32 = 1 << 31;

/// Waits until all threads of the grid have arrived, and makes their earlier writes visible to all of them.
///
/// `counter` is a word in global memory that the host has zeroed once. It serves any number of uses, in one launch or
/// in successive launches with any grids. Barriers that are in use at the same time need a counter each. Zero it again
/// after a failed launch.
///
/// It costs two barriers of the block and one atomic per block. The first block adds what the others lack, so that the
/// highest bit flips when all have arrived and the other bits are as before.
///
/// # Safety
/// - All threads of the grid reach this same call, with the same counter.
/// - `counter` is valid for reads and writes and aligned, began as zero, and only this function accesses it.
///
/// # Panics
/// On the executor in a launch that is not cooperative.
///
/// # Examples
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::simt::Executor;
/// use cuda_std::{grid, kernel, thread};
///
/// /// Reverses the numbers in place.
/// ///
/// /// # Safety
/// /// A thread for each number; `counter` is a zero.
/// #[kernel(cooperative)]
/// pub unsafe fn reverse(numbers: *mut u32, counter: *mut u32) {
///     let (i, len) = (thread::index_1d() as usize, (thread::block_dim_x() * thread::grid_dim_x()) as usize);
///     // SAFETY: all threads reach the barrier; each writes its own number, after all have been read.
///     unsafe {
///         let number = *numbers.add(len - 1 - i);
///         grid::sync(counter);
///         *numbers.add(i) = number;
///     }
/// }
///
/// let mut numbers: Vec<u32> = (0..256).collect();
/// // SAFETY: 256 threads.
/// unsafe { reverse::launch(&Executor::new(), LaunchConfig::new(4, 64), &mut numbers, &mut [0]) }?;
/// assert!((0..256).rev().eq(numbers));
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "grid.sync", alias = "grid_group::sync", alias = "cudaCGSynchronizeGrid")]
#[inline(always)]
#[track_caller]
pub unsafe fn sync(counter: *mut u32) {
    // SAFETY: the caller guarantees the counter and the threads.
    unsafe { Watchdog::OFF.sync(counter) }
}

impl Watchdog {
    /// Same as [`sync`], but each block waits for the others at most as long as this watchdog allows.
    ///
    /// # Safety
    /// Same as for [`sync`].
    ///
    /// # Panics
    /// Same as for [`sync`], and on the device if it takes longer.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn sync(self, counter: *mut u32) {
        #[cfg(not(target_arch = "nvptx64"))]
        check_cooperative("grid::sync");
        sync_block();
        // SAFETY: the caller guarantees the counter. One thread arrives for its block; the barriers of the block extend
        // its release and its acquire to the other threads.
        unsafe {
            if thread::thread_idx_x() == 0 && thread::thread_idx_y() == 0 && thread::thread_idx_z() == 0 {
                let blocks = thread::grid_dim_x() * thread::grid_dim_y() * thread::grid_dim_z();
                let is_first =
                    thread::block_idx_x() == 0 && thread::block_idx_y() == 0 && thread::block_idx_z() == 0;
                let arrival = if is_first { ROUND - (blocks - 1) } else { 1 };
                let before = mid::atomic_fetch_add_u32_device(counter, Ordering::Release, arrival);
                let load = || mid::atomic_load_32_device(counter, Ordering::Acquire);
                self.wait("grid::sync", load, |now| (now ^ before) & ROUND != 0);
            }
        }
        sync_block();
    }
}

/// Waits at the block's barrier.
#[inline(always)]
#[track_caller]
fn sync_block() {
    #[cfg(target_arch = "nvptx64")]
    thread::sync_threads();
    #[cfg(not(target_arch = "nvptx64"))]
    collective("grid::sync", Collective::Barrier(Barrier::Sync));
}
