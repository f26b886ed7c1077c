// Puzzle 22, row_sums (07-reductions): the sum of each row: a warp per row.
//
// Write to `out[row]` the sum of row `row` of `inp`, which is `[rows, cols]`.
//
// The grid has blocks of 128 threads, enough for a warp per row. With a thread per row, neighbouring threads would read
// elements that are `cols` apart. With a warp per row, its lanes read neighbours: lane 0 the columns 0, 32, 64, .., lane 1 the
// columns 1, 33, 65, .. Then the warp adds its sums: `warp::reduce_sum(x)`.
//
// Good: 4 sectors per load.

use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn row_sums(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    // Your code here.
}
