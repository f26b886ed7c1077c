//! Sums and maxima of columns, or of parts of columns.
//!
//! Each thread has `N` columns, and a block's threads share the rows of a part. They combine their results in shared memory. Loads
//! are 16 bytes: from an unaligned row of 16-bit elements a thread loads the two vectors that have its columns, and shifts
//! them. Elements of 4 bytes of unaligned rows are loaded one by one, which is as fast.
//@ ptx(axis_columns_f32, axis_columns_f16, axis_columns_bf16): ld.global.nc.v4 >= 8, bar.sync == 1, .local == 0
//@ allow-local(axis_columns_bf16, compute_75): without an instruction for maxima, a thread needs two more than 64 registers

use cuda_std::half::{bf16, f16};
use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::{grid, kernel, shared_array, thread};

use super::args::{ALIGNED, ReduceArgs, SUM};
use super::fold::{combine, load, neutral, write};
use super::rows::RUN;
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ReduceShape;
use common_kernels::element::{Element, Output};
use common_kernels::sum::Sum;
use common_kernels::unaligned::Unaligned;

/// Rows that a thread has in flight at the same time.
const IN_FLIGHT: usize = 4;

/// Computes the sum or the maximum of each part of each column.
///
/// A block has `1 << log_threads` vectors of `N` columns side by side. Launched with blocks of `BLOCK` threads: along x
/// enough for the columns, and along y one per part of `chunk` rows. Every part starts in the matrix.
///
/// # Safety
/// The launch is as described, and a block has no more vectors side by side than threads. The pointers are valid for their
/// shapes and strides; the flags hold; no other code uses what is written, and no code writes `inp`.
#[kernel(
    max_threads = BLOCK,
    args,
    facts: ReduceShape = ReduceShape { block: BLOCK as u32, vector: N as u32 },
    instances(
        axis_columns_f32 = <f32, 4, 256>, min_blocks = 4;
        axis_columns_f16 = <f16, 8, 256>, min_blocks = 3;
        axis_columns_bf16 = <bf16, 8, 256>, min_blocks = 3;
        axis_columns_f32_serial = <f32, 4, 1>, cpu_only = true;
        axis_columns_f16_serial = <f16, 8, 1>, cpu_only = true;
        axis_columns_bf16_serial = <bf16, 8, 1>, cpu_only = true;
    ),
)]
pub unsafe fn axis_columns<T, const N: usize, const BLOCK: usize>(args: ReduceArgs<T>)
where
    T: Element<N>,
    f32: Output<N>,
{
    // `N` elements of each of 256 threads.
    let shared = shared_array![f32; 2048];
    let (tid, vectors) = (thread::thread_idx_x() as usize, 1 << args.log_threads);
    let (lane, group, groups) = (tid & (vectors - 1), tid >> args.log_threads, BLOCK >> args.log_threads);
    let (width, part) = (N * vectors, thread::block_idx_y() as usize);
    let first_col = thread::block_idx_x() as usize * width;
    let first = part * args.chunk as usize;
    let share = Share {
        first: first + group,
        step: groups,
        end: (first + args.chunk as usize).min(args.rows as usize),
    };
    let (is_sum, is_aligned) = (args.has(SUM), args.has(ALIGNED));
    // Neighbouring threads have neighbouring vectors, or neighbouring elements.
    let (of_thread, step) = if is_aligned || N > 4 { (N * lane, 1) } else { (lane, vectors) };
    let at_thread = [first_col + of_thread, step];
    // The kernel that combines the parts may start; it waits for them.
    grid::launch_dependents();
    // SAFETY: the kernel's contract. All threads of the block reach the barrier. A thread writes its own elements of shared
    // memory, and reads other threads' elements after the barrier.
    unsafe {
        let all = match (is_sum, is_aligned) {
            // A block's launch leaves a thread so few rows that it needs no registers for runs.
            (true, _) if BLOCK == 1 => sums_of_runs(&args, share, at_thread, is_aligned),
            (true, true) => accumulate::<T, N, true, true>(&args, share, at_thread),
            (true, false) => accumulate::<T, N, true, false>(&args, share, at_thread),
            (false, true) => accumulate::<T, N, false, true>(&args, share, at_thread),
            (false, false) => accumulate::<T, N, false, false>(&args, share, at_thread),
        };
        let at = part * args.cols as usize + first_col;
        let is_whole = first_col + width <= args.cols as usize;
        if groups == 1
            && is_whole
            && is_aligned_at::<T, N>(args.out, at)
            && is_aligned_at::<f32, N>(args.full, at)
        {
            let all = all.map(|x| x * args.scale);
            if !args.out.is_null() {
                T::store(args.out.add(at + N * lane), all);
            }
            if !args.full.is_null() {
                <f32 as Output<N>>::store(args.full.add(at + N * lane), all);
            }
            return;
        }
        for j in 0..N {
            *shared.add(group * width + of_thread + j * step) = all[j];
        }
        thread::sync_threads_aligned();
        for i in (tid..width).step_by(BLOCK) {
            let mut all = *shared.add(i);
            for group in 1..groups {
                all = combine(is_sum, all, *shared.add(group * width + i));
            }
            if first_col + i < args.cols as usize {
                write(args.out, args.full, at + i, all * args.scale);
            }
        }
    }
}

