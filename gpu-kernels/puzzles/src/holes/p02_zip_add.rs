// Puzzle 02, zip_add (01-kernels): add two vectors, element by element.
//
// Write `out[i] = a[i] + b[i]` for each element. All three have the same length.
//
// The grid has blocks of 128 threads, enough for a thread per element.
//
// Good: 4 sectors per request.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn zip_add(out: *mut f32, a: &[f32], b: &[f32]) {
    // Your code here.
    let _ = (out, a, b);
}
