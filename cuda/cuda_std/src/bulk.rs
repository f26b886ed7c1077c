//! Bulk copies: one thread starts a copy, which proceeds without it (compute capability 9.0 and later).
//!
//! A copy to shared memory signals its arrival at a [`Barrier`]. The phase expects its bytes
//! ([`arrive_expect_tx`](Barrier::arrive_expect_tx)), and a thread that has waited for the phase may read the target.
//! Until then the target belongs to the copy, and the source must not change.
//!
//! [`commit`] makes a thread's copies to global memory a group, and the thread waits for groups: with [`wait_read`]
//! until their sources may be written again, with [`wait`] until they are complete.
//!
//! The executor performs a copy as late as possible: one to shared memory when a thread waits for a phase that lacks only
//! bytes, or checks it a second time; one to global memory when its thread waits for it. Until then the target is
//! uninitialised. So a kernel that reads too early, or changes the source in global memory, gets a wrong result there.
//! The executor reports a source in shared memory that has changed, a block that ends before a copy to its memory is
//! complete, a thread that returns before its copies have read their sources, a barrier without a fence, and a copy of
//! data that no thread of the block has fenced. It does not detect other missing fences.
//!
//! A kernel that uses this module is a `#[kernel(min_arch = 90)]`.
//!
//! # Safety of the copies
//! - Both pointers are valid for all the bytes, in the memory that the function names, and aligned to 16 bytes. The
//!   number of bytes is a multiple of 16 and not 0.
//! - Until the copy is complete, no thread reads or writes the target or writes the source, and no block ends if the
//!   copy uses its shared memory.
//! - The barrier is valid ([`barrier`](crate::barrier#safety-of-the-barriers)), a [`Barrier::fence_init`] comes after
//!   its initialisation, and its phase expects the bytes.
//! - A [`fence_shared`] comes between writes to shared memory and a copy that reads them.
//!
//! # Examples
//! ```
//! use cuda_std::barrier::Barrier;
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::mem::f32x4;
//! use cuda_std::simt::Executor;
//! use cuda_std::{bulk, kernel, shared_array, thread};
//!
//! /// Reverses the elements of each block of 32 threads.
//! ///
//! /// # Safety
//! /// 32 elements for each block.
//! #[kernel(min_arch = 90)]
//! pub unsafe fn reverse(inp: &[f32x4], out: *mut f32x4) {
//!     let (tile, ready) = (shared_array![f32x4; 32], shared_array![Barrier; 1]);
//!     let (i, at) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
//!     // SAFETY: one thread copies the tile, and all wait for it.
//!     unsafe {
//!         if i == 0 {
//!             Barrier::init(ready, 1);
//!             Barrier::fence_init();
//!             Barrier::arrive_expect_tx(ready, 32 * 16);
//!             bulk::global_to_shared(tile, inp.as_ptr().add(at), 32, ready);
//!         }
//!         thread::sync_threads_aligned();
//!         Barrier::wait_parity(ready, 0);
//!         *out.add(at) = *tile.add(31 - i);
//!     }
//! }
//!
//! let inp: [f32x4; 64] = core::array::from_fn(|i| f32x4::splat(i as f32));
//! let mut out = [f32x4::default(); 64];
//! // SAFETY: 32 elements for each block.
//! unsafe { reverse::launch(&Executor::new(), LaunchConfig::new(2, 32), &inp, &mut out) }?;
//! assert!(out.iter().enumerate().all(|(i, v)| v.x == (i / 32 * 32 + 31 - i % 32) as f32));
//! # Ok::<(), cuda_std::launch::LaunchError>(())
//! ```

use crate::barrier::Barrier;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod stores;

