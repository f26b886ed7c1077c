//! The memory hierarchy: how long one load takes, and how many bytes all threads load per second.
//!
//! A thread that follows a chain cannot start a load before the last one has returned, because that holds the next address.
//! So the time per load is the latency of the level that holds the chain. With many threads, loads overlap, and the time is
//! that of the bytes.
//!
//! * `chase`, `chase_shared`: one thread follows a chain in global or in shared memory. Every load has one instruction
//!   before it, which computes the address.
//! * `read`, `read_shared`: all threads read 16 bytes at a time, four loads in flight each.
//!
//! A chain visits `lines` elements, which is a power of two. Element `i` is followed by `factor * i + summand` modulo
//! `lines`. Such a chain visits all elements before it returns to the first if `factor` is 1 more than a multiple of 4 and
//! `summand` is odd (Knuth, "The Art of Computer Programming", volume 2, section 3.2.1.2, theorem A).
//!
//! Requires: blocks of 256 threads, and blocks of one thread for the chases.
//@ ptx(hierarchy_chase): .nc == 0, .local == 0, st.global.b32 == 1
//@ ptx(hierarchy_chase_shared): ld.global.b32 == 1, .local == 0, st.global.b32 == 1
//@ ptx(hierarchy_read): ld.global.v4 == 4, .local == 0
//@ ptx(hierarchy_read_shared): ld.shared.v4 == 4, bar.sync == 1, .local == 0

use super::overlap::{FACTOR, SUMMAND};
use cuda_std::hint::opaque;
use cuda_std::mem::{load_global, u32x4};
use cuda_std::{kernel, shared_array, thread};

lesson! {
    buffers(place: u32, table: u32, out: u32)
    values(lines: u32, step: u32, factor: u32, summand: u32, hops: u32, vectors: u32, rounds: u32)
    facts(Grid)
    "chase" = hierarchy_chase[0]: "one thread, each load waits for the one before";
    "chase_shared" = hierarchy_chase_shared[0]: "the same in shared memory";
    "read" = hierarchy_read[0]: "all threads, 16 bytes a load";
    "read_shared" = hierarchy_read_shared[0]: "the same in shared memory";
    "link" = hierarchy_link[0]: "writes the chain";
}

/// Elements of the chain in shared memory, at most.
pub const LINES: usize = 1024;
/// Vectors of 16 bytes in shared memory.
pub const VECTORS: usize = 1024;
/// Vectors from one load of a thread to its next.
pub const STRIDE: u32 = 256;
/// Loads in flight per thread.
pub const LOADS: u32 = 4;

/// Returns the element that follows element `i` of a chain of `lines`, a power of two.
#[inline(always)]
pub const fn next(i: u32, lines: u32, factor: u32, summand: u32) -> u32 {
    factor.wrapping_mul(i).wrapping_add(summand) & (lines - 1)
}

/// Sets `table[i * step]` to the number of the element that follows element `i`, for `i` below `lines`.
///
/// Launched with any number of threads along x, in blocks of 256.
///
/// # Safety
/// The launch is as described; `table` holds `(lines - 1) * step + 1` elements that no other code uses.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 16>())]
pub unsafe fn hierarchy_link(table: *mut u32, lines: u32, step: u32, factor: u32, summand: u32) {
    let threads = thread::grid_dim_x() * 256;
    let mut i = thread::index_1d();
    while i < lines {
        // SAFETY: `i` is below `lines`, and only this thread writes the element.
        unsafe { *table.add(i as usize * step as usize) = next(i, lines, factor, summand) };
        i += threads;
    }
}

/// Follows the chain in `table` from element `place[0]` for `hops` loads, and writes back where it ended.
///
/// Launched with one thread.
///
/// # Safety
/// The launch is as described; `table` was written by [`hierarchy_link`](fn@hierarchy_link) with this `step`; `place` holds
/// one element below its `lines`, and no other code uses it.
#[kernel(max_threads = 1, args = Arguments, facts: Grid = Grid::threads::<1, { usize::MAX }>())]
pub unsafe fn hierarchy_chase(place: *mut u32, table: *const u32, step: u32, hops: u32) {
    // SAFETY: every element of the chain holds the number of another one.
    unsafe {
        let mut at = *place;
        for _ in 0..hops {
            at = *table.add(at as usize * step as usize);
        }
        *place = at;
    }
}

