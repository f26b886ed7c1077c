// Hint: Which threads have an element? Only they may read and write.
// Hint: `thread::index_1d()` is a `u32`, as is `n`; `add` takes a `usize`.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn guard_solution(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d() as usize;
    if i < n as usize {
        *out.add(i) = *inp.add(i) * *inp.add(i);
    }
}

// Wrong: no guard.
// Says: reads inp[; elements; more threads than there are elements
#[kernel]
pub unsafe fn guard_missing(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d() as usize;
    *out.add(i) = *inp.add(i) * *inp.add(i);
}

// Wrong: off by one in the guard.
// Says: reads inp[; off by one
#[kernel]
pub unsafe fn guard_at_most(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d() as usize;
    if i <= n as usize {
        *out.add(i) = *inp.add(i) * *inp.add(i);
    }
}

// Wrong: the position in the block in the guard.
// Says: reads inp[; compare the index with the length
#[kernel]
pub unsafe fn guard_of_block(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d() as usize;
    if thread::thread_idx_x() < n {
        *out.add(i) = *inp.add(i) * *inp.add(i);
    }
}

// Wrong: the read is before the guard.
// Says: reads inp[; compare the index with the length before the access
#[kernel]
pub unsafe fn guard_late(out: *mut f32, inp: *const f32, n: u32) {
    let i = thread::index_1d() as usize;
    let x = inp.add(i).read_volatile();
    if i < n as usize {
        *out.add(i) = x * x;
    }
}

// Wrong: threads beyond the end begin again at the first element.
// Says: two threads write out[; one thread alone
#[kernel]
pub unsafe fn guard_modulo(out: *mut f32, inp: *const f32, n: u32) {
    let i = (thread::index_1d() % n) as usize;
    *out.add(i) = *inp.add(i) * *inp.add(i);
}
