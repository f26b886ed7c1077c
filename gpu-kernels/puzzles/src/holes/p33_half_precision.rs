// Puzzle 33, half_precision (11-tensor-cores): 16 bits in memory, 32 bits in the sum.
//
// Write to `out[row]` the sum of row `row` of `inp`, which is `[rows, cols]` of `bf16`. `out` is `f32`.
//
// A `bf16` has the upper 16 bits of an `f32`: the same range, but only 8 bits of precision. It is made for storage: half of the
// bytes take half of the time. A sum in `bf16` is wrong soon: 256 + 1 is 256. So convert each element with `x.to_f32()`, and
// add in `f32`.
//
// The grid has blocks of 128 threads, enough for a warp per row, as in puzzle 22.
//
// Good: 2 sectors per load: 32 elements are 64 bytes.

use cuda_std::half::bf16;
use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn half_precision(out: *mut f32, inp: *const bf16, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    // Your code here.
}
