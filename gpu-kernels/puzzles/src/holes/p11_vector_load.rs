// Puzzle 11, vector_load (03-coalescing): load 16 bytes per thread and request.
//
// Write `out[i] = 2 * inp[i]` for each `i` below `n`, with vectors of four: `f32x4` is four `f32` that one instruction moves.
//
// The grid has blocks of 128 threads, enough for a thread per four elements. Both pointers are multiples of 16 bytes. `n` need
// not be a multiple of 4: the last elements are loaded one by one.
//
//     n = 10      vector 0      vector 1     8  9
//     thread      0             1            2  2
//
// Good: at most 32 loads for 4096 elements: one request of a warp loads 512 bytes.

use cuda_std::mem::f32x4;
use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn vector_load(out: *mut f32, inp: *const f32, n: u32) {
    let first = 4 * thread::index_1d() as usize;
    // Your code here. `*inp.add(first).cast::<f32x4>()` is a vector, with fields `x`, `y`, `z` and `w`.
}
