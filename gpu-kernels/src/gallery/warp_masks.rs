//! Some lanes of a warp work together while the others have left.
//!
//! What lanes do together names them in a mask, a bit each. A vote asks all lanes of the warp first, since the mask must be
//! the same for all that are in it; the lanes that it does not name go on without them. Here the lanes with an element that is
//! not 0 find the one below them.
//!
//! * `sync` hands the elements on in shared memory: `sync_warp` makes those of the named lanes wait for each other, and lets them
//!   see what the others wrote. A warp has no lock step to rely on.
//! * `shuffle` hands them on in registers.
//!
//! Requires: blocks of 256 threads.
//@ ptx(warp_masks_sync): vote.sync.ballot == 1, bar.warp.sync == 1, bar.sync == 0, .local == 0
//@ ptx(warp_masks_shuffle): vote.sync.ballot == 1, shfl.sync.idx == 1, .shared == 0, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::{Grid, Rung};
use cuda_std::warp::{sync_warp, warp_shuffle_idx, warp_vote_ballot};
use cuda_std::{kernel, shared_array, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments>] = &[
    Rung {
        name: "sync",
        idea: "by shared memory, and a barrier of the named lanes",
        kernel: &warp_masks_sync::INSTANCES[0],
    },
    Rung {
        name: "shuffle",
        idea: "by a shuffle of the named lanes",
        kernel: &warp_masks_shuffle::INSTANCES[0],
    },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] =
    &[warp_masks_sync::META, warp_masks_shuffle::META];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The differences, `len` of them.
    pub out: cuda_std::launch::RawBuffer<u32>,
    /// The elements, as many.
    pub inp: cuda_std::launch::RawBuffer<u32>,
    /// How many.
    pub len: u32,
}

/// Threads of a block.
const BLOCK: usize = 256;

/// The lane of the mask below this one, or itself where there is none.
#[inline(always)]
fn below(mask: u32, lane: u32) -> u32 {
    let below = mask & ((1 << lane) - 1);
    if below == 0 { lane } else { 31 - below.leading_zeros() }
}

/// `out[i]` becomes `inp[i]` less the last element before it that is not 0, within each 32; where there is none, and where
/// `inp[i]` is 0, it becomes 0 and stays as it is.
///
/// Launched on at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; both hold `len` elements, and no other code uses those of `out`.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn warp_masks_sync(out: *mut u32, inp: *const u32, len: u32) {
    let x_shared = shared_array![u32; BLOCK];
    let (tid, i) = (thread::thread_idx_x(), thread::index_1d());
    let lane = tid % 32;
    // SAFETY: all lanes come to the vote, and those it names to the barrier; each writes an element of its own before that,
    // and reads one of a named lane after it.
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

/// As [`warp_masks_sync`](fn@warp_masks_sync), by a shuffle.
///
/// Launched on at least `len` threads along x, in blocks of 256.
///
/// # Safety
/// Same as for [`warp_masks_sync`](fn@warp_masks_sync).
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn warp_masks_shuffle(out: *mut u32, inp: *const u32, len: u32) {
    let (tid, i) = (thread::thread_idx_x(), thread::index_1d());
    let lane = tid % 32;
    // SAFETY: all lanes come to the vote, and those it names to the shuffle.
    unsafe {
        let x = if i < len { *inp.add(i as usize) } else { 0 };
        let mask = warp_vote_ballot(u32::MAX, x != 0);
        if x != 0 {
            let (before, _) = warp_shuffle_idx(mask, x, below(mask, lane), 32);
            *out.add(i as usize) = x.wrapping_sub(before);
        }
    }
}
