// Hint: Lane 0 of each warp writes `kept.count_ones()` to `counts[warp]`. After the barrier, a thread adds the counts of the warps before its own.
// Hint: The last thread knows the number of all: its place, plus 1 if it keeps an element.

use core::sync::atomic::Ordering;

use cuda_std::atomic::BlockAtomicU32;
use cuda_std::{kernel, shared_array, thread, warp};

#[kernel]
pub unsafe fn compact_solution(out: *mut f32, len: *mut u32, inp: &[f32]) {
    let counts = shared_array![u32; 4];
    let tid = thread::thread_idx_x() as usize;
    let (lane, own) = (warp::lane_id(), tid / 32);
    let value = inp.get(tid).copied().unwrap_or(0.0);
    let kept = warp::warp_vote_ballot(u32::MAX, value > 0.0);
    if lane == 0 {
        *counts.add(own) = kept.count_ones();
    }
    thread::sync_threads();
    let mut place = (kept & ((1 << lane) - 1)).count_ones();
    for warp in 0..own {
        place += *counts.add(warp);
    }
    if value > 0.0 {
        *out.add(place as usize) = value;
    }
    if tid == 127 {
        *len = place + u32::from(value > 0.0);
    }
}

// Wrong: places in the order in which threads come.
// Says: right in one order of the threads, and wrong in another
#[kernel]
pub unsafe fn compact_by_atomic(out: *mut f32, len: *mut u32, inp: &[f32]) {
    let next = shared_array![u32; 1];
    let tid = thread::thread_idx_x() as usize;
    if tid == 0 {
        *next = 0;
    }
    thread::sync_threads();
    if let Some(&value) = inp.get(tid)
        && value > 0.0
    {
        let place = BlockAtomicU32::from_ptr(next).fetch_add(1, Ordering::Relaxed);
        *out.add(place as usize) = value;
    }
    thread::sync_threads();
    if tid == 0 {
        *len = *next;
    }
}

// Wrong: the lanes up to its own.
// Says: likely cause
#[kernel]
pub unsafe fn compact_with_own(out: *mut f32, len: *mut u32, inp: &[f32]) {
    let counts = shared_array![u32; 4];
    let tid = thread::thread_idx_x() as usize;
    let (lane, own) = (warp::lane_id(), tid / 32);
    let value = inp.get(tid).copied().unwrap_or(0.0);
    let kept = warp::warp_vote_ballot(u32::MAX, value > 0.0);
    if lane == 0 {
        *counts.add(own) = kept.count_ones();
    }
    thread::sync_threads();
    let mut place = (kept & ((2 << lane) - 1)).count_ones();
    for warp in 0..own {
        place += *counts.add(warp);
    }
    if value > 0.0 {
        *out.add(place as usize) = value;
    }
    if tid == 127 {
        *len = place + u32::from(value > 0.0);
    }
}

// Wrong: without the other warps.
// Says: expected; written by thread
#[kernel]
pub unsafe fn compact_warp(out: *mut f32, len: *mut u32, inp: &[f32]) {
    let counts = shared_array![u32; 4];
    let tid = thread::thread_idx_x() as usize;
    let (lane, own) = (warp::lane_id(), tid / 32);
    let value = inp.get(tid).copied().unwrap_or(0.0);
    let kept = warp::warp_vote_ballot(u32::MAX, value > 0.0);
    if lane == 0 {
        *counts.add(own) = kept.count_ones();
    }
    thread::sync_threads();
    let mut place = (kept & ((1 << lane) - 1)).count_ones();
    if value > 0.0 {
        *out.add(place as usize) = value;
    }
    if tid == 127 {
        *len = place + u32::from(value > 0.0);
    }
}

// Wrong: no barrier.
// Says: depends on luck; shared memory; barrier
#[kernel]
pub unsafe fn compact_no_barrier(out: *mut f32, len: *mut u32, inp: &[f32]) {
    let counts = shared_array![u32; 4];
    let tid = thread::thread_idx_x() as usize;
    let (lane, own) = (warp::lane_id(), tid / 32);
    let value = inp.get(tid).copied().unwrap_or(0.0);
    let kept = warp::warp_vote_ballot(u32::MAX, value > 0.0);
    if lane == 0 {
        *counts.add(own) = kept.count_ones();
    }
    let mut place = (kept & ((1 << lane) - 1)).count_ones();
    for warp in 0..own {
        place += *counts.add(warp);
    }
    if value > 0.0 {
        *out.add(place as usize) = value;
    }
    if tid == 127 {
        *len = place + u32::from(value > 0.0);
    }
}
