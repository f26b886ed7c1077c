//! Branches and loops where the lanes of a warp diverge.
//!
//! A warp issues one instruction at a time for its 32 lanes. If lanes take different branches, the warp executes the
//! branches one after the other, each with its lanes, until the lanes reconverge.
//!
//! * `branch_by_lane`: neighbouring lanes take one of `ways` branches, each with the same work: a warp executes all of them.
//! * `branch_by_warp`: the same, but all lanes of a warp take the same branch.
//! * `trips_by_lane`: neighbouring lanes run a loop for different numbers of iterations. A warp runs the number of its
//!   slowest lane, and the other lanes wait.
//! * `trips_by_warp`: the same numbers of iterations, but all lanes of a warp have the same number.
//!
//! Requires: blocks of one warp per way, for up to 32 ways.
//@ ptx: bar.sync == 0, st.global == 1, .local == 0

use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32)
    values(ways: u32, turns: u32)
    facts(())
    "branch_by_lane" = divergence_branch_by_lane[0]: "lanes go different ways";
    "branch_by_warp" = divergence_branch_by_warp[0]: "warps go different ways";
    "trips_by_lane" = divergence_trips_by_lane[0]: "lanes take different numbers of turns";
    "trips_by_warp" = divergence_trips_by_warp[0]: "warps take different numbers of turns";
}

/// Returns the next number of an iteration.
#[inline(always)]
fn turn(x: u32, way: u32) -> u32 {
    x.wrapping_mul(1_664_525).wrapping_add(2 * way + 1)
}

/// Computes `out[thread]`: the thread's number after `turns` iterations of `x = x * 1664525 + 2 * way + 1`. The way is the
/// thread's number modulo `ways`.
///
/// Launched with blocks of whole warps along x, of 1024 threads at most.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it.
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_branch_by_lane(out: *mut u32, ways: u32, turns: u32) {
    let own = thread::thread_idx_x() % 32 % ways;
    // SAFETY: each thread has its own element.
    unsafe { branch(out, own, ways, turns) };
}

/// Like [`divergence_branch_by_lane`](fn@divergence_branch_by_lane); the way is the number of the warp in its block, modulo
/// `ways`.
///
/// # Safety
/// Same as for [`divergence_branch_by_lane`](fn@divergence_branch_by_lane).
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_branch_by_warp(out: *mut u32, ways: u32, turns: u32) {
    let own = thread::thread_idx_x() / 32 % ways;
    // SAFETY: each thread has its own element.
    unsafe { branch(out, own, ways, turns) };
}

/// A chain of branches, one per way; a thread takes its own.
///
/// # Safety
/// `out` holds an element for each thread.
#[inline(always)]
unsafe fn branch(out: *mut u32, own: u32, ways: u32, turns: u32) {
    let i = thread::index_1d();
    let mut x = i;
    for way in 0..ways {
        if own == way {
            let mut done = 0;
            while done < turns as usize {
                x = turn(x, way);
                done = opaque(done + 1);
            }
        }
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = x };
}

/// Computes `out[thread]`: the thread's number after `2 * turns * (way + 1) / (ways + 1)` iterations, rounded down, of
/// `x = x * 1664525 + 1`. The way is the thread's number modulo `ways`.
///
/// # Safety
/// Same as for [`divergence_branch_by_lane`](fn@divergence_branch_by_lane).
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_trips_by_lane(out: *mut u32, ways: u32, turns: u32) {
    let own = thread::thread_idx_x() % 32 % ways;
    // SAFETY: each thread has its own element.
    unsafe { trips(out, own, ways, turns) };
}

/// Like [`divergence_trips_by_lane`](fn@divergence_trips_by_lane); the way is the number of the warp in its block, modulo
/// `ways`.
///
/// # Safety
/// Same as for [`divergence_branch_by_lane`](fn@divergence_branch_by_lane).
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_trips_by_warp(out: *mut u32, ways: u32, turns: u32) {
    let own = thread::thread_idx_x() / 32 % ways;
    // SAFETY: each thread has its own element.
    unsafe { trips(out, own, ways, turns) };
}

/// A loop. The thread's group `own` sets the number of iterations.
///
/// # Safety
/// `out` holds an element for each thread.
#[inline(always)]
unsafe fn trips(out: *mut u32, own: u32, ways: u32, turns: u32) {
    let i = thread::index_1d();
    let mut x = i;
    let (trips, mut done) = (2 * turns * (own + 1) / (ways + 1), 0);
    while done < trips as usize {
        x = turn(x, 0);
        done = opaque(done + 1);
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = x };
}
