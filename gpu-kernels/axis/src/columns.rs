//! Sums and maxima of columns, or of parts of columns.
//!
//! Each thread has `N` columns, and a block's threads share the rows of a part. They combine their results in shared memory.
//! Loads are 16 bytes, and single elements of unaligned rows, which is as fast.
//@ ptx(axis_columns_f32, axis_columns_f16, axis_columns_bf16): ld.global.nc.v4 >= 8, bar.sync == 1, .local == 0
//@ ptx(axis_columns_f32, axis_columns_f16, axis_columns_bf16, compute_90+): griddepcontrol.wait == 1

use cuda_std::half::{bf16, f16};
use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::{cluster, grid, kernel, shared_array, thread};

use super::args::{ALIGNED, ReduceArgs, SUM};
use super::fold::{combine, combine_shared, load, neutral, write};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ReduceShape;
use common_kernels::element::{Element, Output};
use common_kernels::sum::Sum;

/// Rows that a thread has in flight at the same time.
const IN_FLIGHT: usize = 8;
/// The same, if no more rows are left.
const FEW: usize = 2;
/// The same, if it loads single elements.
const OF_ELEMENTS: usize = 4;
/// Rows that one thread of a CPU adds up on their own: see [`Sum`].
const RUN: u32 = 32;

/// Computes the sum or the maximum of each part of each column.
///
/// A block has `1 << log_threads` vectors of `N` columns side by side. Launched with blocks of at most `BLOCK` threads: along x
/// enough for the columns, and along y one per part of `chunk` rows. Every part starts in the matrix. With `CLUSTER`, the parts
/// are the blocks of a cluster along x, at most 16, with at most 128 columns each, and the last ones may be empty.
///
/// # Safety
/// The launch is as described, and a block has no more vectors side by side than threads. The pointers are valid for their
/// shapes and strides; the flags hold; no other code uses what is written, and no code writes `inp`.
#[kernel(
    max_threads = BLOCK,
    args,
    facts: ReduceShape = ReduceShape { block: BLOCK as u32, vector: N as u32 },
    instances(
        axis_columns_f32 = <f32, 4, 256, false>, min_blocks = 3;
        axis_columns_f16 = <f16, 8, 256, false>, min_blocks = 3;
        axis_columns_bf16 = <bf16, 8, 256, false>, min_blocks = 3;
        axis_columns_f32_serial = <f32, 4, 1, false>, cpu_only = true;
        axis_columns_f16_serial = <f16, 8, 1, false>, cpu_only = true;
        axis_columns_bf16_serial = <bf16, 8, 1, false>, cpu_only = true;
        axis_columns_f32_cluster = <f32, 4, 256, true>, min_blocks = 3, min_arch = 90;
        axis_columns_f16_cluster = <f16, 8, 256, true>, min_blocks = 3, min_arch = 90;
        axis_columns_bf16_cluster = <bf16, 8, 256, true>, min_blocks = 3, min_arch = 90;
    ),
)]
pub unsafe fn axis_columns<T, const N: usize, const BLOCK: usize, const CLUSTER: bool>(args: ReduceArgs<T>)
where
    T: Element<N>,
    f32: Output<N>,
{
    // `N` elements of each of 256 threads.
    let (shared, of_blocks) = (shared_array![f32; 2048], shared_array![f32; 2048]);
    let (tid, block, vectors) = (thread::thread_idx_x(), thread::block_dim_x(), 1 << args.log_threads);
    let (lane, group, groups) = (tid & (vectors - 1), tid >> args.log_threads, block >> args.log_threads);
    let (place, part) = if CLUSTER {
        (thread::block_idx_x() / cluster::num_blocks(), cluster::block_rank())
    } else {
        (thread::block_idx_x(), thread::block_idx_y())
    };
    let width = N as u32 * vectors;
    let (first_col, first) = (place * width, part * args.chunk);
    let share = [first + group, groups, first.saturating_add(args.chunk).min(args.rows)];
    let (is_sum, is_aligned) = (args.has(SUM), args.has(ALIGNED));
    // Neighbouring threads have neighbouring vectors, or neighbouring elements.
    let (of_thread, step) = if is_aligned { (N as u32 * lane, 1) } else { (lane, vectors) };
    let at_thread = [first_col + of_thread, step];
    grid::wait_for_dependencies();
    grid::launch_dependents();
    // SAFETY: the kernel's contract. All threads of the block reach the barrier, and all of the cluster those of the cluster. A
    // thread writes its own elements of shared memory, and reads other threads' elements after the barrier.
    unsafe {
        if CLUSTER {
            cluster::arrive_relaxed();
        }
        let all = match (is_sum, is_aligned) {
            // A block's launch leaves a thread so few rows that it needs no registers for runs.
            (true, _) if BLOCK == 1 => sums_of_runs(&args, share, at_thread, is_aligned),
            (true, true) => accumulate::<T, N, true, true>(&args, share, at_thread),
            (true, false) => accumulate::<T, N, true, false>(&args, share, at_thread),
            (false, true) => accumulate::<T, N, false, true>(&args, share, at_thread),
            (false, false) => accumulate::<T, N, false, false>(&args, share, at_thread),
        };
        let at = if CLUSTER { 0 } else { part as usize * args.cols as usize } + first_col as usize;
        if groups == 1 && !CLUSTER {
            let (all, at) = (all.map(|x| x * args.scale), at + of_thread as usize);
            let is_whole = is_aligned && at_thread[0] < args.cols;
            if is_whole && is_aligned_at::<T, N>(args.out, at) && is_aligned_at::<f32, N>(args.full, at) {
                if !args.out.is_null() {
                    T::store(args.out.add(at), all);
                }
                if !args.full.is_null() {
                    <f32 as Output<N>>::store(args.full.add(at), all);
                }
                return;
            }
            for j in 0..N as u32 {
                if at_thread[0] + j * step < args.cols {
                    write(args.out, args.full, at + (j * step) as usize, all[j as usize]);
                }
            }
            return;
        }
        for j in 0..N as u32 {
            *shared.add((group * width + of_thread + j * step) as usize) = all[j as usize];
        }
        thread::sync_threads_aligned();
        if CLUSTER {
            // The first block has started.
            cluster::wait();
            for i in (tid..width).step_by(block as usize) {
                *cluster::map_shared(of_blocks.add((part * width + i) as usize), 0) =
                    combine_shared(is_sum, shared.add(i as usize), [groups, width]);
            }
            cluster::sync();
            if part > 0 {
                return;
            }
        }
        let (from, count) = if CLUSTER { (of_blocks, cluster::num_blocks()) } else { (shared, groups) };
        for i in (tid..width).step_by(block as usize) {
            let all = combine_shared(is_sum, from.add(i as usize), [count, width]);
            if first_col + i < args.cols {
                write(args.out, args.full, at + i as usize, all * args.scale);
            }
        }
    }
}

