//! Which thread does what: few threads with much work each, or many with little.
//!
//! * `parts_1`, `parts_4`, `parts_16`: a row of work has 16 independent parts, and a thread does 1, 4 or 16 of them, one after
//!   the other. The same instructions, by fewer threads.
//! * `rows_whole`, `rows_split`: the maximum of a few long rows. A block per row leaves most of the machine idle. Many blocks
//!   per row write the maxima of their chunks, and a second kernel takes those.
//!
//! Requires: blocks of 256 threads.
//@ ptx(parallelism_parts_1): st.global == 1, .local == 0
//@ ptx(parallelism_maximum): bar.sync == 1, .local == 0

use cuda_std::hint::opaque;
use cuda_std::warp::{reduce_max, reduce_max_width};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(out: u32, inp: u32)
    values(cols: u32, len: u32, turns: u32)
    facts(usize)
    "parts_1" = parallelism_parts[0]: "a thread per part";
    "parts_4" = parallelism_parts[1]: "a thread for four parts of a row";
    "parts_16" = parallelism_parts[2]: "a thread per row";
    "rows_whole" = parallelism_maximum[0]: "a block per row";
    "rows_split" = parallelism_maximum[0]: "128 blocks per row, and a second launch for their maxima";
}

/// Independent parts of a row of work.
pub const PARTS: usize = 16;

/// Computes `out[i]`, the number `i` after `turns` iterations of `x = x * 1664525 + 1`, for `i` below `len`. A thread does `OF_THREAD`
/// neighbours, one after the other.
///
/// Launched with at least `len / OF_THREAD` threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `out` holds `len` elements, a multiple of `OF_THREAD`, which no other code uses.
#[kernel(
    max_threads = 256,
    args = Arguments,
    facts: usize = OF_THREAD,
    instances(parallelism_parts_1 = <1>; parallelism_parts_4 = <4>; parallelism_parts_16 = <16>;),
)]
pub unsafe fn parallelism_parts<const OF_THREAD: usize>(out: *mut u32, len: u32, turns: u32) {
    let first = thread::index_1d() * OF_THREAD as u32;
    if first < len {
        let mut part = 0;
        while part < OF_THREAD {
            let i = first + part as u32;
            let (mut x, mut done) = (i, 0);
            while done < turns as usize {
                x = x.wrapping_mul(1_664_525).wrapping_add(1);
                done = opaque(done + 1);
            }
            // SAFETY: `i` is below `len`, and only this thread writes the element.
            unsafe { *out.add(i as usize) = x };
            part = opaque(part + 1);
        }
    }
}

/// Computes `out[row]`, the largest number of a row of `inp`, which has `cols` columns.
///
/// Launched with a block of 256 threads along x per row.
///
/// # Safety
/// The launch is as described; `inp` holds the rows, at least one column each, and `out` an element for each, which no other
/// code uses.
#[kernel(max_threads = 256, args = Arguments, facts: usize = 0)]
pub unsafe fn parallelism_maximum(out: *mut u32, inp: *const u32, cols: u32) {
    const WARPS: usize = 8;
    let shared = shared_array![u32; WARPS];
    let (row, tid) = (thread::block_idx_x() as usize, thread::thread_idx_x() as usize);
    let mut largest = 0;
    let mut col = tid;
    while col < cols as usize {
        // SAFETY: the row and the column lie in the matrix.
        largest = largest.max(unsafe { *inp.add(row * cols as usize + col) });
        col += 256;
    }
    // SAFETY: all threads of the block execute this. Each warp has its own element, and reads after the barrier.
    unsafe {
        let of_warp = reduce_max(largest);
        if tid.is_multiple_of(32) {
            *shared.add(tid / 32) = of_warp;
        }
        thread::sync_threads_aligned();
        let of_block = reduce_max_width::<u32, { WARPS as u32 }>(u32::MAX, *shared.add(tid % WARPS));
        if tid == 0 {
            *out.add(row) = of_block;
        }
    }
}
