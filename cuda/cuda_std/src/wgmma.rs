//! Tensor cores of Hopper: asynchronous matrix multiplication by the 128 threads of a warpgroup (`compute_90a`).
//!
//! A warpgroup is 4 consecutive warps, the first a multiple of 4. It computes `D = A * B + D`: D has 64 rows and N columns
//! of `f32`, where N is a multiple of 8 from 8 to 256, and lies in the threads' registers as an [`Accumulator`]. A has 64
//! rows and [`K`](Element::K) columns, B has K rows and N columns, both of [`f16`](crate::f16), [`bf16`](crate::bf16),
//! [`tf32`](crate::mma::tf32) or [`e4m3`]. B is in shared memory, A there or in registers ([`FragmentA`]).
//!
//! Operands in shared memory are [`Panel`]s: rows of 128 bytes in the swizzle of 128 bytes, as tensor copies
//! ([`tensor`](crate::tensor)) write them. [`Panel::k_major`] is for rows with elements along K, [`Panel::mn_major`]
//! for rows with elements along M or N (only `f16` and `bf16`).
//!
//! A multiplication is asynchronous. [`Accumulator::start`] gives the registers away, and [`Pending`] cannot be read. The
//! steps of a tile are:
//!
//! 1. [`start`](Accumulator::start), then [`fence`], after the last register access and before the first multiplication.
//! 2. [`Pending::multiply`] for each K, then [`commit`], which makes the multiplications a group.
//! 3. [`wait`] until older groups have read their operands, so that the memory may be written again.
//! 4. [`Pending::finish`] waits for the groups of the accumulators and gives them back.
//!
//! The executor multiplies as late as possible: when a thread waits for a group. It reports operands that have changed
//! before that, a copy into operands of a pending multiplication, a missing [`fence`], operands that were written
//! without a [`bulk::fence_shared`](crate::bulk::fence_shared), warps that do not call the same operations, a wait that
//! does not cover the accumulators, and a thread that returns before it has waited.
//!
//! # Rounding
//! Of a [`tf32`](crate::mma::tf32) the lower 13 bits are ignored, so an `f32` in its place is truncated. Copies by a map that is
//! [`rounded_to_tf32`](crate::tensor::TensorMapSpec::rounded_to_tf32) round it.
//!
//! The product of two elements is exact in `f32`. PTX does not define the order and the precision of their sum. The
//! executor adds them to D one after the other, in the order of K, and rounds each sum to the nearest `f32`. The last
//! bits of its results can differ from those of a GPU.
//!
//! # Safety of the collectives
//! - All 128 threads of the warpgroup execute the same call with the same operands, and the threads of a warp together.
//! - Operands are initialised, in the block's shared memory, and no thread writes them until a group that holds the
//!   multiplication has been waited for.
//! - A [`fence`] comes between each access to the registers of accumulators or a [`FragmentA`] and the multiplication. Multiplications
//!   of the same accumulators need none between them.
//! - A [`bulk::fence_shared`](crate::bulk::fence_shared) and a barrier come between ordinary writes of operands and the
//!   multiplication. Tensor copies need none.
//! - A thread waits for all its groups before it returns.
//!
//! Anything else is undefined on the device; the executor reports it, except for some missing fences.
//!
//! # Examples
//! ```
//! use cuda_std::half::bf16;
//! use cuda_std::launch::LaunchConfig;
//! use cuda_std::simt::Executor;
//! use cuda_std::wgmma::{self, Accumulator, Panel};
//! use cuda_std::{bulk, kernel, shared_array, thread};
//!
//! /// `d[64, 32]` = `a[64, 64]` * `b[32, 64]` transposed, by one warpgroup.
//! ///
//! /// # Safety
//! /// The matrices have these shapes, and the block has 128 threads.
//! #[kernel(min_arch = 90)]
//! pub unsafe fn multiply(a: &[bf16], b: &[bf16], d: *mut f32) {
//!     let (pa, pb) = (shared_array![Panel<bf16, 64>; 1], shared_array![Panel<bf16, 32>; 1]);
//!     let thread = thread::thread_idx_x();
//!     // SAFETY: each element belongs to one thread. All threads reach the barrier and the multiplications.
//!     unsafe {
//!         for i in (thread..64 * 64).step_by(128) {
//!             *Panel::element(pa, i / 64, i % 64) = a[i as usize];
//!             if i < 32 * 64 {
//!                 *Panel::element(pb, i / 64, i % 64) = b[i as usize];
//!             }
//!         }
//!         bulk::fence_shared();
//!         thread::sync_threads_aligned();
//!         let mut pending = Accumulator::<16>::ZERO.start();
//!         wgmma::fence();
//!         for step in 0..4 {
//!             pending.multiply(Panel::k_major::<64>(pa, 0).step(step), Panel::k_major::<32>(pb, 0).step(step));
//!         }
//!         wgmma::commit();
//!         let sums = pending.finish::<0>();
//!         sums.for_each(|row, column, value| *d.add(32 * row + column) = value);
//!     }
//! }
//!
//! let a: Vec<bf16> = (0..64 * 64).map(|i| bf16::from_f32((i % 7) as f32)).collect();
//! let b: Vec<bf16> = (0..32 * 64).map(|i| bf16::from_f32((i % 5) as f32)).collect();
//! let mut d = vec![0.0; 64 * 32];
//! // SAFETY: the matrices have these shapes, and the block is one warpgroup.
//! unsafe { multiply::launch(&Executor::new(), LaunchConfig::new(1, 128), &a, &b, &mut d) }?;
//! let product = |row: usize, column: usize, k: usize| a[64 * row + k].to_f32() * b[64 * column + k].to_f32();
//! assert!((0..64 * 32).all(|i| d[i] == (0..64).map(|k| product(i / 32, i % 32, k)).sum::<f32>()));
//! # Ok::<(), cuda_std::launch::LaunchError>(())
//! ```
//!
//! An accumulator cannot be read before it is finished:
//!
//! ```compile_fail,E0616
//! use cuda_std::wgmma::Accumulator;
//!
//! let pending = Accumulator::<16>::ZERO.start();
//! let early = pending.values;
//! ```

