// Puzzle 14, warp_vote (04-warps): count in each warp by a vote.
//
// Write to `out[w]` how many of the elements `32 * w` to `32 * w + 31` of `inp` are above `limit`. The last warp with elements
// may have fewer than 32. Blocks have 128 threads, and there is a thread per element.
//
//     lane               0  1  2  3  ..
//     inp[i] > limit     1  0  1  1  ..
//     ballot             bit 0 is 1, bit 1 is 0, bit 2 is 1, bit 3 is 1 ..
//
// `warp::warp_vote_ballot(mask, predicate)` returns the same word to all lanes, with a bit for each lane in `mask`; every lane
// in `mask` must call it. `count_ones()` counts its bits: no loop, no shared memory.
//
// Good: 4 sectors per load.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn warp_vote(out: *mut u32, inp: &[u32], limit: u32) {
    let i = thread::index_1d() as usize;
    // Your code here.
}
