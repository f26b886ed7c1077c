//! Sums and maxima of rows, or of parts of long rows.
//!
//! 1 to 256 threads share a row; the launch decides. Loads are 16 bytes, wherever a row starts: the elements before the
//! first multiple of 16 bytes and after the last one are read one by one. Each thread has up to eight loads in flight.
//!
//! A small matrix takes as long as the instructions that a warp executes one after the other, so indices have 32 bits and the
//! last loads of a row have fewer steps.
//@ ptx(axis_rows_f32, axis_rows_f16, axis_rows_bf16): ld.global.nc.v4 >= 8, bar.sync == 1
//@ ptx(axis_rows_f32, axis_rows_f16, axis_rows_bf16, compute_80+): .local == 0
//@ ptx(axis_rows_f32, axis_rows_f16, axis_rows_bf16, compute_90+): griddepcontrol.wait == 1

use cuda_std::half::{bf16, f16};
use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::warp::warp_shuffle_xor;
use cuda_std::{cluster, grid, kernel, shared_array, thread};

use super::args::{ReduceArgs, SUM};
use super::fold::{combine, combine_all, combine_shared, load, neutral, write};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ReduceShape;
use common_kernels::element::{Element, VECTOR_ALIGN};
use common_kernels::sum::Sum;

/// Loads that a thread has in flight at the same time.
const IN_FLIGHT: usize = 8;
/// Loads in flight at the end of a row.
const FEW: usize = 2;

/// Computes the sum or the maximum of each part of each row.
///
/// `1 << log_threads` threads share a row. Launched with blocks of at most `BLOCK` threads: along x enough for the rows, and
/// along y one per part of `chunk` columns. Every part starts in the row. With `CLUSTER`, the parts are the blocks of a
/// cluster along x, at most 16, each has one row, and the last ones may be empty.
///
/// # Safety
/// The launch is as described, and at most a block's threads share a row. The pointers are valid for their shapes and
/// strides; no other code uses what is written, and no code writes `inp`.
#[kernel(
    max_threads = BLOCK,
    min_blocks = 768 / BLOCK,
    args,
    facts: ReduceShape = ReduceShape { block: BLOCK as u32, vector: N as u32 },
    instances(
        axis_rows_f32 = <f32, 4, 256, false>;
        axis_rows_f16 = <f16, 8, 256, false>;
        axis_rows_bf16 = <bf16, 8, 256, false>;
        axis_rows_f32_serial = <f32, 4, 1, false>, cpu_only = true;
        axis_rows_f16_serial = <f16, 8, 1, false>, cpu_only = true;
        axis_rows_bf16_serial = <bf16, 8, 1, false>, cpu_only = true;
        axis_rows_f32_cluster = <f32, 4, 256, true>, min_arch = 90;
        axis_rows_f16_cluster = <f16, 8, 256, true>, min_arch = 90;
        axis_rows_bf16_cluster = <bf16, 8, 256, true>, min_arch = 90;
    ),
)]
pub unsafe fn axis_rows<T, const N: usize, const BLOCK: usize, const CLUSTER: bool>(args: ReduceArgs<T>)
where
    T: Element<N>,
{
    let ReduceArgs { out, full, inp, stride, rows, cols, chunk, log_threads, sign, scale, flags } = args;
    let (of_warps, of_blocks) = (shared_array![f32; 8], shared_array![f32; 16]);
    let (tid, block, threads) = (thread::thread_idx_x(), thread::block_dim_x(), 1 << log_threads);
    let lane = tid & (threads - 1);
    let (place, part) = if CLUSTER {
        (thread::block_idx_x() / cluster::num_blocks(), cluster::block_rank())
    } else {
        (thread::block_idx_x(), thread::block_idx_y())
    };
    let row = place * (block >> log_threads) + (tid >> log_threads);
    let first = part * chunk;
    // Threads without a row take part in the shuffles and barriers of the others.
    let is_there = row < rows;
    let (start, len) = if is_there && (!CLUSTER || first < cols) {
        (row as usize * stride as usize + first as usize, chunk.min(cols - first))
    } else {
        (0, 0)
    };
    let is_sum = flags & SUM != 0;
    grid::wait_for_dependencies();
    grid::launch_dependents();
    // SAFETY: the kernel's contract. All threads of the block reach the shuffles and the barrier, and all of the cluster those
    // of the cluster. A warp or a block writes its own element of shared memory, and threads read it after the barrier.
    unsafe {
        if CLUSTER {
            cluster::arrive_relaxed();
        }
        let inp = inp.add(start);
        let mut all = if is_sum {
            accumulate::<T, N, true>(inp, len, [lane, threads], sign)
        } else {
            accumulate::<T, N, false>(inp, len, [lane, threads], sign)
        };
        for distance in (0..5).map(|log| 1 << log) {
            if distance < threads {
                let (other, _) = warp_shuffle_xor(u32::MAX, all, distance, 32);
                all = combine(is_sum, all, other);
            }
        }
        if threads > 32 {
            if tid.is_multiple_of(32) {
                *of_warps.add(tid as usize / 32) = all;
            }
            thread::sync_threads_aligned();
            all = combine_shared(is_sum, of_warps.add((tid - lane) as usize / 32), [threads / 32, 1]);
        }
        if CLUSTER {
            // The first block has started.
            cluster::wait();
            if tid == 0 {
                *cluster::map_shared(of_blocks.add(part as usize), 0) = all;
            }
            cluster::sync();
            if part > 0 {
                return;
            }
            all = combine_shared(is_sum, of_blocks, [cluster::num_blocks(), 1]);
        }
        if is_there && lane == 0 {
            let at = if CLUSTER { 0 } else { part as usize * rows as usize };
            write(out, full, at + row as usize, all * scale);
        }
    }
}