/// Like [`hierarchy_chase`](fn@hierarchy_chase), with a chain of `lines` neighbouring words in shared memory.
///
/// # Safety
/// The launch is one thread; `lines` is a power of two of at most [`LINES`]; `place` holds one element below that, and no
/// other code uses it.
#[kernel(max_threads = 1, args = Arguments, facts: Grid = Grid::threads::<1, { usize::MAX }>())]
pub unsafe fn hierarchy_chase_shared(place: *mut u32, lines: u32, hops: u32) {
    let table_shared = shared_array![u32; LINES];
    // SAFETY: the one thread writes the chain before it reads it, and every element holds the number of another one.
    unsafe {
        for i in 0..lines {
            *table_shared.add(i as usize) = next(i, lines, FACTOR, SUMMAND);
        }
        let mut at = *place;
        for _ in 0..hops {
            at = *table_shared.add(at as usize);
        }
        *place = at;
    }
}

/// Returns the sum of the vectors that a thread reads: `LOADS * rounds` from `first`, [`STRIDE`] apart, modulo `vectors`.
#[inline(always)]
fn sum(first: u32, vectors: u32, rounds: u32, read: impl Fn(usize) -> u32x4) -> u32 {
    let (mut at, mut sum, mut round) = (first, 0u32, 0);
    while round < rounds {
        let x_reg: [u32x4; LOADS as usize] =
            core::array::from_fn(|k| read((at.wrapping_add(k as u32 * STRIDE) & (vectors - 1)) as usize));
        for k in 0..LOADS as usize {
            let u32x4 { x, y, z, w } = x_reg[k];
            sum = sum.wrapping_add(x).wrapping_add(y).wrapping_add(z).wrapping_add(w);
        }
        at = at.wrapping_add(LOADS * STRIDE);
        // Not unrolled: more loads in flight take registers that other warps need.
        round = opaque(round + 1);
    }
    sum
}

/// `out[thread]` is the sum modulo 2^32 of what the thread reads of `table`: `4 * rounds` vectors of 16 bytes, 256 vectors
/// apart. Block `b` begins at vector `b * (vectors / blocks)`, and a thread goes on at the start after the last vector.
///
/// Launched with blocks of 256 threads along x.
///
/// # Safety
/// The launch is as described; `vectors` is a power of two; `table` holds that many vectors of 16 bytes and begins at a
/// multiple of 16; `out` holds an element for each thread, and no other code uses it.
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn hierarchy_read(out: *mut u32, table: *const u32, vectors: u32, rounds: u32) {
    let first = thread::block_idx_x() * (vectors / thread::grid_dim_x()) + thread::thread_idx_x();
    // SAFETY: the vector lies in the table.
    let sum = sum(first, vectors, rounds, |i| unsafe { load_global(table.cast::<u32x4>().add(i)) });
    // SAFETY: only this thread writes the element.
    unsafe { *out.add(thread::index_1d() as usize) = sum };
}

/// Like [`hierarchy_read`](fn@hierarchy_read), with vectors in shared memory that the block writes first: all words of vector `v`
/// are `v`. A thread begins at the vector of its number.
///
/// # Safety
/// Same as for [`hierarchy_read`](fn@hierarchy_read), without a table; `vectors` is at most [`VECTORS`].
#[kernel(max_threads = 256, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn hierarchy_read_shared(out: *mut u32, vectors: u32, rounds: u32) {
    let x_shared = shared_array![u32x4; VECTORS];
    let tid = thread::thread_idx_x();
    // SAFETY: a thread writes its own vectors before the barrier, and all threads reach it.
    unsafe {
        for v in (tid..vectors).step_by(256) {
            *x_shared.add(v as usize) = u32x4::splat(v);
        }
        thread::sync_threads_aligned();
        let sum = sum(tid, vectors, rounds, |i| *x_shared.add(i));
        *out.add(thread::index_1d() as usize) = sum;
    }
}