/// Returns whether vectors can be stored from element `at` on. None are stored to a null pointer.
#[inline(always)]
fn is_aligned_at<T: Output<N>, const N: usize>(ptr: *mut T, at: usize) -> bool {
    ptr.is_null() || ptr.wrapping_add(at).addr().is_multiple_of(T::ALIGN)
}

/// Returns the sums of the thread's rows, like [`accumulate`], from those of runs of rows.
///
/// # Safety
/// Same as for [`accumulate`].
#[inline(always)]
unsafe fn sums_of_runs<T: Element<N>, const N: usize>(
    args: &ReduceArgs<T>,
    [first, step, end]: [u32; 3],
    at: [u32; 2],
    is_aligned: bool,
) -> [f32; N] {
    let mut sums = [Sum::ZERO; N];
    for first in (first..end).step_by((RUN * step) as usize) {
        let run = [first, step, end.min(first + RUN * step)];
        // SAFETY: the run's rows lie in the matrix, aligned if `is_aligned`.
        let of_run = unsafe {
            if is_aligned {
                accumulate::<T, N, true, true>(args, run, at)
            } else {
                accumulate::<T, N, true, false>(args, run, at)
            }
        };
        for j in 0..N {
            sums[j].add(of_run[j]);
        }
    }
    sums.map(Sum::value)
}

/// Returns the sums or maxima of every `step`th row from `first` to `end`, for `N` columns from `col` on that are `apart`. The
/// results of columns past the last one are meaningless.
///
/// # Safety
/// The rows lie in `args.inp`. If `IS_ALIGNED`, they are aligned and the columns next to each other.
#[inline(always)]
unsafe fn accumulate<T: Element<N>, const N: usize, const IS_SUM: bool, const IS_ALIGNED: bool>(
    args: &ReduceArgs<T>,
    [mut row, step, end]: [u32; 3],
    [col, apart]: [u32; 2],
) -> [f32; N] {
    let mut all = [neutral(IS_SUM); N];
    let mut take = |x: [f32; N]| {
        for j in 0..N {
            all[j] = combine(IS_SUM, all[j], if IS_SUM { x[j] } else { args.sign * x[j] });
        }
    };
    // For columns past the last one, others are read.
    let last = args.cols - 1;
    let cols: [u32; N] = core::array::from_fn(|j| (col + j as u32 * apart).min(last));
    let vector_at = col.min(last - last % N as u32) as usize;
    while row < end {
        let is_few = end - row <= FEW as u32 * step;
        let from = args.inp.wrapping_add(row as usize * args.stride as usize);
        let rows = ([row, step, end], step as usize * args.stride as usize);
        // SAFETY: the elements lie in the matrix, and the vectors are aligned.
        unsafe {
            if IS_ALIGNED {
                let (vector, none) = (|row: *const T| load(row.add(vector_at)), u32x4::splat(0));
                let take = |x| take(T::unpack(x));
                if is_few {
                    each_row::<_, _, IS_SUM, FEW>(from, rows, vector, none, take);
                } else {
                    each_row::<_, _, IS_SUM, IN_FLIGHT>(from, rows, vector, none, take);
                }
            } else {
                let elements = |row: *const T| cols.map(|col| *row.add(col as usize));
                let (none, take) = ([T::from_f32(0.0); N], |x: [T; N]| take(x.map(T::to_f32)));
                each_row::<_, _, IS_SUM, OF_ELEMENTS>(from, rows, elements, none, take);
            }
        }
        let loaded = if !IS_ALIGNED {
            OF_ELEMENTS
        } else if is_few {
            FEW
        } else {
            IN_FLIGHT
        };
        row = opaque(row + loaded as u32 * step);
    }
    all
}

/// Calls `take` with what `load` returns for each of `COUNT` rows from `from` on, which are `pitch` elements and `step` rows
/// apart. All are loaded first. For a row that does not come before `end`, a sum has `none`, and a maximum the first row once
/// more.
#[inline(always)]
fn each_row<T, R: Copy, const IS_SUM: bool, const COUNT: usize>(
    from: *const T,
    ([row, step, end], pitch): ([u32; 3], usize),
    load: impl Fn(*const T) -> R,
    none: R,
    mut take: impl FnMut(R),
) {
    let is_there = |i: usize| i == 0 || row + i as u32 * step < end;
    let loaded: [R; COUNT] =
        core::array::from_fn(|i| load(if is_there(i) { from.wrapping_add(i * pitch) } else { from }));
    for i in 0..COUNT {
        take(if !IS_SUM || is_there(i) { loaded[i] } else { none });
    }
}
