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

// Wrong: an atomic load and an atomic store.
// Says: depends on luck; out[0]; is lost; fetch_add
#[kernel]
pub unsafe fn dot_load_store(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    let (mut i, step) = (thread::index_1d(), thread::grid_dim_x() * thread::block_dim_x());
    let mut sum = 0.0;
    while i < n {
        sum += *a.add(i as usize) * *b.add(i as usize);
        i += step;
    }
    let sum = warp::reduce_sum(sum);
    if warp::lane_id() == 0 {
        let total = AtomicF32::from_ptr(out);
        total.store(total.load(Ordering::Relaxed) + sum, Ordering::Relaxed);
    }
}

// Wrong: the first block alone.
// Says: not good yet; one of the 4 blocks does most of the work
#[kernel]
pub unsafe fn dot_one_block(out: *mut f32, a: *const f32, b: *const f32, n: u32) {
    if thread::block_idx_x() > 0 {
        return;
    }
    let (mut i, mut sum) = (thread::thread_idx_x(), 0.0);
    while i < n {
        sum += *a.add(i as usize) * *b.add(i as usize);
        i += thread::block_dim_x();
    }
    let sum = warp::reduce_sum(sum);
    let of_warps = shared_array![f32; 8];
    let warp = (thread::thread_idx_x() / 32) as usize;
    if warp::lane_id() == 0 {
        *of_warps.add(warp) = sum;
    }
    thread::sync_threads();
    if thread::thread_idx_x() == 0 {
        let mut total = 0.0;
        for warp in 0..8 {
            total += *of_warps.add(warp);
        }
        AtomicF32::from_ptr(out).fetch_add(total, Ordering::Relaxed);
    }
}
