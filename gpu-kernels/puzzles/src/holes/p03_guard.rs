// Puzzle 03, guard (01-kernels): square the elements, with far more threads than elements.
//
// Write `out[i] = inp[i] * inp[i]` for each `i` below `n`.
//
// The grid always has 8 blocks of 128 threads, however many elements there are: `n` is at most 1024. `inp` and `out` are raw
// pointers to `n` elements. They do not know their length, and nothing stops a thread that reads or writes beyond it: on a
// GPU it reads what lies there, or overwrites it.
//
// Good: 4 sectors per request.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn guard(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d() as usize;
    // Your code here. `*inp.add(i)` is element `i`.
}
