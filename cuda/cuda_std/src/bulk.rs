//! Copies of many bytes that one thread starts and that go on by themselves (compute capability 9.0 and later).
//!
//! A copy to shared memory says at a [`Barrier`] that it is there: the phase that it counts in expects its bytes
//! ([`arrive_expect_tx`](Barrier::arrive_expect_tx)), and who has waited for the phase reads what came. Before that the
//! target belongs to the copy, and the source stays as it is.
//!
//! On the executor a copy is made as late as it may be: when a thread waits for a phase that lacks nothing but bytes, or
//! looks at it a second time. Until then the target is uninitialised. So who reads too early, or changes the source, gets
//! a wrong result there. A block that ends while a copy to its memory is on its way is a fault.
//!
//! A kernel that uses this module is a `#[kernel(min_arch = 90)]`.
//!
//! # Safety of the copies
//! - Both ends are valid for all the bytes, in the memory that the function names, and multiples of 16; the number of
//!   bytes is a multiple of 16 and not 0.
//! - Until the copy is complete nobody reads or writes the target or writes the source, and no block ends whose shared
//!   memory it reads or writes.
//! - The barrier is valid ([`barrier`](crate::barrier#safety-of-the-barriers)), and its phase expects the bytes.
//! - What a thread has itself written to an end before is ordered by a fence of the asynchronous proxy, as far as a
//!   barrier of the block or a wait for a [`Barrier`] does not do.
//!
//! # Examples
//! ```
//! use cuda_std::barrier::Barrier;
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::mem::f32x4;
//! use cuda_std::simt::Executor;
//! use cuda_std::{bulk, kernel, shared_array, thread};
//!
//! /// `out` = the numbers of each block of 32 threads in reverse.
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
mod host;

/// Starts a copy of `count` elements from global to shared memory, whose bytes count at `barrier` when they are there (PTX
/// ISA, `cp.async.bulk`).
///
/// # Safety
/// See [the module](self#safety-of-the-copies).
#[doc(alias = "cp.async.bulk", alias = "cp_async_bulk_global_to_shared", alias = "cuda::memcpy_async")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn global_to_shared<T: Copy>(shared: *mut T, global: *const T, count: u32, barrier: *mut Barrier) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller's memory and barrier.
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
    // SAFETY: the caller's memory and barrier.
    unsafe {
        let bytes = u64::from(count) * size_of::<T>() as u64;
        host::global_to_shared(shared.cast(), global.cast(), bytes, barrier);
    }
}
