// Hint: The warp has number `tid / 32` in its block; the sums before it are those of the warps 0 to `tid / 32 - 1`.
// Hint: All lanes of a warp read the same word of shared memory in the same instruction: that is no conflict.

use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn block_scan_solution(out: *mut f32, inp: &[f32]) {
    let sums = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if lane == 31 {
        *sums.add(tid / 32) = sum;
    }
    thread::sync_threads();
    for warp in 0..tid / 32 {
        sum += *sums.add(warp);
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: no barrier.
// Says: depends on luck; shared memory; barrier
#[kernel]
pub unsafe fn block_scan_no_barrier(out: *mut f32, inp: &[f32]) {
    let sums = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if lane == 31 {
        *sums.add(tid / 32) = sum;
    }
    for warp in 0..tid / 32 {
        sum += *sums.add(warp);
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: the sum of its own warp too.
// Says: likely cause
#[kernel]
pub unsafe fn block_scan_own_warp(out: *mut f32, inp: &[f32]) {
    let sums = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if lane == 31 {
        *sums.add(tid / 32) = sum;
    }
    thread::sync_threads();
    for warp in 0..tid / 32 + 1 {
        sum += *sums.add(warp);
    }
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: without the other warps.
// Says: likely cause
#[kernel]
pub unsafe fn block_scan_warps(out: *mut f32, inp: &[f32]) {
    let sums = shared_array![f32; 8];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    let lane = warp::lane_id();
    let mut sum = inp.get(i).copied().unwrap_or(0.0);
    for delta in [1, 2, 4, 8, 16] {
        let other = warp::warp_shuffle_up(u32::MAX, sum, delta, 32).0;
        if lane >= delta {
            sum += other;
        }
    }
    if lane == 31 {
        *sums.add(tid / 32) = sum;
    }
    thread::sync_threads();
    if i < inp.len() {
        *out.add(i) = sum;
    }
}

// Wrong: steps in place in shared memory, with one barrier for each.
// Says: depends on luck; barrier; after the reads
#[kernel]
pub unsafe fn block_scan_in_place(out: *mut f32, inp: &[f32]) {
    let x = shared_array![f32; 256];
    let (tid, i) = (thread::thread_idx_x() as usize, thread::index_1d() as usize);
    *x.add(tid) = inp.get(i).copied().unwrap_or(0.0);
    thread::sync_threads();
    let mut delta = 1;
    while delta < 256 {
        if tid >= delta {
            *x.add(tid) += *x.add(tid - delta);
        }
        thread::sync_threads();
        delta *= 2;
    }
    if i < inp.len() {
        *out.add(i) = *x.add(tid);
    }
}
