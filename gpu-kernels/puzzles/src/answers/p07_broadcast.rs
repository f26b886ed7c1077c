// Hint: Only `out` is a matrix. The vectors have one index each.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn broadcast_solution(out: *mut f32, left: *const f32, top: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        *out.add((at.y * cols + at.x) as usize) = *left.add(at.y as usize) + *top.add(at.x as usize);
    }
}

// Wrong: the vectors swapped.
// Says: likely cause
#[kernel]
pub unsafe fn broadcast_swapped(out: *mut f32, left: *const f32, top: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y < rows && at.x < cols {
        *out.add((at.y * cols + at.x) as usize) = *left.add(at.x as usize) + *top.add(at.y as usize);
    }
}

// Wrong: one guard for both.
// Says: elements; the column with the columns
#[kernel]
pub unsafe fn broadcast_guard(out: *mut f32, left: *const f32, top: *const f32, rows: u32, cols: u32) {
    let at = thread::index_2d();
    if at.y * cols + at.x < rows * cols {
        *out.add((at.y * cols + at.x) as usize) = *left.add(at.y as usize) + *top.add(at.x as usize);
    }
}

// Wrong: positions in the block.
// Says: no thread wrote it
#[kernel]
pub unsafe fn broadcast_one_block(out: *mut f32, left: *const f32, top: *const f32, rows: u32, cols: u32) {
    let (x, y) = (thread::thread_idx_x(), thread::thread_idx_y());
    if y < rows && x < cols {
        *out.add((y * cols + x) as usize) = *left.add(y as usize) + *top.add(x as usize);
    }
}
