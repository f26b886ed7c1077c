//! Barriers in shared memory. They count arrivals and bytes, and threads wait for their phases (compute capability 8.0 and
//! later).
//!
//! A [`Barrier`] is initialised with a number of arrivals. Its phase is complete after that number of arrivals and all
//! expected bytes (compute capability 9.0). The next phase then begins, with the same number of arrivals. The first
//! phase has parity 0, the next one 1, then 0 again. An arrival does not wait. Threads that have waited for the phase
//! see what the arriving threads did before they arrived.
//!
//! A kernel that uses this module is a `#[kernel(min_arch = 80)]`.
//!
//! # Safety of the barriers
//! - The pointer is to a barrier in the block's shared memory, initialised by [`Barrier::init`] and not invalidated since,
//!   with a barrier of the block between that and the first use by another thread.
//! - No phase gets more arrivals than that number, or more bytes than it may expect.
//! - A thread waits for the current phase or the one before it.
//!
//! Anything else is undefined on the device; the executor reports what it detects.
//!
//! # Examples
//! ```
//! use cuda_std::barrier::Barrier;
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::simt::Executor;
//! use cuda_std::{kernel, shared_array, thread};
//!
//! /// The second warp computes the squares of the numbers below 32, and the first writes them to `out` in reverse.
//! ///
//! /// # Safety
//! /// `out` has 32 elements; launched with one block of 64 threads.
//! #[kernel(min_arch = 80)]
//! pub unsafe fn squares(out: *mut u32) {
//!     let (tile, ready) = (shared_array![u32; 32], shared_array![Barrier; 1]);
//!     let i = thread::thread_idx_x();
//!     // SAFETY: one thread initialises the barrier for the 32 that arrive, before any does.
//!     unsafe {
//!         if i == 0 {
//!             Barrier::init(ready, 32);
//!         }
//!         thread::sync_threads_aligned();
//!         if i >= 32 {
//!             *tile.add(i as usize - 32) = (i - 32) * (i - 32);
//!             Barrier::arrive(ready);
//!         } else {
//!             Barrier::wait_parity(ready, 0);
//!             *out.add(i as usize) = *tile.add(31 - i as usize);
//!         }
//!     }
//! }
//!
//! let mut out = [0; 32];
//! // SAFETY: 32 elements, 64 threads.
//! unsafe { squares::launch(&Executor::new(), LaunchConfig::new(1, 64), &mut out) }?;
//! assert!(out.iter().zip(0..).all(|(x, i)| *x == (31 - i) * (31 - i)));
//! # Ok::<(), cuda_std::launch::LaunchError>(())
//! ```

use core::cell::UnsafeCell;

#[cfg(not(target_arch = "nvptx64"))]
mod host;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod state;

#[cfg(not(target_arch = "nvptx64"))]
use state::State;

/// A barrier in shared memory: an element of a [`shared_array!`](crate::shared_array), which [`init`](Self::init) makes
/// valid (PTX ISA, "mbarrier").
#[derive(Debug)]
#[repr(C, align(8))]
pub struct Barrier {
    bits: UnsafeCell<u64>,
}

/// A phase of a [`Barrier`], as an arrival saw it.
#[derive(Clone, Copy, Debug)]
pub struct Token {
    bits: u64,
}

/// Instructions on the barrier at `[address]`. They are assembly, since Rust has no type for the pointers to shared
/// memory that LLVM's intrinsics take.
#[cfg(target_arch = "nvptx64")]
macro_rules! barrier_asm {
    ($instructions:literal, $this:ident, $($operand:tt)*) => {
        core::arch::asm!(
            concat!("{{ .reg .b64 address; .reg .pred holds; cvta.to.shared.u64 address, {this}; ", $instructions, " }}"),
            this = in(reg64) $this, $($operand)*
            options(nostack, preserves_flags),
        )
    };
}

mod remote;

impl Barrier {
    /// The largest number of arrivals in a phase, and of bytes that it can expect.
    pub const MAX_COUNT: u32 = (1 << 20) - 1;

    /// Initialises a barrier with phases of `count` arrivals, 1 to [`MAX_COUNT`](Self::MAX_COUNT).
    ///
    /// # Safety
    /// `this` points to shared memory of the block that no other thread uses now, and that does not hold a valid barrier.
    #[doc(alias = "mbarrier.init")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn init(this: *mut Self, count: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees valid memory.
        unsafe {
            barrier_asm!("mbarrier.init.shared.b64 [address], {count};", this, count = in(reg32) count,);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        {
            let state = host::checked("init", State::new(count));
            host::note_init(this);
            // SAFETY: the caller guarantees valid memory.
            unsafe { this.cast::<u64>().write(state.bits()) };
        }
    }