/// Starts a copy of `count` elements from global to shared memory. Its bytes count at `barrier` when they arrive (PTX
/// ISA, `cp.async.bulk`).
///
/// # Safety
/// See [the module](self#safety-of-the-copies).
#[doc(alias = "cp.async.bulk", alias = "cp_async_bulk_global_to_shared", alias = "cuda::memcpy_async")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn global_to_shared<T: Copy>(shared: *mut T, global: *const T, count: u32, barrier: *mut Barrier) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory and a valid barrier.
    unsafe {
        core::arch::asm!(
            "{{ .reg .b64 target, address; cvta.to.shared.u64 target, {shared}; cvta.to.shared.u64 address, {barrier}; \
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [target], [{global}], {bytes}, [address]; }}",
            shared = in(reg64) shared,
            global = in(reg64) global,
            bytes = in(reg32) count * size_of::<T>() as u32,
            barrier = in(reg64) barrier,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory and a valid barrier.
    unsafe {
        let bytes = u64::from(count) * size_of::<T>() as u64;
        host::global_to_shared(shared.cast(), global.cast(), bytes, barrier);
    }
}

/// Starts a copy of `count` elements from the block's shared memory to the counterpart of `target` in block `rank` of
/// the cluster. Its bytes count at the counterpart of `barrier` there when they arrive (PTX ISA, `cp.async.bulk`).
///
/// Threads there wait with [`wait_parity_cluster`](Barrier::wait_parity_cluster). Only they know when the source may be
/// written again.
///
/// # Safety
/// See [the module](self#safety-of-the-copies), for the other block's target and barrier: `target` and `barrier` are
/// their counterparts in the block's own shared memory. The other block has started; a barrier of the cluster ensures it.
#[doc(alias = "cp.async.bulk", alias = "cp_async_bulk_shared_to_shared")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn shared_to_shared<T: Copy>(
    target: *mut T,
    shared: *const T,
    count: u32,
    barrier: *mut Barrier,
    rank: u32,
) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory and a valid barrier.
    unsafe {
        core::arch::asm!(
            "{{ .reg .b64 target, source, address; cvta.to.shared.u64 target, {target}; \
             cvta.to.shared.u64 source, {shared}; cvta.to.shared.u64 address, {barrier}; \
             mapa.shared::cluster.u64 target, target, {rank}; mapa.shared::cluster.u64 address, address, {rank}; \
             cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [target], [source], {bytes}, [address]; }}",
            target = in(reg64) target,
            shared = in(reg64) shared,
            bytes = in(reg32) count * size_of::<T>() as u32,
            barrier = in(reg64) barrier,
            rank = in(reg32) rank,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory and a valid barrier.
    unsafe {
        let bytes = u64::from(count) * size_of::<T>() as u64;
        host::shared_to_shared(target.cast(), shared.cast(), bytes, (barrier, rank));
    }
}

/// Starts a copy of `count` elements from the block's shared memory to global memory (PTX ISA, `cp.async.bulk`).
///
/// # Safety
/// See [the module](self#safety-of-the-copies); the thread waits with [`wait_read`] or [`wait`] before it returns.
///
/// # Examples
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::mem::f32x4;
/// use cuda_std::simt::Executor;
/// use cuda_std::{bulk, kernel, shared_array, thread};
///
/// /// Each block of 32 threads writes the squares of its threads' indices.
/// ///
/// /// # Safety
/// /// 32 elements for each block.
/// #[kernel(min_arch = 90)]
/// pub unsafe fn squares(out: *mut f32x4) {
///     let (tile, i, at) = (shared_array![f32x4; 32], thread::thread_idx_x(), thread::index_1d());
///     // SAFETY: one thread copies the tile when all have written and fenced it, and waits before it returns.
///     unsafe {
///         *tile.add(i as usize) = f32x4::splat((at * at) as f32);
///         bulk::fence_shared();
///         thread::sync_threads_aligned();
///         if i == 0 {
///             bulk::shared_to_global(out.add(at as usize), tile, 32);
///             bulk::commit();
///             bulk::wait_read::<0>();
///         }
///     }
/// }
///
/// let mut out = [f32x4::default(); 64];
/// // SAFETY: 32 elements for each block.
/// unsafe { squares::launch(&Executor::new(), LaunchConfig::new(2, 32), &mut out) }?;
/// assert!(out.iter().enumerate().all(|(i, v)| v.w == (i * i) as f32));
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "cp.async.bulk", alias = "cp_async_bulk_shared_to_global")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn shared_to_global<T: Copy>(global: *mut T, shared: *const T, count: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory.
    unsafe {
        core::arch::asm!(
            "{{ .reg .b64 source; cvta.to.shared.u64 source, {shared}; \
             cp.async.bulk.global.shared::cta.bulk_group [{global}], [source], {bytes}; }}",
            shared = in(reg64) shared,
            global = in(reg64) global,
            bytes = in(reg32) count * size_of::<T>() as u32,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory.
    unsafe {
        host::shared_to_global(global.cast(), shared.cast(), u64::from(count) * size_of::<T>() as u64);
    }
}

/// Starts to add `count` numbers in the block's shared memory to those in global memory, one by one, each at once: a copy in
/// all other respects (PTX ISA, `cp.reduce.async.bulk`).
///
/// # Safety
/// Same as for [`shared_to_global`]. Meanwhile, other threads access the sums only by such additions.
///
/// # Examples
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::mem::f32x4;
/// use cuda_std::simt::Executor;
/// use cuda_std::{bulk, kernel, shared_array, thread};
///
/// /// Each block of 32 threads adds its threads' indices to the sums.
/// ///
/// /// # Safety
/// /// 32 sums, aligned to 16 bytes.
/// #[kernel(min_arch = 90)]
/// pub unsafe fn count(sums: *mut f32x4) {
///     let (tile, i) = (shared_array![f32x4; 8].cast::<f32>(), thread::thread_idx_x());
///     // SAFETY: one thread adds the tile when all have written and fenced it, and waits before it returns.
///     unsafe {
///         *tile.add(i as usize) = i as f32;
///         bulk::fence_shared();
///         thread::sync_threads_aligned();
///         if i == 0 {
///             bulk::add_to_global(sums.cast(), tile, 32);
///             bulk::commit();
///             bulk::wait_read::<0>();
///         }
///     }
/// }
///
/// let mut sums = [f32x4::splat(1.0); 8];
/// // SAFETY: 32 sums.
/// unsafe { count::launch(&Executor::new(), LaunchConfig::new(3, 32), &mut sums) }?;
/// assert!(sums.iter().enumerate().all(|(i, sum)| sum.w == 1.0 + 3.0 * (4 * i + 3) as f32));
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
#[doc(alias = "cp.reduce.async.bulk.add.f32")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn add_to_global(global: *mut f32, shared: *const f32, count: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller guarantees valid memory.
    unsafe {
        core::arch::asm!(
            "{{ .reg .b64 source; cvta.to.shared.u64 source, {shared}; \
             cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [{global}], [source], {bytes}; }}",
            shared = in(reg64) shared,
            global = in(reg64) global,
            bytes = in(reg32) count * size_of::<f32>() as u32,
            options(nostack, preserves_flags),
        );
    }
    #[cfg(not(target_arch = "nvptx64"))]
    // SAFETY: the caller guarantees valid memory.
    unsafe {
        host::add_to_global(global, shared, u64::from(count) * size_of::<f32>() as u64);
    }
}

/// Groups the copies to global memory that the thread has started since its last commit. The group may be empty.
#[doc(alias = "cp.async.bulk.commit_group", alias = "cp_async_bulk_commit_group")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("cp.async.bulk.commit_group;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::commit();
}

