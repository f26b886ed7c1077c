// Hint: First all threads read their new value into a variable, then all wait, then all write.
// Hint: The barrier must not be in an `if` that not all threads take. So there is one `if` before it and one after it.

use cuda_std::{kernel, thread};

#[kernel]
pub unsafe fn reverse_block_solution(data: *mut f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let (first, tid) = (i / 64 * 64, thread::thread_idx_x() as usize);
    let len = (n - first).min(64);
    let new = if i < n { *data.add(first + len - 1 - tid) } else { 0.0 };
    thread::sync_threads();
    if i < n {
        *data.add(i) = new;
    }
}

// Wrong: no barrier.
// Says: depends on luck; nothing makes one wait; barrier is missing
#[kernel]
pub unsafe fn reverse_block_no_barrier(data: *mut f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let (first, tid) = (i / 64 * 64, thread::thread_idx_x() as usize);
    let len = (n - first).min(64);
    if i < n {
        let new = *data.add(first + len - 1 - tid);
        *data.add(i) = new;
    }
}

// Wrong: the barrier is in an `if`.
// Says: barrier; never reaches; in an `if`
#[kernel]
pub unsafe fn reverse_block_in_if(data: *mut f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let (first, tid) = (i / 64 * 64, thread::thread_idx_x() as usize);
    let len = (n - first).min(64);
    if i < n {
        let new = *data.add(first + len - 1 - tid);
        thread::sync_threads();
        *data.add(i) = new;
    }
}

// Wrong: the last block is treated as whole.
// Says: elements; computed wrongly
#[kernel]
pub unsafe fn reverse_block_whole(data: *mut f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let (first, tid) = (i / 64 * 64, thread::thread_idx_x() as usize);
    let new = if i < n { *data.add(first + 63 - tid) } else { 0.0 };
    thread::sync_threads();
    if i < n {
        *data.add(i) = new;
    }
}

// Wrong: only the warp waits.
// Says: depends on luck; barrier
#[kernel]
pub unsafe fn reverse_block_warp(data: *mut f32, n: u32) {
    let (i, n) = (thread::index_1d() as usize, n as usize);
    let (first, tid) = (i / 64 * 64, thread::thread_idx_x() as usize);
    let len = (n - first).min(64);
    let new = if i < n { *data.add(first + len - 1 - tid) } else { 0.0 };
    cuda_std::warp::sync_warp(u32::MAX);
    if i < n {
        *data.add(i) = new;
    }
}
