// Hint: Begin as in puzzle 1: the position of the thread in the launch, and a guard.
// Hint: Every thread reads an element of `a` and the same element of `b`, and writes the same element of `out`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn zip_add_solution(out: *mut f32, a: &[f32], b: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < a.len() {
        *out.add(i) = a[i] + b[i];
    }
}

// Wrong: one of the inputs twice.
// Says: all elements are wrong; look at the formula; written by thread
#[kernel]
pub unsafe fn zip_add_twice(out: *mut f32, a: &[f32], b: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < a.len() {
        *out.add(i) = a[i] + a[i];
    }
}

// Wrong: the number of blocks instead of the threads of a block.
// Says: no thread wrote it; at the index
#[kernel]
pub unsafe fn zip_add_grid_dim(out: *mut f32, a: &[f32], b: &[f32]) {
    let i = (thread::block_idx_x() * thread::grid_dim_x() + thread::thread_idx_x()) as usize;
    if i < a.len() {
        *out.add(i) = a[i] + b[i];
    }
}

// Wrong: off by one in the guard.
// Says: panics: index out of bounds; compare the index with the length
#[kernel]
pub unsafe fn zip_add_at_most(out: *mut f32, a: &[f32], b: &[f32]) {
    let i = thread::index_1d() as usize;
    if i <= a.len() {
        *out.add(i) = a[i] + b[i];
    }
}
