//! Some lanes of a warp work together after the others have left.
//!
//! A mask names the lanes that take part in a common operation, one bit each. All of them must have the same mask, so a vote
//! among all lanes of the warp comes first. The lanes that the mask does not name continue on their own. Here each lane with
//! an element other than 0 finds the next such lane below it.
//!
//! * `sync` passes the elements through shared memory: `sync_warp` makes the named lanes wait for each other and see each
//!   other's writes. A warp has no lock step to rely on.
//! * `shuffle` passes them in registers.
//!
//! Requires: blocks of 256 threads.
//@ ptx(warp_masks_sync): vote.sync.ballot == 1, bar.warp.sync == 1, bar.sync == 0, .local == 0
//@ ptx(warp_masks_shuffle): vote.sync.ballot == 1, shfl.sync.idx == 1, .shared == 0, .local == 0

use cuda_std::warp::{sync_warp, warp_shuffle_idx, warp_vote_ballot};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(len: u32)
    facts(Grid)
    "sync" = warp_masks_sync[0]: "by shared memory, and a barrier of the named lanes";
    "shuffle" = warp_masks_shuffle[0]: "by a shuffle of the named lanes";
}

/// Threads of a block.
const BLOCK: usize = 256;

/// Returns the lane of the mask below this one, or this lane if there is none.
#[inline(always)]
fn below(mask: u32, lane: u32) -> u32 {
    let below = mask & ((1 << lane) - 1);
    if below == 0 { lane } else { 31 - below.leading_zeros() }
}

/// Computes `out[i]`: `inp[i]` less the last element before it that is not 0, within each 32. `out[i]` is 0 if there is
/// none, and is not written if `inp[i]` is 0.
///
/// Launched with at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len` elements, and no other code uses the elements of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn warp_masks_sync(out: *mut u32, inp: *const u32, len: u32) {
    let x_shared = shared_array![u32; BLOCK];
    let (tid, i) = (thread::thread_idx_x(), thread::index_1d());
    let lane = tid % 32;
    // SAFETY: all lanes reach the vote, and those it names reach the barrier. Each writes its own element before it, and
    // reads a named lane's element after it.
    unsafe {
        let x = if i < len { *inp.add(i as usize) } else { 0 };
        let mask = warp_vote_ballot(u32::MAX, x != 0);
        if x != 0 {
            *x_shared.add(tid as usize) = x;
            sync_warp(mask);
            let before = *x_shared.add((tid - lane + below(mask, lane)) as usize);
            *out.add(i as usize) = x.wrapping_sub(before);
        }
    }
}

/// Like [`warp_masks_sync`](fn@warp_masks_sync), with a shuffle.
///
/// # Safety
/// Same as for [`warp_masks_sync`](fn@warp_masks_sync).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn warp_masks_shuffle(out: *mut u32, inp: *const u32, len: u32) {
    let (tid, i) = (thread::thread_idx_x(), thread::index_1d());
    let lane = tid % 32;
    // SAFETY: all lanes reach the vote, and those it names reach the shuffle.
    unsafe {
        let x = if i < len { *inp.add(i as usize) } else { 0 };
        let mask = warp_vote_ballot(u32::MAX, x != 0);
        if x != 0 {
            let (before, _) = warp_shuffle_idx(mask, x, below(mask, lane), 32);
            *out.add(i as usize) = x.wrapping_sub(before);
        }
    }
}
