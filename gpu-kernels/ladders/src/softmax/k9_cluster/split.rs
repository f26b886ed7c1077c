//! A row spread over many independent blocks, in two kernels: for devices without clusters, for rows that no cluster holds,
//! and for few wide rows, for which clusters would leave most of the device idle.
//!
//! The first kernel computes the (max, sum) of each part of a row; the second merges the pairs of a row and writes.
//! Costs: two reads and one write of the row. The second read hits L2 as far as possible: the second kernel's blocks run
//! backwards, from what the first has read last.
//! Requires: the kernels' block and grid; any shape, any alignment.
//! Requires: the kernels' block and grid; any shape, any alignment.
//@ ptx(softmax_k9_cluster_split_sums): ld.global.nc.v4 >= 5, bar.sync == 1, st.global == 2, .local == 0
//@ ptx(softmax_k9_cluster_split_out): ld.global.nc.v4 >= 5, bar.sync == 1, st.global.v4 >= 5, .local == 0

#[cfg(not(target_arch = "nvptx64"))]
use crate::softmax::ladder::{Arguments, Shapes, Step, WIDE, grid};
use crate::softmax::{exchange::merge_block, vectors::Vectors};
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat as _, kernel, shared_array, thread};

const THREADS: usize = 256;
const WARPS: u32 = 8;
/// Vectors that a thread has in flight at a time.
const UNROLL: usize = 4;
/// Elements of each part of a row except the last, unless that makes more than `MOST_PARTS`.
const PART: u32 = 4096;
/// The largest number of parts: in the merge each thread takes one part.
const MOST_PARTS: u32 = 256;

/// Parts of a row.
#[inline(always)]
fn parts(cols: u32) -> u32 {
    cols.div_ceil(PART).min(MOST_PARTS)
}

/// Returns the row's number, and this thread's part of the block's part.
#[inline(always)]
fn part(inp: &[f32], block: u32, [rows, cols]: [u32; 2]) -> (usize, Vectors<'_, THREADS>) {
    let parts = parts(cols);
    // The remainder, without a second division before the first load.
    let row = block / parts;
    let part = block - row * parts;
    let [row, rows, cols] = [row, rows, cols].map(|n| n as usize);
    // The grid has no block after the last row.
    let mine = Vectors::new(&inp[..rows * cols], [row + 1, cols], row, thread::thread_idx_x() as usize);
    (row, mine.of_block(part, MOST_PARTS, PART / 4))
}

/// Writes the maximum of each part of the rows of `inp`, at least the smallest number, to `workspace[row * parts + part]`.
/// Writes the sum of `exp(inp - max)` after it, at a distance of all parts of all rows.
///
/// Launched with `rows * parts` blocks of 256 threads.
///
/// # Safety
/// The launch is as described; `workspace` holds two elements for each part, which no other code uses; `inp` holds at
/// least `rows * cols` elements.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Shapes = SHAPES)]
pub unsafe fn softmax_k9_cluster_split_sums(workspace: *mut f32, inp: &[f32], rows: u32, cols: u32) {
    let (block, tid) = (thread::block_idx_x(), thread::thread_idx_x() as usize);
    let (_, mine) = part(inp, block, [rows, cols]);
    let edge = mine.edge();
    let mut max = edge.max(f32::MIN);
    let mut sum = (edge - max).exp();
    mine.for_each::<UNROLL>(|_, x| {
        let larger = x.into_iter().fold(max, f32::max);
        sum = x.into_iter().fold(sum * (max - larger).exp(), |sum, x| sum + (x - larger).exp());
        max = larger;
    });
    // SAFETY: all threads of the block execute this.
    let pair = unsafe { merge_block::<WARPS>(shared_array![f32x2; WARPS as usize], tid, (max, sum)) };
    if tid == 0 {
        // SAFETY: the two elements of this part.
        unsafe {
            *workspace.add(block as usize) = pair.0;
            *workspace.add(thread::grid_dim_x() as usize + block as usize) = pair.1;
        }
    }
}

/// Computes `out = exp(inp - max) / sum(exp(inp - max))` along each row, both `[rows, cols]`, from the `workspace` of
/// [`softmax_k9_cluster_split_sums`](fn@softmax_k9_cluster_split_sums). Launched with the same grid and block.
///
/// # Safety
/// The launch is as described; `out` holds `rows * cols` elements that no other code uses; `inp` holds at least as many.
#[kernel(max_threads = 256, min_blocks = 8, args = Arguments, facts: Shapes = SHAPES)]
pub unsafe fn softmax_k9_cluster_split_out(
    out: *mut f32,
    inp: &[f32],
    workspace: *mut f32,
    rows: u32,
    cols: u32,
) {
    let (blocks, tid) = (thread::grid_dim_x(), thread::thread_idx_x() as usize);
    let (row, mine) = part(inp, blocks - 1 - thread::block_idx_x(), [rows, cols]);
    let mut pair = (f32::MIN, 0.0);
    if tid < parts(cols) as usize {
        let i = row * parts(cols) as usize + tid;
        // SAFETY: an element for each part of the row.
        pair = unsafe { (*workspace.add(i), *workspace.add(blocks as usize + i)) };
    }
    // SAFETY: all threads of the block execute this.
    let (max, sum) = unsafe { merge_block::<WARPS>(shared_array![f32x2; WARPS as usize], tid, pair) };
    let scale = 1.0 / sum;
    let exp = |x: f32| (x - max).exp();
    // SAFETY: `out` has the shape of `inp`, and only this thread writes its part.
    unsafe {
        mine.for_each::<UNROLL>(|place, x| mine.store(out, place, x.map(|x| exp(x) * scale)));
        mine.store_edge(out, exp(mine.edge()) * scale);
    }
}

/// One block per part.
#[cfg(not(target_arch = "nvptx64"))]
const SHAPES: Shapes = Shapes {
    narrowest: WIDE,
    workspace_len: |rows, cols| 2 * rows as usize * parts(cols) as usize,
    ..Shapes::all(|rows, cols| grid(u64::from(rows) * u64::from(parts(cols)), THREADS))
};

/// Both kernels.
#[cfg(not(target_arch = "nvptx64"))]
pub(in crate::softmax) const PAIR: [&Step; 2] =
    [&softmax_k9_cluster_split_sums::INSTANCES[0], &softmax_k9_cluster_split_out::INSTANCES[0]];
