// Puzzle 04, reverse (01-kernels): write the elements in reverse order.
//
// Write the last element of `inp` to `out[0]`, the one before to `out[1]`, and so on. Both have `n` elements, at least one.
//
//     inp    a  b  c  d
//     out    d  c  b  a
//
// The grid has blocks of 128 threads, enough for a thread per element.
//
// Good: 4 sectors per request. That neighbours go down instead of up costs nothing.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn reverse(out: *mut f32, inp: *const f32, n: u32) {
    // Your code here.
    let _ = (out, inp, n);
}
