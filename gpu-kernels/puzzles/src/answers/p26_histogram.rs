// Hint: Shared memory holds anything when a block starts. So it must be set to 0.
// Hint: The threads with `tid < 64` set the counts, and the same add them to `counts`.
// Hint: Both barriers must be reached by all threads.

use core::sync::atomic::Ordering;

use cuda_std::atomic::{AtomicU32, BlockAtomicU32};
use cuda_std::{kernel, shared_array, thread};

#[kernel]
pub unsafe fn histogram_solution(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if tid < 64 {
        *of_block.add(tid) = 0;
    }
    thread::sync_threads();
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        BlockAtomicU32::from_ptr(of_block.add(bin as usize)).fetch_add(1, Ordering::Relaxed);
    }
    thread::sync_threads();
    if tid < 64 {
        AtomicU32::from_ptr(counts.add(tid)).fetch_add(*of_block.add(tid), Ordering::Relaxed);
    }
}

// Wrong: an addition in shared memory that is not atomic.
// Says: depends on luck; shared memory
#[kernel]
pub unsafe fn histogram_plain(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if tid < 64 {
        *of_block.add(tid) = 0;
    }
    thread::sync_threads();
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        *of_block.add(bin as usize) += 1;
    }
    thread::sync_threads();
    if tid < 64 {
        AtomicU32::from_ptr(counts.add(tid)).fetch_add(*of_block.add(tid), Ordering::Relaxed);
    }
}

// Wrong: the counts are not set to 0.
// Says: shared memory that no thread wrote
#[kernel]
pub unsafe fn histogram_no_zero(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        BlockAtomicU32::from_ptr(of_block.add(bin as usize)).fetch_add(1, Ordering::Relaxed);
    }
    thread::sync_threads();
    if tid < 64 {
        AtomicU32::from_ptr(counts.add(tid)).fetch_add(*of_block.add(tid), Ordering::Relaxed);
    }
}

// Wrong: no counts in shared memory.
// Says: not good yet; atomic operations on global memory
#[kernel]
pub unsafe fn histogram_global(counts: *mut u32, inp: &[u32]) {
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        AtomicU32::from_ptr(counts.add(bin as usize)).fetch_add(1, Ordering::Relaxed);
    }
}

// Wrong: the second barrier is missing.
// Says: depends on luck; shared memory; barrier
#[kernel]
pub unsafe fn histogram_no_barrier(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if tid < 64 {
        *of_block.add(tid) = 0;
    }
    thread::sync_threads();
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        BlockAtomicU32::from_ptr(of_block.add(bin as usize)).fetch_add(1, Ordering::Relaxed);
    }
    if tid < 64 {
        AtomicU32::from_ptr(counts.add(tid)).fetch_add(*of_block.add(tid), Ordering::Relaxed);
    }
}

// Wrong: it overwrites instead of adding.
// Says: depends on luck; counts[
#[kernel]
pub unsafe fn histogram_store(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if tid < 64 {
        *of_block.add(tid) = 0;
    }
    thread::sync_threads();
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        BlockAtomicU32::from_ptr(of_block.add(bin as usize)).fetch_add(1, Ordering::Relaxed);
    }
    thread::sync_threads();
    if tid < 64 {
        *counts.add(tid) = *of_block.add(tid);
    }
}

// Wrong: an atomic load and an atomic store in shared memory.
// Says: depends on luck; shared memory; is lost; fetch_add
#[kernel]
pub unsafe fn histogram_load_store(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if tid < 64 {
        *of_block.add(tid) = 0;
    }
    thread::sync_threads();
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        let count = BlockAtomicU32::from_ptr(of_block.add(bin as usize));
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
    thread::sync_threads();
    if tid < 64 {
        AtomicU32::from_ptr(counts.add(tid)).fetch_add(*of_block.add(tid), Ordering::Relaxed);
    }
}

// Wrong: an atomic load and an atomic store at the end.
// Says: depends on luck; counts[; is lost; fetch_add
#[kernel]
pub unsafe fn histogram_load_store_last(counts: *mut u32, inp: &[u32]) {
    let of_block = shared_array![u32; 64];
    let tid = thread::thread_idx_x() as usize;
    if tid < 64 {
        *of_block.add(tid) = 0;
    }
    thread::sync_threads();
    if let Some(&bin) = inp.get(thread::index_1d() as usize) {
        BlockAtomicU32::from_ptr(of_block.add(bin as usize)).fetch_add(1, Ordering::Relaxed);
    }
    thread::sync_threads();
    if tid < 64 {
        let count = AtomicU32::from_ptr(counts.add(tid));
        count.store(count.load(Ordering::Relaxed) + *of_block.add(tid), Ordering::Relaxed);
    }
}
