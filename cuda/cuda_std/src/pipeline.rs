//! Copies from global to shared memory that proceed while the thread does other work (compute capability 8.0 and later).
//!
//! A thread starts copies, makes them a group with [`commit`], and waits for its groups with [`wait_prior`]. It does
//! not wait for the copies of other threads, so a barrier follows before a thread reads what others have copied.
//!
//! Until the wait, the target belongs to the copy, and the source must not change. The executor performs a copy as late as
//! possible, when its thread waits for it. Until then the target is uninitialised. So a kernel that reads too early, or
//! changes the source, gets a wrong result there.
//!
//! A kernel that uses this module is a `#[kernel(min_arch = 80)]`.
//!
//! # Safety of the copies
//! - `shared` points to the block's shared memory and `global` to global memory; both are valid and aligned to the size
//!   of `T`, which is 4, 8 or 16 bytes.
//! - Until a wait of this thread covers the copy, no thread reads or writes the target or writes the source.
//!
//! # Examples
//! ```
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::mem::f32x4;
//! use cuda_std::simt::Executor;
//! use cuda_std::{kernel, pipeline, shared_array, thread};
//!
//! /// Reverses the elements of each block of 32 threads.
//! ///
//! /// # Safety
//! /// 32 elements for each block.
//! #[kernel(min_arch = 80)]
//! pub unsafe fn reverse(inp: &[f32x4], out: *mut f32x4) {
//!     let (tile, i) = (shared_array![f32x4; 32], thread::thread_idx_x() as usize);
//!     // SAFETY: each thread copies an element, and reads another one's after wait and barrier.
//!     unsafe {
//!         pipeline::memcpy_async(tile.add(i), &inp[thread::index_1d() as usize]);
//!         pipeline::commit();
//!         pipeline::wait_prior::<0>();
//!         thread::sync_threads_aligned();
//!         *out.add(thread::index_1d() as usize) = *tile.add(31 - i);
//!     }
//! }
//!
//! let inp: [f32x4; 64] = core::array::from_fn(|i| f32x4 { x: i as f32, ..Default::default() });
//! let mut out = [f32x4::default(); 64];
//! // SAFETY: 32 elements for each block.
//! unsafe { reverse::launch(&Executor::new(), LaunchConfig::new(2, 32), &inp, &mut out) }?;
//! assert!(out.iter().enumerate().all(|(i, v)| v.x == (i / 32 * 32 + 31 - i % 32) as f32));
//! # Ok::<(), cuda_std::launch::LaunchError>(())
//! ```

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host;

use crate::shared::SharedPtr;

/// One copy; `$after` and `$operand` are what follows the size of `T`.
#[cfg(target_arch = "nvptx64")]
macro_rules! copy_asm {
    ($cache:literal, $prefetch:literal, $shared:ident, $global:ident, $after:literal, $($operand:tt)*) => {
        core::arch::asm!(
            concat!("cp.async.", $cache, ".shared.global", $prefetch, " [{shared}], [{global}], {size}", $after, ";"),
            shared = in(reg32) $shared.address(), global = in(reg64) $global, size = const size_of::<T>(), $($operand)*
            options(nostack, preserves_flags),
        )
    };
}

macro_rules! copies {
    ($($(#[$doc:meta])* $name:ident, $zfill:ident = $cache:literal, $prefetch:literal, $($size:literal)|*;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// See [the module](self#safety-of-the-copies).
        #[doc(alias = "cp.async", alias = "__pipeline_memcpy_async")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $name<T: Copy>(shared: impl Into<SharedPtr<T>>, global: *const T) {
            const { assert!(matches!(size_of::<T>(), $($size)|*), "a size that one copy does not have") };
            let shared = shared.into();
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees valid memory.
            unsafe {
                copy_asm!($cache, $prefetch, shared, global, "",);
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees valid memory.
            unsafe {
                host::copy(concat!("pipeline::", stringify!($name)), shared.pointer(), global, size_of::<T>() as u32);
            }
        }

        #[doc = concat!("As [`", stringify!($name), "`], of the first `bytes` bytes of the source; the rest of the target")]
        /// becomes zeros. With 0 bytes the source is not read, but `global` is still aligned to the size of `T`.
        ///
        /// # Safety
        /// See [the module](self#safety-of-the-copies); `bytes` is at most the size of `T`.
        #[doc(alias = "cp.async")]
        #[inline(always)]
        #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
        pub unsafe fn $zfill<T: Copy>(shared: impl Into<SharedPtr<T>>, global: *const T, bytes: u32) {
            const { assert!(matches!(size_of::<T>(), $($size)|*), "a size that one copy does not have") };
            let shared = shared.into();
            #[cfg(target_arch = "nvptx64")]
            // SAFETY: the caller guarantees valid memory.
            unsafe {
                copy_asm!($cache, $prefetch, shared, global, ", {bytes}", bytes = in(reg32) bytes,);
            }
            #[cfg(not(target_arch = "nvptx64"))]
            // SAFETY: the caller guarantees valid memory.
            unsafe {
                host::copy(concat!("pipeline::", stringify!($zfill)), shared.pointer(), global, bytes);
            }
        }
    )*};
}

copies! {
    /// Starts a copy of 4, 8 or 16 bytes, which L1 and L2 may keep (PTX ISA, `cp.async.ca`).
    memcpy_async, memcpy_async_zfill = "ca", "", 4 | 8 | 16;
    /// Starts a copy of 16 bytes, which only L2 may keep: for data that the multiprocessor reads once (PTX
    /// ISA, `cp.async.cg`).
    memcpy_async_l2, memcpy_async_l2_zfill = "cg", "", 16;
    /// As [`memcpy_async_l2`], and L2 fetches the 128 bytes around the source: for rows of a multiple of 128 bytes that are
    /// read once (PTX ISA, `.L2::128B`).
    memcpy_async_l2_128, memcpy_async_l2_128_zfill = "cg", ".L2::128B", 16;
}

/// Groups the copies that the thread has started since its last commit. The group may be empty.
#[doc(alias = "cp.async.commit_group", alias = "__pipeline_commit", alias = "producer_commit")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("cp.async.commit_group;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::with("pipeline::commit", host::Copies::commit);
}

/// Waits until all of the thread's groups except the latest `N` are complete. The thread may then read what they have
/// copied, other threads after a barrier.
#[doc(alias = "cp.async.wait_group", alias = "__pipeline_wait_prior", alias = "consumer_wait_prior")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_prior<const N: usize>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("cp.async.wait_group {};", const N, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::with("pipeline::wait_prior", |copies| copies.wait_prior(N));
}

/// Waits until all copies that the thread has started are complete, in groups or not.
#[doc(alias = "cp.async.wait_all")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_all() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("cp.async.wait_all;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::with("pipeline::wait_all", |copies| {
        copies.commit();
        copies.wait_prior(0);
    });
}
