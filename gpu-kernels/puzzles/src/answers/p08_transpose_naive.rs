// Hint: A row of `out` has `rows` elements, so that its element `(col, row)` has index `col * rows + row`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn transpose_naive_solution(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        *out.add((at.x * rows + at.y) as usize) = *inp.add((at.y * cols + at.x) as usize);
    }
}

// Wrong: the columns of the input as the distance between rows of the output.
// Says: likely cause
#[kernel]
pub unsafe fn transpose_naive_stride(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        *out.add((at.x * cols + at.y) as usize) = *inp.add((at.y * cols + at.x) as usize);
    }
}

// Wrong: a copy.
// Says: belongs into; look at the index
#[kernel]
pub unsafe fn transpose_naive_copy(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        let i = (at.y * cols + at.x) as usize;
        *out.add(i) = *inp.add(i);
    }
}

// Wrong: no guard for the rows.
// Says: elements; compare the row with the rows
#[kernel]
pub unsafe fn transpose_naive_guard(out: *mut f32, inp: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.x < cols {
        *out.add((at.x * rows + at.y) as usize) = *inp.add((at.y * cols + at.x) as usize);
    }
}
