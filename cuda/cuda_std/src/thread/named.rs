//! Numbered barriers for some warps of the block.

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host;

#[cfg(target_arch = "nvptx64")]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.barrier.cta.sync.count"]
        pub(super) fn sync(id: u32, count: u32);
        #[link_name = "llvm.nvvm.barrier.cta.sync.aligned.count"]
        pub(super) fn sync_aligned(id: u32, count: u32);
        #[link_name = "llvm.nvvm.barrier.cta.arrive.count"]
        pub(super) fn arrive(id: u32, count: u32);
        #[link_name = "llvm.nvvm.barrier.cta.arrive.aligned.count"]
        pub(super) fn arrive_aligned(id: u32, count: u32);
    }
}

macro_rules! named_barriers {
    ($($(#[$doc:meta])* $name:ident, $aligned:ident = $device:ident, $device_aligned:ident, $alias:literal,
        $alias_aligned:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// - `id` is 1 to 15; barrier 0 is that of [`sync_threads`](super::sync_threads). `count` is a multiple of 32
        ///   and not 0, and the same for all threads that reach the barrier until it is complete.
        /// - All lanes of a warp that have not returned reach it, and no more threads than `count`.
        #[doc(alias = $alias)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name(id: u32, count: u32) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                device::$device(id, count);
            }
            #[cfg(not(target_arch = "nvptx64"))]
            host::$device(concat!("thread::", stringify!($name)), id, count);
        }

        #[doc = concat!("[`", stringify!($name), "`] for warps that come here as one: a single instruction.")]
        ///
        /// # Safety
        #[doc = concat!("As for [`", stringify!($name), "`]; all lanes of a warp reach this same call together.")]
        #[doc(alias = $alias_aligned)]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $aligned(id: u32, count: u32) {
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                device::$device_aligned(id, count);
            }
            #[cfg(not(target_arch = "nvptx64"))]
            host::$device(concat!("thread::", stringify!($aligned)), id, count);
        }
    )*};
}

named_barriers! {
    /// Waits until `count` threads have arrived at the barrier with this number, and makes their earlier writes to
    /// shared and global memory visible to the waiting threads: a barrier of some warps of the block. Arrivals of
    /// [`arrive_named`] count too.
    ///
    /// # Examples
    /// ```
    /// use cuda_std::launch::LaunchConfig;
    /// use cuda_std::simt::Executor;
    /// use cuda_std::{kernel, shared_array, thread};
    ///
    /// /// Each half of 64 threads reverses a row of 32 numbers, and does not wait for the other one.
    /// ///
    /// /// # Safety
    /// /// `numbers` has 64 elements; launched with one block of 64 threads.
    /// #[kernel]
    /// pub unsafe fn reverse_rows(numbers: *mut u32) {
    ///     let (rows, i) = (shared_array![u32; 64], thread::thread_idx_x());
    ///     // SAFETY: the 32 threads of a warp reach their own barrier.
    ///     unsafe {
    ///         *rows.add(i as usize) = *numbers.add(i as usize);
    ///         thread::sync_named(1 + i / 32, 32);
    ///         *numbers.add(i as usize) = *rows.add((i ^ 31) as usize);
    ///     }
    /// }
    ///
    /// let mut numbers: Vec<u32> = (0..64).collect();
    /// // SAFETY: 64 numbers, 64 threads.
    /// unsafe { reverse_rows::launch(&Executor::new(), LaunchConfig::new(1, 64), &mut numbers) }?;
    /// assert!((0..32).rev().chain((32..64).rev()).eq(numbers));
    /// # Ok::<(), cuda_std::launch::LaunchError>(())
    /// ```
    sync_named, sync_named_aligned = sync, sync_aligned, "barrier.sync", "bar.sync";
    /// Counts the thread, with its earlier writes, at the barrier with this number, and does not wait: the threads that
    /// call [`sync_named`] do.
    arrive_named, arrive_named_aligned = arrive, arrive_aligned, "barrier.arrive", "bar.arrive";
}
