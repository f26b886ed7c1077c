// Hint: Element `i` goes where as many elements follow as precede it now.
// Hint: The last element has index `n - 1`. Compute the new index only behind the guard: an unsigned number cannot go below 0.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn reverse_solution(out: *mut f32, inp: *const f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    if i < n {
        *out.add(n - 1 - i) = *inp.add(i);
    }
}

// Wrong: off by one.
// Says: writes out[; computed wrongly; off by one
#[kernel]
pub unsafe fn reverse_off_by_one(out: *mut f32, inp: *const f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    if i < n {
        *out.add(n - i) = *inp.add(i);
    }
}

// Wrong: it reverses each block.
// Says: an index is off by
#[kernel]
pub unsafe fn reverse_of_block(out: *mut f32, inp: *const f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let first = (thread::block_idx_x() * thread::block_dim_x()) as usize;
    let len = (n - first).min(thread::block_dim_x() as usize);
    if i < n {
        *out.add(first + len - 1 - (i - first)) = *inp.add(i);
    }
}

// Wrong: no guard.
// Says: likely cause
#[kernel]
pub unsafe fn reverse_missing(out: *mut f32, inp: *const f32, n: u32) {
    let (i, n) = (thread::index_1d(), n);
    *out.add((n - 1).wrapping_sub(i) as usize) = *inp.add(i as usize);
}
