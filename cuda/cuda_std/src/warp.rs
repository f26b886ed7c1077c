//! Operations of the 32 threads of a warp: shuffles, votes, matches, reductions.
//!
//! Every function with a `mask` is a collective: the lanes in the mask call it together, and no other lane does. The mask
//! has one bit per lane, the lowest for lane 0.
//!
//! # Safety of the collectives
//! - Every lane in `mask` executes the same call with the same mask. The calling lane is in it; lanes that have
//!   returned are not.
//! - All lanes in `mask` pass the same `width`, `op` and type.
//!
//! Anything else is undefined on the device; the executor reports it.

mod matching;
mod operation;
mod reduce;
mod shuffle;

pub use matching::{WarpMatchValue, warp_match_all, warp_match_any};
pub use operation::WarpReductionOp;
#[cfg(not(target_arch = "nvptx64"))]
pub(crate) use operation::{Fold, NumberType};
pub use reduce::{
    WarpNumber, WarpReduceValue, reduce_max, reduce_max_width, reduce_min, reduce_min_width, reduce_sum,
    reduce_sum_width, warp_reduce, warp_reduce_shuffle,
};
#[doc(hidden)]
pub use shuffle::{WarpShuffleMode, WarpShuffleResult};
pub use shuffle::{WarpShuffleValue, warp_shuffle_down, warp_shuffle_idx, warp_shuffle_up, warp_shuffle_xor};

#[cfg(not(target_arch = "nvptx64"))]
use crate::simt::context::{Collective, Outcome, WarpOp, collective, current};

#[cfg(target_arch = "nvptx64")]
mod device {
    unsafe extern "C" {
        #[link_name = "llvm.nvvm.bar.warp.sync"]
        pub(super) fn bar_warp_sync(mask: u32);
        #[link_name = "llvm.nvvm.read.ptx.sreg.laneid"]
        pub(super) fn laneid() -> u32;
        #[link_name = "llvm.nvvm.activemask"]
        pub(super) fn activemask() -> u32;
        #[link_name = "llvm.nvvm.vote.all.sync"]
        pub(super) fn vote_all(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.any.sync"]
        pub(super) fn vote_any(mask: u32, predicate: bool) -> bool;
        #[link_name = "llvm.nvvm.vote.ballot.sync"]
        pub(super) fn vote_ballot(mask: u32, predicate: bool) -> u32;
    }
}

/// Requests an operation of the lanes in `mask` from the executor.
#[cfg(not(target_arch = "nvptx64"))]
#[inline(always)]
#[track_caller]
fn ask(name: &'static str, mask: u32, op: WarpOp) -> Outcome {
    collective(name, Collective::Warp { mask, op })
}

/// Waits until all lanes in `mask` have arrived, and makes their earlier memory accesses visible to one another.
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "bar.warp.sync", alias = "__syncwarp")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn sync_warp(mask: u32) {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe {
        device::bar_warp_sync(mask);
    }
    #[cfg(not(target_arch = "nvptx64"))]
    ask("warp::sync_warp", mask, WarpOp::Sync);
}

/// Returns the thread's lane in its warp, 0 to 31.
#[doc(alias = "%laneid")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn lane_id() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: reading a special register has no precondition, and a warp has 32 lanes.
    unsafe {
        let lane = device::laneid();
        core::hint::assert_unchecked(lane < 32);
        lane
    }
    #[cfg(not(target_arch = "nvptx64"))]
    current("warp::lane_id", |context| context.lane())
}

/// Returns the lanes that execute this call together. It is a snapshot, not a mask for a collective, unless the kernel
/// knows that all lanes reach this. On the executor it names the lanes that have not returned.
#[doc(alias = "activemask.b32", alias = "__activemask")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub fn activemask() -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the instruction has no precondition.
    unsafe {
        device::activemask()
    }
    #[cfg(not(target_arch = "nvptx64"))]
    current("warp::activemask", |context| context.live_lanes())
}

/// Returns whether `predicate` is true in all lanes in `mask`.
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "vote.sync.all.pred", alias = "__all_sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_all(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe {
        device::vote_all(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    ask("warp::warp_vote_all", mask, WarpOp::VoteAll(predicate)).flag
}

/// Returns whether `predicate` is true in any lane in `mask`.
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "vote.sync.any.pred", alias = "__any_sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_any(mask: u32, predicate: bool) -> bool {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe {
        device::vote_any(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    ask("warp::warp_vote_any", mask, WarpOp::VoteAny(predicate)).flag
}

/// Returns one bit for each lane in `mask` with a true `predicate`.
///
/// # Safety
/// See [the module](self#safety-of-the-collectives).
#[doc(alias = "vote.sync.ballot.b32", alias = "__ballot_sync")]
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn warp_vote_ballot(mask: u32, predicate: bool) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    // SAFETY: the caller promises that the lanes in `mask` execute this.
    unsafe {
        device::vote_ballot(mask, predicate)
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        ask("warp::warp_vote_ballot", mask, WarpOp::VoteBallot(predicate)).value as u32
    }
}