/// Waits until all of the thread's groups except the latest `N` have read their sources, which may then be written again.
#[doc(alias = "cp.async.bulk.wait_group.read", alias = "cp_async_bulk_wait_group_read")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait_read<const N: usize>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("cp.async.bulk.wait_group.read {};", const N, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::wait("bulk::wait_read", |stores| stores.wait_read(N));
}

/// Waits until all of the thread's groups except the latest `N` are complete. The thread may then read their targets.
#[doc(alias = "cp.async.bulk.wait_group", alias = "cp_async_bulk_wait_group")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn wait<const N: usize>() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("cp.async.bulk.wait_group {};", const N, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::wait("bulk::wait", |stores| stores.wait(N));
}

/// Orders the thread's writes to shared memory before copies of this module that read them. Each writing thread calls
/// it; after a barrier of the block, one thread starts the copy (PTX ISA, `fence.proxy.async`).
#[doc(alias = "fence.proxy.async", alias = "fence_proxy_async", alias = "tma_store_fence")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn fence_shared() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("fence.proxy.async.shared::cta;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::fence_shared();
}

/// Same as [`fence_shared`], for global memory, and also for copies that other blocks start after they have waited for
/// this one. The executor does not detect a missing call: there such a copy reads what any thread reads.
#[doc(alias = "fence.proxy.async.global")]
#[inline(always)]
pub fn fence_global() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        core::arch::asm!("fence.proxy.async.global;", options(nostack, preserves_flags));
    }
}
