// Hint: Each thread computes one element, the one at its own position `i`. There is no loop.
// Hint: `inp[i]` panics if `i` is not below `inp.len()`. So compare first: `if i < inp.len() { .. }`.
// Hint: `out` is a raw pointer. `*out.add(i) = x` writes its element `i`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn add_ten_solution(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        *out.add(i) = inp[i] + 10.0;
    }
}

// Wrong: no guard, and Rust checks the index.
// Says: panics: index out of bounds; compare the index with the length
#[kernel]
pub unsafe fn add_ten_no_guard(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    *out.add(i) = inp[i] + 10.0;
}

// Wrong: no guard, and nothing checks the index.
// Says: reads inp[; elements; compare the index with the length
#[kernel]
pub unsafe fn add_ten_unchecked(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    *out.add(i) = *inp.as_ptr().add(i) + 10.0;
}

// Wrong: the position in the block only.
// Says: no thread wrote it; does the index contain the number of the block
#[kernel]
pub unsafe fn add_ten_one_block(out: *mut f32, inp: &[f32]) {
    let i = thread::thread_idx_x() as usize;
    if i < inp.len() {
        *out.add(i) = inp[i] + 10.0;
    }
}

// Wrong: off by one in the guard.
// Says: was never written; no thread wrote it; guard
#[kernel]
pub unsafe fn add_ten_last(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    if i + 1 < inp.len() {
        *out.add(i) = inp[i] + 10.0;
    }
}

// Wrong: a loop without an end.
// Says: does not end; loop
#[kernel]
pub unsafe fn add_ten_endless(out: *mut f32, inp: &[f32]) {
    let i = thread::index_1d() as usize;
    let mut k = i;
    while k < inp.len() {
        *out.add(i) = core::hint::black_box(inp[i] + 10.0);
    }
}

// Wrong: each thread computes all elements.
// Says: two threads write out[; one thread alone
#[kernel]
pub unsafe fn add_ten_all(out: *mut f32, inp: &[f32]) {
    for i in 0..inp.len() {
        *out.add(i) = inp[i] + 10.0;
    }
}

// Wrong: threads beyond the end repeat the last element.
// Says: two threads write out[; one thread alone
#[kernel]
pub unsafe fn add_ten_min(out: *mut f32, inp: &[f32]) {
    let i = (thread::index_1d() as usize).min(inp.len() - 1);
    *out.add(i) = inp[i] + 10.0;
}

// Wrong: one thread computes all elements.
// Says: not good yet; few threads do all the work
#[kernel]
pub unsafe fn add_ten_one_thread(out: *mut f32, inp: &[f32]) {
    if thread::index_1d() == 0 {
        for i in 0..inp.len() {
            *out.add(i) = inp[i] + 10.0;
        }
    }
}

// Wrong: a `static` that all threads write.
// Says: two threads write memory that is no buffer
#[kernel]
pub unsafe fn add_ten_static(out: *mut f32, inp: &[f32]) {
    static mut K: f32 = 0.0;
    K = (inp.len() + 10) as f32;
    thread::sync_threads();
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        *out.add(i) = inp[i] + (K - inp.len() as f32);
    }
}
