// Puzzle 16, moving_average (05-shared-memory): the mean of five neighbours, through shared memory.
//
// Write to `out[i]` the mean of the elements `i - 2` to `i + 2` of `inp`. Elements before the first and after the last count
// as 0, and the sum is always divided by 5.
//
// The grid has blocks of 128 threads, enough for a thread per element. Each element is needed by five threads. So a block copies
// what it needs to shared memory, waits, and reads from there: 128 elements, and two more on either side, the halo.
//
//     shared     0  1 | 2  3  ..            129 | 130 131
//     element   -2 -1 | 0  1  ..            127 | 128 129      plus the first of the block
//
// `shared_array![f32; 132]` is a raw pointer to 132 elements that all threads of the block share.
//
// Good: each element is read from global memory 1.1 times at most.

use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn moving_average(out: *mut f32, inp: *const f32, n: u32) {
    let tile = shared_array![f32; 132];
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let tid = thread::thread_idx_x() as usize;
    // Your code here.
}
