// Hint: All threads take part until the end: those without an element add 0.
// Hint: After the barrier, all 32 lanes of the first warp take part in the shuffles: lanes above 7 with 0.

use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn block_sum_solution(out: *mut f32, inp: &[f32]) {
    let partial = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if tid % 32 == 0 {
        *partial.add(tid / 32) = sum;
    }
    thread::sync_threads();
    if tid < 32 {
        let mut sum = if tid < 8 { *partial.add(tid) } else { 0.0 };
        for delta in [4, 2, 1] {
            sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
        }
        if tid == 0 {
            *out.add(thread::block_idx_x() as usize) = sum;
        }
    }
}

// Wrong: no barrier.
// Says: shared memory; barrier is missing
#[kernel]
pub unsafe fn block_sum_no_barrier(out: *mut f32, inp: &[f32]) {
    let partial = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if tid % 32 == 0 {
        *partial.add(tid / 32) = sum;
    }
    if tid < 32 {
        let mut sum = if tid < 8 { *partial.add(tid) } else { 0.0 };
        for delta in [4, 2, 1] {
            sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
        }
        if tid == 0 {
            *out.add(thread::block_idx_x() as usize) = sum;
        }
    }
}

// Wrong: only eight lanes take part in the second half.
// Says: mask; neutral value
#[kernel]
pub unsafe fn block_sum_eight(out: *mut f32, inp: &[f32]) {
    let partial = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if tid % 32 == 0 {
        *partial.add(tid / 32) = sum;
    }
    thread::sync_threads();
    if tid < 8 {
        let mut sum = *partial.add(tid);
        for delta in [4, 2, 1] {
            sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
        }
        if tid == 0 {
            *out.add(thread::block_idx_x() as usize) = sum;
        }
    }
}

// Wrong: only the first warp.
// Says: likely cause
#[kernel]
pub unsafe fn block_sum_warps(out: *mut f32, inp: &[f32]) {
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [16, 8, 4, 2, 1] {
        sum += warp::warp_shuffle_down(u32::MAX, sum, delta, 32).0;
    }
    if tid == 0 {
        *out.add(thread::block_idx_x() as usize) = sum;
    }
}

// Wrong: a tree in shared memory.
// Says: not good yet; requests to shared memory
#[kernel]
pub unsafe fn block_sum_tree(out: *mut f32, inp: &[f32]) {
    let x = shared_array![f32; 256];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    *x.add(tid) = inp.get(i).copied().unwrap_or(0.0);
    thread::sync_threads();
    let mut half = 128;
    while half > 0 {
        if tid < half {
            *x.add(tid) += *x.add(tid + half);
        }
        thread::sync_threads();
        half /= 2;
    }
    if tid == 0 {
        *out.add(thread::block_idx_x() as usize) = *x;
    }
}

// Wrong: a tree whose barrier is in the `if`.
// Says: barrier; never reaches
#[kernel]
pub unsafe fn block_sum_tree_race(out: *mut f32, inp: &[f32]) {
    let x = shared_array![f32; 256];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    *x.add(tid) = inp.get(i).copied().unwrap_or(0.0);
    thread::sync_threads();
    let mut half = 128;
    while half > 0 {
        if tid < half {
            *x.add(tid) += *x.add(tid + half);
            thread::sync_threads();
        }
        half /= 2;
    }
    if tid == 0 {
        *out.add(thread::block_idx_x() as usize) = *x;
    }
}