    /// Orders the thread's initialisations of barriers before their use by [bulk copies](crate::bulk) and other blocks
    /// of the cluster (compute capability 9.0 and later). Call a barrier of the block or of the cluster after it; the
    /// latter may be [relaxed](crate::cluster::arrive_relaxed).
    #[doc(alias = "fence.mbarrier_init", alias = "fence_barrier_init")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub fn fence_init() {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the instruction has no precondition.
        unsafe {
            core::arch::asm!("fence.mbarrier_init.release.cluster;", options(nostack, preserves_flags));
        }
        #[cfg(not(target_arch = "nvptx64"))]
        host::fence_init();
    }

    /// Invalidates the barrier. Its memory may then be used for something else.
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers); no other thread uses it any more.
    #[doc(alias = "mbarrier.inval")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn inval(this: *mut Self) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            barrier_asm!("mbarrier.inval.shared.b64 [address];", this,);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier, which no other code uses.
        unsafe {
            if let Err(reason) = State::of(this.cast::<u64>().read()) {
                crate::simt::context::refuse("barrier::Barrier::inval", &format!("() {reason}"));
            }
            this.cast::<u64>().write(0);
        }
    }

    /// Counts an arrival and returns its phase. Threads that wait for the phase see what this thread did before.
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers).
    #[doc(alias = "mbarrier.arrive")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive(this: *mut Self) -> Token {
        #[cfg(target_arch = "nvptx64")]
        {
            let bits;
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                barrier_asm!("mbarrier.arrive.shared.b64 {bits}, [address];", this, bits = out(reg64) bits,);
            }
            Token { bits }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::change("arrive", this, State::arrive)
        }
    }

    /// Makes the phase expect `bytes` more bytes, and counts an arrival (compute capability 9.0 and later).
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers).
    #[doc(alias = "mbarrier.arrive.expect_tx")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn arrive_expect_tx(this: *mut Self, bytes: u32) -> Token {
        #[cfg(target_arch = "nvptx64")]
        {
            let bits;
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                barrier_asm!("mbarrier.arrive.expect_tx.shared.b64 {bits}, [address], {count};", this,
                    bits = out(reg64) bits, count = in(reg32) bytes,);
            }
            Token { bits }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::change("arrive_expect_tx", this, |state| state.expect(bytes)?.arrive())
        }
    }

    /// Makes the phase expect `bytes` more bytes (compute capability 9.0 and later).
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers).
    #[doc(alias = "mbarrier.expect_tx")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn expect_tx(this: *mut Self, bytes: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            barrier_asm!("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [address], {count};", this,
                count = in(reg32) bytes,);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::change_relaxed("expect_tx", this, |state| state.expect(bytes));
        }
    }

    /// Counts `bytes` of the expected bytes as arrived, without a copy (compute capability 9.0 and later).
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers).
    #[doc(alias = "mbarrier.complete_tx")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn complete_tx(this: *mut Self, bytes: u32) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            barrier_asm!("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [address], {count};", this,
                count = in(reg32) bytes,);
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::change_relaxed("complete_tx", this, |state| state.complete(bytes));
        }
    }

    /// Returns whether the phase of an arrival is complete, without waiting. The executor does not interrupt threads,
    /// so a loop around this call ends there only if the phase lacks nothing but [copies](crate::bulk), which it
    /// performs before the second check. [`wait`](Self::wait) ends in any case.
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers).
    #[doc(alias = "mbarrier.test_wait")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn test_wait(this: *mut Self, token: Token) -> bool {
        #[cfg(target_arch = "nvptx64")]
        {
            let holds: u32;
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                barrier_asm!("mbarrier.test_wait.shared.b64 holds, [address], {token}; selp.u32 {holds}, 1, 0, holds;",
                    this, token = in(reg64) token.bits, holds = out(reg32) holds,);
            }
            holds != 0
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::look("test_wait", this, state::parity_of(token.bits))
        }
    }

    /// Returns whether the phase of this parity, the current or the previous one, is complete. Like
    /// [`test_wait`](Self::test_wait), it does not wait.
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers); `parity` is 0 or 1.
    #[doc(alias = "mbarrier.test_wait.parity")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn test_wait_parity(this: *mut Self, parity: u32) -> bool {
        #[cfg(target_arch = "nvptx64")]
        {
            let holds: u32;
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                barrier_asm!("mbarrier.test_wait.parity.shared.b64 holds, [address], {parity}; \
                    selp.u32 {holds}, 1, 0, holds;", this, parity = in(reg32) parity, holds = out(reg32) holds,);
            }
            holds != 0
        }
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::look("test_wait_parity", this, parity)
        }
    }

    /// Waits until the phase of an arrival is complete.
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers).
    #[doc(alias = "mbarrier.test_wait", alias = "cuda::barrier::wait")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait(this: *mut Self, token: Token) {
        #[cfg(target_arch = "nvptx64")]
        // SAFETY: the caller guarantees a valid barrier.
        while unsafe { !Self::test_wait(this, token) } {}
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::wait("barrier::Barrier::wait", "wait", this, state::parity_of(token.bits));
        }
    }

    /// Waits until the phase of this parity, the current or the previous one, is complete.
    ///
    /// From compute capability 9.0 on, the thread sleeps while it waits (PTX ISA, `mbarrier.try_wait`).
    ///
    /// # Safety
    /// See [the module](self#safety-of-the-barriers); `parity` is 0 or 1.
    #[doc(alias = "mbarrier.try_wait.parity", alias = "cuda::barrier::wait_parity")]
    #[inline(always)]
    #[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
    pub unsafe fn wait_parity(this: *mut Self, parity: u32) {
        #[cfg(all(target_arch = "nvptx64", target_feature = "sm_90"))]
        loop {
            let holds: u32;
            // SAFETY: the caller guarantees a valid barrier.
            unsafe {
                barrier_asm!("mbarrier.try_wait.parity.shared.b64 holds, [address], {parity}; \
                    selp.u32 {holds}, 1, 0, holds;", this, parity = in(reg32) parity, holds = out(reg32) holds,);
            }
            if holds != 0 {
                break;
            }
        }
        #[cfg(all(target_arch = "nvptx64", not(target_feature = "sm_90")))]
        // SAFETY: the caller guarantees a valid barrier.
        while unsafe { !Self::test_wait_parity(this, parity) } {}
        #[cfg(not(target_arch = "nvptx64"))]
        // SAFETY: the caller guarantees a valid barrier.
        unsafe {
            host::wait("barrier::Barrier::wait_parity", "wait_parity", this, parity);
        }
    }
}
