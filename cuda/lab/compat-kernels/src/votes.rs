//! Barriers that count, and votes.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering;
use cuda_std::atomic::mid;
use cuda_std::prelude::*;
use cuda_std::warp;

/// A helper without an unsafe block: the number of threads of the block where `yes` holds, or 0 if it holds in all.
fn how_many(yes: bool) -> u32 {
    thread::sync_threads();
    let count = thread::sync_threads_count(yes as u32);
    if thread::sync_threads_or(yes as u32) != 0 && thread::sync_threads_and(yes as u32) == 0 {
        count
    } else {
        0
    }
}

/// `counts[block]` = the number of positive elements in the block, 0 if all are.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn count_positives(inp: &[f32], counts: *mut u32) {
    let i = thread::index_1d() as usize;
    let count = how_many(i < inp.len() && inp[i] > 0.0);
    if thread::thread_idx_x() == 0 {
        *counts.add(thread::block_idx_x() as usize) = count;
    }
}

/// out = inp reversed in blocks of 64; the halves of the first warp wait at separate barriers.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn reverse_apart(inp: &[f32], out: *mut f32) {
    #[address_space(shared)]
    static mut ROW: [MaybeUninit<f32>; 64] = [const { MaybeUninit::uninit() }; 64];

    let tid = thread::thread_idx_x() as usize;
    ROW[tid].write(inp[tid]);
    let first = if tid < 16 {
        thread::sync_threads();
        0.0
    } else {
        thread::sync_threads();
        1.0
    };
    *out.add(tid) = ROW[63 - tid].assume_init() + first;
}

/// Writes the positive elements of inp to out in their order within each block; *len counts all of them.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn compact(inp: &[i32], out: *mut i32, len: *mut u32) {
    let i = thread::index_1d() as usize;
    let keep = i < inp.len() && inp[i] > 0;
    let ballot = warp::warp_vote_ballot(u32::MAX, keep);
    let lane = warp::lane_id();
    let mut base = 0;
    if lane == 0 {
        base = mid::atomic_fetch_add_u32_device(len, Ordering::AcqRel, ballot.count_ones());
    }
    let (base, _) = warp::warp_shuffle_idx(u32::MAX, base, 0, 32);
    if keep {
        let before = ballot & ((1 << lane) - 1);
        *out.add((base + before.count_ones()) as usize) = inp[i];
    }
}
