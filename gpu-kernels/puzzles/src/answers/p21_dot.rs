// Hint: Three steps: a loop over the elements with the step of the whole grid; the sum of the block; one atomic.
// Hint: Take the sum of the block from your solution of puzzle 20.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicF32;
use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn dot_solution(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let partial = shared_array![f32; 8];
    let (tid, n) = (thread::thread_idx_x() as usize, n as usize);
    let step = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    let mut sum = 0.0;
    let mut i = thread::index_1d() as usize;
    while i < n {
        sum += *a.add(i) * *b.add(i);
        i += step;
    }
    sum = warp::reduce_sum(sum);
    if tid % 32 == 0 {
        *partial.add(tid / 32) = sum;
    }
    thread::sync_threads();
    if tid < 32 {
        let sum = warp::reduce_sum(if tid < 8 { *partial.add(tid) } else { 0.0 });
        if tid == 0 {
            AtomicF32::from_ptr(out).fetch_add(sum, Ordering::Relaxed);
        }
    }
}

// Wrong: an addition that is not atomic.
// Says: depends on luck; need an atomic; between blocks nothing
#[kernel]
pub unsafe fn dot_plain(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let partial = shared_array![f32; 8];
    let (tid, n) = (thread::thread_idx_x() as usize, n as usize);
    let step = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    let mut sum = 0.0;
    let mut i = thread::index_1d() as usize;
    while i < n {
        sum += *a.add(i) * *b.add(i);
        i += step;
    }
    sum = warp::reduce_sum(sum);
    if tid % 32 == 0 {
        *partial.add(tid / 32) = sum;
    }
    thread::sync_threads();
    if tid < 32 {
        let sum = warp::reduce_sum(if tid < 8 { *partial.add(tid) } else { 0.0 });
        if tid == 0 {
            *out += sum;
        }
    }
}

// Wrong: it overwrites instead of adding.
// Says: depends on luck; out[0]
#[kernel]
pub unsafe fn dot_store(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let partial = shared_array![f32; 8];
    let (tid, n) = (thread::thread_idx_x() as usize, n as usize);
    let step = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    let mut sum = 0.0;
    let mut i = thread::index_1d() as usize;
    while i < n {
        sum += *a.add(i) * *b.add(i);
        i += step;
    }
    sum = warp::reduce_sum(sum);
    if tid % 32 == 0 {
        *partial.add(tid / 32) = sum;
    }
    thread::sync_threads();
    if tid < 32 {
        let sum = warp::reduce_sum(if tid < 8 { *partial.add(tid) } else { 0.0 });
        if tid == 0 {
            *out = sum;
        }
    }
}

// Wrong: an atomic operation per thread.
// Says: not good yet; atomic operations on global memory; 4 are enough
#[kernel]
pub unsafe fn dot_all(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let n = n as usize;
    let step = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    let mut sum = 0.0;
    let mut i = thread::index_1d() as usize;
    while i < n {
        sum += *a.add(i) * *b.add(i);
        i += step;
    }
    AtomicF32::from_ptr(out).fetch_add(sum, Ordering::Relaxed);
}

// Wrong: each lane of a warp adds the sum of the warp.
// Says: `out` is wrong; expected
#[kernel]
pub unsafe fn dot_every_warp(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let n = n as usize;
    let step = (thread::grid_dim_x() * thread::block_dim_x()) as usize;
    let mut sum = 0.0;
    let mut i = thread::index_1d() as usize;
    while i < n {
        sum += *a.add(i) * *b.add(i);
        i += step;
    }
    AtomicF32::from_ptr(out).fetch_add(warp::reduce_sum(sum), Ordering::Relaxed);
}
