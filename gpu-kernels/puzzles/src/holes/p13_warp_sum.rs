// Puzzle 13, warp_sum (04-warps): the sum of each warp's 32 elements, by shuffles.
//
// Write to `out[w]` the sum of the elements `32 * w` to `32 * w + 31` of `inp`. The last warp with elements may have fewer
// than 32. Do it without shared memory: in each step, a lane adds the value of a lane further up.
//
//     lane     0     1     2     3   ..
//     before   a     b     c     d
//     + 16     a+q   b+r   c+s   d+t      the value of the lane 16 further up is added
//     + 8, 4, 2, 1                        and so on: lane 0 has the sum
//
// `warp::warp_shuffle_down(mask, value, delta, 32)` returns the value of the lane `delta` further up, and whether there is
// one; every lane in `mask` must call it. Blocks have 128 threads, and there is a thread per element.
//
// Good: a warp stores one element once.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn warp_sum(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    // Your code here.
}
