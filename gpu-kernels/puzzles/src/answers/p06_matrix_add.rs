// Hint: `at.x` is the column and `at.y` the row.
// Hint: Both must be compared: the last block has too many threads along x, and the lowest along y.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn matrix_add_solution(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        let i = (at.y * cols + at.x) as usize;
        *out.add(i) = *a.add(i) + *b.add(i);
    }
}

// Wrong: x is the row.
// Says: no thread wrote it
#[kernel]
pub unsafe fn matrix_add_swapped(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.x < rows && at.y < cols {
        let i = (at.x * cols + at.y) as usize;
        *out.add(i) = *a.add(i) + *b.add(i);
    }
}

// Wrong: the rows as the distance between rows.
// Says: likely cause
#[kernel]
pub unsafe fn matrix_add_by_rows(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        let i = (at.y * rows + at.x) as usize;
        *out.add(i) = *a.add(i) + *b.add(i);
    }
}

// Wrong: a guard for the index alone: some elements are written twice.
// Says: two threads write out[; one thread alone
#[kernel]
pub unsafe fn matrix_add_flat(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    let i = (at.y * cols + at.x) as usize;
    if i < (rows * cols) as usize {
        *out.add(i) = *a.add(i) + *b.add(i);
    }
}

// Wrong: no guard for the columns.
// Says: elements; the column with the columns
#[kernel]
pub unsafe fn matrix_add_rows_only(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows {
        let i = (at.y * cols + at.x) as usize;
        *out.add(i) = *a.add(i) + *b.add(i);
    }
}

// Wrong: threads beyond the last column begin again at the first.
// Says: two threads write out[
#[kernel]
pub unsafe fn matrix_add_modulo(out: *mut f32, a: *const f32, b: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows {
        let i = (at.y * cols + at.x % cols) as usize;
        *out.add(i) = *a.add(i) + *b.add(i);
    }
}
