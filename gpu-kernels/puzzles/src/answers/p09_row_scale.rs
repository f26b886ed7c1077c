// Hint: Write down which elements the 32 threads of the first warp read: their addresses are `cols` elements apart, so each
// lies in another sector of 32 bytes.
// Hint: Neighbouring threads must have neighbouring columns. Divide by `cols` instead of by `rows`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn row_scale_solution(out: *mut f32, inp: *const f32, scale: *const f32, rows: u32, cols: u32) {
    let i = thread::index_1d();
    if i < rows * cols {
        let (row, at) = (i / cols, i as usize);
        *out.add(at) = *inp.add(at) * *scale.add(row as usize);
    }
}

// Wrong: it walks columns.
// Says: not good yet; sectors per load; 4 are enough; row_scale.rs; neighbouring
#[kernel]
pub unsafe fn row_scale_columns(out: *mut f32, inp: *const f32, scale: *const f32, rows: u32, cols: u32) {
    let i = thread::index_1d();
    if i < rows * cols {
        let (row, col) = (i % rows, i / rows);
        let at = (row * cols + col) as usize;
        *out.add(at) = *inp.add(at) * *scale.add(row as usize);
    }
}

// Wrong: the scale of the column.
// Says: row_scale.rs; scale
#[kernel]
pub unsafe fn row_scale_by_column(out: *mut f32, inp: *const f32, scale: *const f32, rows: u32, cols: u32) {
    let i = thread::index_1d();
    if i < rows * cols {
        let at = i as usize;
        *out.add(at) = *inp.add(at) * *scale.add((i % cols) as usize);
    }
}

// Wrong: a guard for the rows only.
// Says: reads inp[; compare the index
#[kernel]
pub unsafe fn row_scale_no_guard(out: *mut f32, inp: *const f32, scale: *const f32, rows: u32, cols: u32) {
    let i = thread::index_1d();
    let (row, at) = (i / cols, i as usize);
    if row <= rows {
        *out.add(at) = *inp.add(at) * *scale.add(row as usize);
    }
}

// Wrong: two threads compute each element.
// Says: two threads write out[; one thread alone
#[kernel]
pub unsafe fn row_scale_twice(out: *mut f32, inp: *const f32, scale: *const f32, rows: u32, cols: u32) {
    let i = thread::index_1d();
    for at in [i, i ^ 1] {
        if at < rows * cols {
            let (row, at) = (at / cols, at as usize);
            *out.add(at) = *inp.add(at) * *scale.add(row as usize);
        }
    }
}