mod accumulator;
mod element;
mod instruction;
mod operand;
mod position;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod host;

use crate::{thread, warp};

pub use accumulator::{Accumulator, Pending};
pub use element::{Element, Element16, Number, e4m3};
pub use instruction::Registers;
pub use operand::{FragmentA, KMajor, MnMajor, OperandA, OperandB, Panel};

/// Returns the number of the calling warpgroup in a one-dimensional block.
///
/// All lanes of a warp get it from the first one, so the compiler knows that they agree. Values derived from it, such
/// as an operand's address, then stay in uniform registers, and a branch on it does not diverge. Otherwise ptxas moves
/// every descriptor there just before its multiplication, which waits for that.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warpgroup_idx() -> u32 {
    // SAFETY: the caller promises that all lanes execute this.
    let (warpgroup, _) = unsafe { warp::warp_shuffle_idx(u32::MAX, thread::thread_idx_x() / 128, 0, 32) };
    warpgroup
}

/// Orders the warpgroup's accesses to registers before its multiplications that follow (PTX ISA, `wgmma.fence`). It comes
/// before the first one, and after each access to registers of accumulators or a [`FragmentA`].
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "wgmma.fence.sync.aligned", alias = "warpgroup_arrive")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn fence() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        core::arch::asm!("wgmma.fence.sync.aligned;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::fence();
}

/// Groups the multiplications that the warpgroup has started since its last commit. The group may be empty (PTX
/// ISA, `wgmma.commit_group`).
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "wgmma.commit_group.sync.aligned", alias = "warpgroup_commit_batch")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn commit() {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        core::arch::asm!("wgmma.commit_group.sync.aligned;", options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::commit();
}

/// Waits until all groups except the latest `N` are complete. Operands of complete groups in shared memory may then be
/// written; their accumulators stay pending (PTX ISA, `wgmma.wait_group`).
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "wgmma.wait_group.sync.aligned", alias = "warpgroup_wait")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn wait<const N: usize>() {
    const { assert!(N <= 7, "0 to 7 groups may be pending") };
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that all threads execute this.
    unsafe {
        core::arch::asm!("wgmma.wait_group.sync.aligned {};", const N, options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "nvptx64"))]
    host::wait("wgmma::wait", N);
}
