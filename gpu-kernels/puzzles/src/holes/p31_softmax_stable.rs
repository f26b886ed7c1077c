// Puzzle 31, softmax_stable (10-softmax): softmax of each row, for large numbers too.
//
// Write to each row of `out` the softmax of the row of `inp`: `exp(x[i]) / sum`, where `sum` is that of all `exp(x[j])` of the
// row. Both are `[rows, cols]`.
//
// In `f32`, `exp(x)` is infinite above 88.7, and 0 for all `x` below -104. But softmax does not change if the same number is
// subtracted from all elements of a row. Subtract the largest: then the largest exponential is 1, and so is the sum at least.
//
// The grid has blocks of 128 threads, enough for a warp per row, as in puzzle 22. `x.exp()` needs `use cuda_std::GpuFloat as _;`,
// which is there. `warp::reduce_max` and `warp::reduce_sum` return the result to all lanes.
//
// Good: 4 sectors per request.

use cuda_std::{GpuFloat as _, kernel, thread, warp};

#[kernel]
pub unsafe fn softmax_stable(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    // Your code here.
}
