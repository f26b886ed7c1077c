//! The dot product of two arrays, as one writes it for a CPU and as a GPU has it.
//!
//! * `chunks`: each thread takes a run of neighbouring elements, as the threads of a CPU do, each of which has a cache of its
//!   own. The lanes of a warp are then a run apart: one load of the warp touches 32 sectors of 32 bytes and uses 4
//!   of each. The other 28 are used by the next loads of the same thread, if the cache still has them: the 2048 threads
//!   of a multiprocessor have 4096 runs of sectors open, 128 KiB.
//! * `coalesced`: neighbouring threads take neighbouring elements, and go on a whole grid further: 4 sectors a load, and
//!   all of each are used at once.
//! * `shuffle`: the sums of the threads are added up by shuffles in place of a tree in shared memory with its nine
//!   barriers.
//!
//! All of them are one launch: the block that ends last adds up the sums of the blocks. The order is fixed.
//! Requires: blocks of 256 threads.
//@ ptx(dot_chunks): bar.sync >= 10, .local == 0
//@ ptx(dot_coalesced): bar.sync >= 10, .local == 0
//@ ptx(dot_shuffle): bar.sync == 3, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use super::{Grid, Rung};
use crate::gallery::last_block::{BLOCK, Partials, WARPS, block_sum, sum_of_blocks};
use cuda_std::{kernel, shared_array, thread};

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung<Arguments>] = &[
    Rung { name: "chunks", idea: "a run of neighbours for each thread", kernel: &dot_chunks::INSTANCES[0] },
    Rung {
        name: "coalesced",
        idea: "neighbours for neighbouring threads",
        kernel: &dot_coalesced::INSTANCES[0],
    },
    Rung {
        name: "shuffle",
        idea: "the sums of threads meet in registers",
        kernel: &dot_shuffle::INSTANCES[0],
    },
];

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) const KERNELS: &[&cuda_std::launch::KernelMeta] =
    &[dot_chunks::META, dot_coalesced::META, dot_shuffle::META];

/// What the kernels take.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// The product, one element.
    pub out: cuda_std::launch::RawBuffer<f32>,
    /// One factor of each term, `len` of them.
    pub a: cuda_std::launch::RawBuffer<f32>,
    /// The other, as many.
    pub b: cuda_std::launch::RawBuffer<f32>,
    /// Where the blocks leave their sums, one each.
    pub partials: cuda_std::launch::RawBuffer<f32>,
    /// How many of them have; 0 between launches.
    pub arrived: cuda_std::launch::RawBuffer<u32>,
    /// How many terms.
    pub len: u32,
}

/// `*out` becomes the sum of `a[i] * b[i]`, a run of neighbours a thread.
///
/// Launched on blocks of 256 threads along x, as many as possible.
///
/// # Safety
/// The launch is as described; `a` and `b` hold `len` elements and `partials` one for each block; no other code uses
/// those, `out` or `arrived`, which holds 0 before and after.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn dot_chunks(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (tree_shared, all_shared) = (shared_array![f32; BLOCK], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let (thread, len) = (thread::index_1d() as usize, len as usize);
    let run = len.div_ceil(thread::grid_dim_x() as usize * BLOCK);
    let mut sum = 0.0;
    for i in (thread * run).min(len)..((thread + 1) * run).min(len) {
        // SAFETY: `i` is below `len`.
        sum += unsafe { *a.add(i) * *b.add(i) };
    }
    // SAFETY: all threads of all blocks come here, and what they use is theirs.
    unsafe {
        let of_block = tree(tree_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// As [`dot_chunks`](fn@dot_chunks), with neighbours for neighbouring threads.
///
/// Launched on blocks of 256 threads along x, as many as possible.
///
/// # Safety
/// Same as for [`dot_chunks`](fn@dot_chunks).
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn dot_coalesced(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (tree_shared, all_shared) = (shared_array![f32; BLOCK], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let (thread, len) = (thread::index_1d() as usize, len as usize);
    let mut sum = 0.0;
    for i in (thread..len).step_by(thread::grid_dim_x() as usize * BLOCK) {
        // SAFETY: `i` is below `len`.
        sum += unsafe { *a.add(i) * *b.add(i) };
    }
    // SAFETY: all threads of all blocks come here, and what they use is theirs.
    unsafe {
        let of_block = tree(tree_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// As [`dot_coalesced`](fn@dot_coalesced); the sums of threads meet in registers.
///
/// Launched on blocks of 256 threads along x, as many as possible.
///
/// # Safety
/// Same as for [`dot_chunks`](fn@dot_chunks).
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Grid = Grid::threads::<256, 1>())]
pub unsafe fn dot_shuffle(
    out: *mut f32,
    a: *const f32,
    b: *const f32,
    partials: *mut f32,
    arrived: *mut u32,
    len: u32,
) {
    let (sums_shared, all_shared) = (shared_array![f32; WARPS], shared_array![f32; WARPS]);
    let is_last = shared_array![bool; 1];
    let (thread, len) = (thread::index_1d() as usize, len as usize);
    let mut sum = 0.0;
    for i in (thread..len).step_by(thread::grid_dim_x() as usize * BLOCK) {
        // SAFETY: `i` is below `len`.
        sum += unsafe { *a.add(i) * *b.add(i) };
    }
    // SAFETY: all threads of all blocks come here, and what they use is theirs.
    unsafe {
        let of_block = block_sum(sums_shared, sum);
        sum_of_blocks((all_shared, is_last), out, Partials { sums: partials, arrived }, of_block);
    }
}

/// The sum of the numbers of a block's threads, for all of them: each round adds the upper half to the lower.
///
/// # Safety
/// All 256 threads of the block come here, once; `shared` has an element for each that no other code uses.
#[inline(always)]
unsafe fn tree(shared: *mut f32, value: f32) -> f32 {
    let tid = thread::thread_idx_x() as usize;
    // SAFETY: the indices are below 256, and a barrier lies between the accesses of different threads.
    unsafe {
        *shared.add(tid) = value;
        let mut half = BLOCK / 2;
        while half > 0 {
            thread::sync_threads_aligned();
            if tid < half {
                *shared.add(tid) += *shared.add(tid + half);
            }
            half /= 2;
        }
        thread::sync_threads_aligned();
        *shared
    }
}
