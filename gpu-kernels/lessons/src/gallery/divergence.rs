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
//! * `trips_shuffled`, `trips_sorted`: the numbers of iterations come from an array, in any order and in descending order.
//! * `chase`: both sides of a branch follow a chain of loads, each with a part of the lanes.
//! * `if_load`, `select`, `if_40`: a condition in a loop guards one load, a choice between two values, or 40 instructions.
//!
//! Requires: blocks of one warp per way, for up to 32 ways.
//@ ptx: bar.sync == 0, st.global == 1, .local == 0
//@ ptx(divergence_select): selp >= 1

use cuda_std::hint::opaque;
use cuda_std::{kernel, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(ways: u32, turns: u32)
    facts(())
    "branch_by_lane" = divergence_branch_by_lane[0]: "lanes go different ways";
    "branch_by_warp" = divergence_branch_by_warp[0]: "warps go different ways";
    "trips_by_lane" = divergence_trips_by_lane[0]: "lanes take different numbers of turns";
    "trips_by_warp" = divergence_trips_by_warp[0]: "warps take different numbers of turns";
    "trips_one_block" = divergence_trips_by_warp[0]: "the same, with one block per multiprocessor";
    "trips_shuffled" = divergence_trips_by_data[0]: "the numbers of turns come from an array in any order";
    "trips_sorted" = divergence_trips_by_data[0]: "from an array in descending order";
    "chase" = divergence_chase[0]: "each side of a branch follows a chain of loads";
    "if_load" = divergence_if_load[0]: "a condition guards a load";
    "select" = divergence_select[0]: "the load is unconditional, and its value is used or not";
    "if_40" = divergence_if_40[0]: "a condition guards 40 instructions";
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

/// Words of the table that [`divergence_chase`](fn@divergence_chase) follows.
pub const CHAIN: usize = 1 << 20;

/// Words of the table that [`divergence_if_load`](fn@divergence_if_load) reads.
pub const TABLE: usize = 1024;

/// Steps of two instructions that [`divergence_if_40`](fn@divergence_if_40) guards.
pub const GUARDED: usize = 20;

/// Computes `out[thread]`: the thread's number after `inp[thread]` iterations of `x = x * 1664525 + 1`.
///
/// Launched as [`divergence_branch_by_lane`](fn@divergence_branch_by_lane).
///
/// # Safety
/// The launch is as described; both hold an element for each thread, and no other code uses `out`.
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_trips_by_data(out: *mut u32, inp: *const u32) {
    let i = thread::index_1d();
    // SAFETY: the thread's element.
    let trips = unsafe { *inp.add(i as usize) };
    let (mut x, mut done) = (i, 0);
    while done < trips as usize {
        x = turn(x, 0);
        done = opaque(done + 1);
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = x };
}

/// Computes `out[thread]`: the place after `turns` loads that each give the next place, from the number of the block on.
/// Lanes whose number is a multiple of `ways` go to `inp[x]`, the others to `inp[x ^ 1]`.
///
/// Launched as [`divergence_branch_by_lane`](fn@divergence_branch_by_lane), with at most `CHAIN` blocks.
///
/// # Safety
/// The launch is as described; `inp` holds `CHAIN` elements below `CHAIN`, `out` one for each thread, which no other code
/// uses.
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_chase(out: *mut u32, inp: *const u32, ways: u32, turns: u32) {
    let mut x = thread::block_idx_x();
    let mut done = 0;
    if (thread::thread_idx_x() % 32).is_multiple_of(ways) {
        while done < turns as usize {
            // SAFETY: every element of the table is a place in it.
            x = unsafe { *inp.add(x as usize) };
            done = opaque(done + 1);
        }
    } else {
        while done < turns as usize {
            // SAFETY: as above; the number of places is even.
            x = unsafe { *inp.add(x as usize ^ 1) };
            done = opaque(done + 1);
        }
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(thread::index_1d() as usize) = x };
}

/// Computes `out[thread]`: the thread's number after `turns` iterations. Iteration `t` is `x = x * 1664525 + 1`, and then, if
/// `(x >> 16) % ways` is 0, `x ^= inp[32 * t % TABLE + lane]`.
///
/// Launched as [`divergence_branch_by_lane`](fn@divergence_branch_by_lane).
///
/// # Safety
/// The launch is as described; `inp` holds `TABLE` elements, `out` one for each thread, which no other code uses.
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_if_load(out: *mut u32, inp: *const u32, ways: u32, turns: u32) {
    let step = |mut x: u32, at: usize, is_taken: bool| {
        if is_taken {
            // SAFETY: the place lies in the table.
            x ^= unsafe { *inp.add(at) };
        }
        x
    };
    // SAFETY: each thread has its own element.
    unsafe { guarded(out, ways, turns, step) };
}

/// Like [`divergence_if_load`](fn@divergence_if_load), but loads in each iteration, and uses the value if the condition holds.
///
/// # Safety
/// Same as for [`divergence_if_load`](fn@divergence_if_load).
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_select(out: *mut u32, inp: *const u32, ways: u32, turns: u32) {
    let step = |x: u32, at: usize, is_taken: bool| {
        // SAFETY: the place lies in the table.
        let loaded = unsafe { *inp.add(at) };
        x ^ if is_taken { loaded } else { 0 }
    };
    // SAFETY: each thread has its own element.
    unsafe { guarded(out, ways, turns, step) };
}

/// Like [`divergence_if_load`](fn@divergence_if_load), but instead of the load the condition guards `GUARDED` times
/// `x = (x ^ place) * 1664525 + 3`, where `place` is that of the load.
///
/// # Safety
/// Same as for [`divergence_branch_by_lane`](fn@divergence_branch_by_lane).
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn divergence_if_40(out: *mut u32, ways: u32, turns: u32) {
    let step = |mut x: u32, at: usize, is_taken: bool| {
        if is_taken {
            for _ in 0..GUARDED {
                x = turn(x ^ at as u32, 1);
            }
        }
        x
    };
    // SAFETY: each thread has its own element.
    unsafe { guarded(out, ways, turns, step) };
}

/// A loop with a condition that depends on the data.
///
/// # Safety
/// `out` holds an element for each thread.
#[inline(always)]
unsafe fn guarded(out: *mut u32, ways: u32, turns: u32, step: impl Fn(u32, usize, bool) -> u32) {
    let i = thread::index_1d();
    let (lane, mut x, mut done) = (thread::thread_idx_x() as usize % 32, i, 0);
    while done < turns as usize {
        x = turn(x, 0);
        x = step(x, 32 * done % TABLE + lane, (x >> 16).is_multiple_of(ways));
        done = opaque(done + 1);
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = x };
}
