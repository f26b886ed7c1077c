// Hint: Lanes without an element contribute 0.
// Hint: Only lane 0 calls `fetch_add`.

use core::sync::atomic::Ordering;

use cuda_std::atomic::AtomicU32;
use cuda_std::{kernel, thread, warp};

#[kernel]
pub unsafe fn total_by_atomic_solution(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    let sum = warp::reduce_sum(inp.get(i).copied().unwrap_or(0));
    if warp::lane_id() == 0 {
        AtomicU32::from_ptr(total).fetch_add(sum, Ordering::Relaxed);
    }
}

// Wrong: an addition that is not atomic.
// Says: depends on luck; total[0]; need an atomic
#[kernel]
pub unsafe fn total_by_atomic_plain(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    let sum = warp::reduce_sum(inp.get(i).copied().unwrap_or(0));
    if warp::lane_id() == 0 {
        *total += sum;
    }
}

// Wrong: an atomic operation per thread.
// Says: not good yet; atomic operations on global memory; 16 are enough
#[kernel]
pub unsafe fn total_by_atomic_threads(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    if i < inp.len() {
        AtomicU32::from_ptr(total).fetch_add(inp[i], Ordering::Relaxed);
    }
}

// Wrong: all lanes add the sum.
// Says: `total` is wrong; expected
#[kernel]
pub unsafe fn total_by_atomic_lanes(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    let sum = warp::reduce_sum(inp.get(i).copied().unwrap_or(0));
    AtomicU32::from_ptr(total).fetch_add(sum, Ordering::Relaxed);
}

// Wrong: lanes without an element return.
// Says: mask
#[kernel]
pub unsafe fn total_by_atomic_returns(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    if i >= inp.len() {
        return;
    }
    let sum = warp::reduce_sum(inp[i]);
    if warp::lane_id() == 0 {
        AtomicU32::from_ptr(total).fetch_add(sum, Ordering::Relaxed);
    }
}

// Wrong: an atomic load and an atomic store.
// Says: depends on luck; total[0]; is lost; fetch_add
#[kernel]
pub unsafe fn total_by_atomic_load_store(total: *mut u32, inp: &[u32]) {
    let i = thread::index_1d() as usize;
    let sum = warp::reduce_sum(inp.get(i).copied().unwrap_or(0));
    if warp::lane_id() == 0 {
        let total = AtomicU32::from_ptr(total);
        total.store(total.load(Ordering::Relaxed) + sum, Ordering::Relaxed);
    }
}
