// Puzzle 01, add_ten (01-kernels): add 10 to each element.
//
// Write `out[i] = inp[i] + 10` for each element of `inp`. `out` has as many elements.
//
//     thread  0    1    2    3   ..
//     inp     5    7   -1    0   ..
//     out    15   17    9   10   ..
//
// The grid has blocks of 128 threads, enough for a thread per element. `thread::index_1d()` is the position of a thread
// in the whole launch. The last block may have more threads than elements are left: these must do nothing.
//
// Good: a warp reads and writes neighbouring elements, 4 sectors per request.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn add_ten(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    // Your code here: write `*out.add(..) = ..`.
}
