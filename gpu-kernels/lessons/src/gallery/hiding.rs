//! Latency, and how many warps hide it.
//!
//! Every step of a thread needs the result of the step before, so one warp alone waits the whole latency at each step. More
//! warps on the same multiprocessor take their steps meanwhile, and cost nothing until the unit that executes the steps is
//! busy all the time.
//!
//! * `multiply`: a multiply-add of integers per step.
//! * `shared`: a load from shared memory.
//! * `cached`: a load from L2. The table is too large for L1, and the lanes of a warp load the same word.
//!
//! Requires: blocks of whole warps.
//@ ptx: .local == 0, st.global == 1
//@ ptx(hiding_shared): bar.sync == 1

use cuda_std::hint::opaque;
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(turns: u32)
    facts(())
    "multiply" = hiding_multiply[0]: "a multiply-add per step";
    "shared" = hiding_shared[0]: "a load from shared memory per step";
    "cached" = hiding_cached[0]: "a load from L2 per step";
}

/// Words of the table in global memory.
pub const TABLE: usize = 1 << 20;

/// Words of the table in shared memory.
pub const PLACES: usize = 1024;

/// Computes `out[thread]`: the thread's number after `turns` iterations of `x = x * 1664525 + 1`.
///
/// Launched with blocks of whole warps along x, of 1024 threads at most.
///
/// # Safety
/// The launch is as described; `out` holds an element for each thread, and no other code uses it.
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn hiding_multiply(out: *mut u32, turns: u32) {
    let i = thread::index_1d();
    let (mut x, mut done) = (i, 0);
    while done < turns as usize {
        x = x.wrapping_mul(1_664_525).wrapping_add(1);
        done = opaque(done + 1);
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = x };
}

/// Computes `out[thread]`: the place after `turns` loads from a table in shared memory, which each give the next place, from
/// the thread's lane on. The lanes of a warp stay in different banks.
///
/// # Safety
/// Same as for [`hiding_multiply`](fn@hiding_multiply).
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn hiding_shared(out: *mut u32, turns: u32) {
    let table = shared_array![u32; PLACES];
    let mut place = thread::thread_idx_x() as usize;
    while place < PLACES {
        // SAFETY: each thread writes its own places.
        unsafe { *table.add(place) = ((place + 32) % PLACES) as u32 };
        place += thread::block_dim_x() as usize;
    }
    // SAFETY: all threads of the block execute this.
    unsafe { thread::sync_threads_aligned() };
    let (mut x, mut done) = (thread::thread_idx_x() % 32, 0);
    while done < turns as usize {
        // SAFETY: every word of the table is a place in it.
        x = unsafe { *table.add(x as usize) };
        done = opaque(done + 1);
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(thread::index_1d() as usize) = x };
}

/// Computes `out[thread]`: the place after `turns` loads from `inp`, which each give the next place, from 32 times the number of
/// the thread's warp on.
///
/// # Safety
/// Same as for [`hiding_multiply`](fn@hiding_multiply); `inp` holds `TABLE` elements below `TABLE`, and there are at most
/// `TABLE` threads.
#[kernel(max_threads = 1024, args = Arguments)]
pub unsafe fn hiding_cached(out: *mut u32, inp: *const u32, turns: u32) {
    let i = thread::index_1d();
    let (mut x, mut done) = (i - i % 32, 0);
    while done < turns as usize {
        // SAFETY: every element of the table is a place in it.
        x = unsafe { *inp.add(x as usize) };
        done = opaque(done + 1);
    }
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(i as usize) = x };
}