/// Returns whether vectors can be stored from element `at` on. None are stored to a null pointer.
#[inline(always)]
fn is_aligned_at<T: Output<N>, const N: usize>(ptr: *mut T, at: usize) -> bool {
    ptr.is_null() || ptr.wrapping_add(at).addr().is_multiple_of(T::ALIGN)
}

/// The rows of a thread.
#[derive(Clone, Copy)]
struct Share {
    first: usize,
    step: usize,
    end: usize,
}

/// Returns the sums of the thread's rows, like [`accumulate`], from those of runs of rows.
///
/// # Safety
/// Same as for [`accumulate`].
#[inline(always)]
unsafe fn sums_of_runs<T: Element<N>, const N: usize>(
    args: &ReduceArgs<T>,
    share: Share,
    at: [usize; 2],
    is_aligned: bool,
) -> [f32; N] {
    let mut sums = [Sum::ZERO; N];
    for first in (share.first..share.end).step_by(RUN * share.step) {
        let run = Share { first, end: share.end.min(first + RUN * share.step), ..share };
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

/// Returns the sums or maxima of the thread's rows, for `N` columns from `col` on that are `step` apart. The results of
/// columns past the last one are meaningless.
///
/// # Safety
/// The rows lie in `args.inp`. If `IS_ALIGNED`, they are aligned. The step is 1 if they are or `N` is more than 4.
#[inline(always)]
unsafe fn accumulate<T: Element<N>, const N: usize, const IS_SUM: bool, const IS_ALIGNED: bool>(
    args: &ReduceArgs<T>,
    share: Share,
    [col, step]: [usize; 2],
) -> [f32; N] {
    let (cols, stride) = (args.cols as usize, args.stride as usize);
    let share = Share { end: if col < cols { share.end } else { 0 }, ..share };
    let mut all = [neutral(IS_SUM); N];
    let mut take = |x: [f32; N]| {
        for j in 0..N {
            all[j] = combine(IS_SUM, all[j], if IS_SUM { x[j] } else { args.sign * x[j] });
        }
    };
    let at = |row: usize| args.inp.wrapping_add(row * stride + col);
    if IS_ALIGNED {
        // SAFETY: a whole, aligned vector of the row.
        let vector = |row: usize| unsafe { load(at(row)) };
        each_row::<_, IN_FLIGHT>(share, vector, u32x4::splat(0), |x| take(T::unpack(x)));
    } else if N <= 4 {
        let elements = |row: usize| {
            core::array::from_fn(|j| match col + j * step < cols {
                // SAFETY: an element of the row.
                true => unsafe { *at(row).add(j * step) }.to_f32(),
                false => 0.0,
            })
        };
        each_row::<_, IN_FLIGHT>(share, elements, [0.0; N], take);
    } else {
        let is_dense = stride == cols;
        let unaligned = |row: usize| {
            // What may be read around the columns: the row, or all rows if there are no gaps between them.
            let (before, after) = match is_dense {
                true => (row * stride + col, (args.rows as usize - row) * stride - col),
                false => (col, cols - col),
            };
            // SAFETY: vectors of the row or the matrix, or elements of the row.
            unsafe {
                if before >= N - 1 && after >= 2 * N {
                    Unaligned::load(at(row), |from| load(from))
                } else {
                    Unaligned::gather::<T, N>(at(row), cols - col)
                }
            }
        };
        each_row::<_, IN_FLIGHT>(share, unaligned, Unaligned::NONE, |x| take(T::unpack(x.vector::<T>())));
    }
    all
}

/// Calls `take` with what `load` returns for each row of the share, in order. Loads `COUNT` rows before it takes the first.
#[inline(always)]
fn each_row<R: Copy, const COUNT: usize>(
    Share { first, step, end }: Share,
    load: impl Fn(usize) -> R,
    none: R,
    mut take: impl FnMut(R),
) {
    let mut row = first;
    while row + (COUNT - 1) * step < end {
        let loaded: [R; COUNT] = core::array::from_fn(|i| load(row + i * step));
        for i in 0..COUNT {
            take(loaded[i]);
        }
        row = opaque(row + COUNT * step);
    }
    // Fewer rows are left than are in flight at once.
    let is_there = |i: usize| row + i * step < end;
    let loaded: [R; COUNT] =
        core::array::from_fn(|i| if is_there(i) && i + 1 < COUNT { load(row + i * step) } else { none });
    for i in 0..COUNT - 1 {
        if is_there(i) {
            take(loaded[i]);
        }
    }
}
