// Puzzle 24, warp_scan (08-scans): running sums within each warp.
//
// Write to `out[i]` the sum of the elements from the first of its warp up to `i`, with `i` itself: an inclusive scan of
// each 32 elements. Blocks have 128 threads, and there is a thread per element.
//
//     lane      0    1     2      3        4
//     inp       a    b     c      d        e
//     + 1       a    ab    bc     cd       de         the value one lane further down is added
//     + 2       a    ab    abc    abcd     bcde       two lanes
//     + 4, 8, 16                                      and so on
//
// `warp::warp_shuffle_up(mask, value, delta, 32)` returns the value of the lane `delta` further down. A lane that has no such
// lane gets its own value back, and must not add it.
//
// Good: 4 sectors per request.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn warp_scan(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let lane = warp::lane_id();
    // Your code here.
}
