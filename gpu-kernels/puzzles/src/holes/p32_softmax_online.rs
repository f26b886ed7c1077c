// Puzzle 32, softmax_online (10-softmax): softmax with one read less: the online sum.
//
// The task is that of puzzle 31. There a row is read three times: for the largest, for the sum, and for the results. The
// largest and the sum can be found together. Keep both for the elements so far. If a new element is larger than all before, the
// sum is that of exponentials with the old largest subtracted. Correct it:
//
//     new = max(largest, x)
//     sum = sum * exp(largest - new) + exp(x - new)
//     largest = new
//
// Each lane has its own largest and sum in the end. Find the largest of the warp, correct the sum of each lane in the same way,
// and add them.
//
// Good: each element is read twice, and 4 sectors per request.

use cuda_std::{GpuFloat as _, kernel, thread, warp};

#[kernel]
pub unsafe fn softmax_online(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let (row, lane) = (thread::index_1d() / 32, warp::lane_id());
    // Your code here.
}