/// Combines the thread's share of a row of `len` elements.
///
/// # Safety
/// `row` has `len` elements, which no code writes.
#[inline(always)]
unsafe fn accumulate<T: Element<N>, const N: usize, const IS_SUM: bool>(
    row: *const T,
    len: u32,
    [lane, threads]: [u32; 2],
    sign: f32,
) -> f32 {
    if len == 0 {
        return neutral(IS_SUM);
    }
    let term = |x: f32| if IS_SUM { x } else { sign * x };
    let n = N as u32;
    let before = ((row.addr().wrapping_neg() % VECTOR_ALIGN / size_of::<T>()) as u32).min(len);
    let (vectors, after) = ((len - before) / n, (len - before) % n);
    // SAFETY: every access lies in the row, and the vectors begin at a multiple of 16 bytes.
    unsafe {
        let aligned = row.add(before as usize);
        // The elements around the vectors. The thread's first one, or another one, is in flight while the vectors are.
        let at_around = |i: u32| {
            if i < before { row.add(i as usize) } else { aligned.add((n * vectors + i - before) as usize) }
        };
        let has_first = lane < before + after;
        let first = if has_first { at_around(lane) } else { row }.read();
        let (mut sum, mut largest) = (Sum::ZERO, neutral(false));
        let mut v = 0;
        while v < vectors {
            let is_few = vectors - v <= FEW as u32 * threads;
            let at = [v + lane, threads, vectors];
            let all = if is_few {
                of_vectors::<T, N, IS_SUM, FEW>(aligned, at, term)
            } else {
                of_vectors::<T, N, IS_SUM, IN_FLIGHT>(aligned, at, term)
            };
            if IS_SUM {
                sum.add(all)
            } else {
                largest = combine(false, largest, all)
            }
            v = opaque(v + threads * if is_few { FEW } else { IN_FLIGHT } as u32);
        }
        let mut all = if IS_SUM { sum.value() } else { largest };
        if has_first {
            all = combine(IS_SUM, all, term(first.to_f32()));
        }
        for i in (lane + threads..before + after).step_by(threads as usize) {
            all = combine(IS_SUM, all, term((*at_around(i)).to_f32()));
        }
        all
    }
}

/// Combines the vectors `first`, `first + threads` and so on, at most `COUNT`, as far as there are `vectors`, at least one.
///
/// # Safety
/// `aligned` is a multiple of 16 and has the vectors, which no code writes.
#[inline(always)]
unsafe fn of_vectors<T: Element<N>, const N: usize, const IS_SUM: bool, const COUNT: usize>(
    aligned: *const T,
    [first, threads, vectors]: [u32; 3],
    term: impl Fn(f32) -> f32,
) -> f32 {
    let loaded: [u32x4; COUNT] = core::array::from_fn(|i| {
        let v = first + i as u32 * threads;
        // A maximum may have a vector twice.
        let v = if IS_SUM { v } else { v.min(vectors - 1) };
        // SAFETY: one of the vectors.
        if v < vectors { unsafe { load(aligned.add(N * v as usize)) } } else { u32x4::splat(0) }
    });
    let mut all = [neutral(IS_SUM); N];
    for vector in loaded {
        let x = T::unpack(vector);
        for j in 0..N {
            all[j] = combine(IS_SUM, all[j], term(x[j]));
        }
    }
    combine_all(IS_SUM, all)
}
