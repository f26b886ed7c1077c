// Puzzle 09, row_scale (03-coalescing): scale the rows of a matrix, with coalesced accesses.
//
// Write `out[row][col] = inp[row][col] * scale[row]`. Both matrices are `[rows, cols]`, row after row: element
// `(row, col)` is `inp[row * cols + col]`.
//
// The grid has blocks of 128 threads, enough for a thread per element. The kernel below is right, and it is slow: count
// with `check` what its warps request. Change which thread computes which element.
//
// Good: 4 sectors per load and per store.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn row_scale(out: *mut f32, inp: *const f32, scale: *const f32, rows: u32, cols: u32) {
    let i = thread::index_1d();
    if i < rows * cols {
        let (row, col) = (i % rows, i / rows);
        let at = (row * cols + col) as usize;
        *out.add(at) = *inp.add(at) * *scale.add(row as usize);
    }
}
