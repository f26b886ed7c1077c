//! Sums and maxima of rows, or of parts of long rows.
//!
//! 1 to 256 threads share a row; the launch decides. Loads are 16 bytes, wherever a row starts: the elements before the
//! first multiple of 16 bytes and after the last one are read one by one. Each thread has eight loads in flight.
//@ ptx(axis_rows_f32, axis_rows_f16, axis_rows_bf16): ld.global.nc.v4 >= 8, bar.sync == 1, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::hint::opaque;
use cuda_std::mem::u32x4;
use cuda_std::warp::warp_shuffle_xor;
use cuda_std::{grid, kernel, shared_array, thread};

use super::args::{ReduceArgs, SUM};
use super::fold::{combine, combine_all, load, neutral, write};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ReduceShape;
use common_kernels::element::{Element, VECTOR_ALIGN};
use common_kernels::sum::Sum;

/// Loads that a thread has in flight at the same time.
const IN_FLIGHT: usize = 8;
/// Loads of a thread whose elements are added up on their own: see [`Sum`].
pub(super) const RUN: usize = 32;

/// Computes the sum or the maximum of each part of each row.
///
/// `1 << log_threads` threads share a row. Launched with blocks of `BLOCK` threads: along x enough for the rows, and along y
/// one per part of `chunk` columns. Every part starts in the row.
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
        axis_rows_f32 = <f32, 4, 256>;
        axis_rows_f16 = <f16, 8, 256>;
        axis_rows_bf16 = <bf16, 8, 256>;
        axis_rows_f32_serial = <f32, 4, 1>, cpu_only = true;
        axis_rows_f16_serial = <f16, 8, 1>, cpu_only = true;
        axis_rows_bf16_serial = <bf16, 8, 1>, cpu_only = true;
    ),
)]
pub unsafe fn axis_rows<T, const N: usize, const BLOCK: usize>(args: ReduceArgs<T>)
where
    T: Element<N>,
{
    let shared = shared_array![f32; 32];
    let (tid, threads) = (thread::thread_idx_x() as usize, 1 << args.log_threads);
    let lane = tid & (threads - 1);
    let row = thread::block_idx_x() as usize * (BLOCK >> args.log_threads) + (tid >> args.log_threads);
    let part = thread::block_idx_y() as usize;
    let first = part * args.chunk as usize;
    // Threads without a row take part in the shuffles and barriers of the others.
    let is_there = row < args.rows as usize;
    let (start, len) = if is_there {
        (row * args.stride as usize + first, (args.chunk as usize).min(args.cols as usize - first))
    } else {
        (0, 0)
    };
    let is_sum = args.has(SUM);
    // The kernel that combines the parts may start; it waits for them.
    grid::launch_dependents();
    // SAFETY: the kernel's contract. All threads of the block reach the shuffles and the barrier.
    unsafe {
        let inp = args.inp.add(start);
        let mut all = if is_sum {
            accumulate::<T, N, true>(inp, len, [lane, threads], args.sign)
        } else {
            accumulate::<T, N, false>(inp, len, [lane, threads], args.sign)
        };
        let mut distance = 1;
        while distance < threads && distance < 32 {
            let (other, _) = warp_shuffle_xor(u32::MAX, all, distance as u32, 32);
            all = combine(is_sum, all, other);
            distance *= 2;
        }
        if threads > 32 {
            if tid.is_multiple_of(32) {
                *shared.add(tid / 32) = all;
            }
            thread::sync_threads_aligned();
            let warps = threads / 32;
            let of_row = shared.add((tid >> args.log_threads) * warps);
            all = *of_row;
            for warp in 1..warps {
                all = combine(is_sum, all, *of_row.add(warp));
            }
        }
        if is_there && lane == 0 {
            write(args.out, args.full, part * args.rows as usize + row, all * args.scale);
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
    len: usize,
    [lane, threads]: [usize; 2],
    sign: f32,
) -> f32 {
    let term = |x: f32| if IS_SUM { x } else { sign * x };
    let (mut sum, mut all) = (Sum::ZERO, [neutral(IS_SUM); N]);
    let take = |all: &mut [f32; N], vector: u32x4| {
        let x = T::unpack(vector);
        for j in 0..N {
            all[j] = combine(IS_SUM, all[j], term(x[j]));
        }
    };
    let before = (row.addr().wrapping_neg() % VECTOR_ALIGN / size_of::<T>()).min(len);
    let (vectors, after) = ((len - before) / N, (len - before) % N);
    // SAFETY: every access lies in the row, and the vectors begin at a multiple of 16 bytes.
    unsafe {
        let aligned = row.add(before);
        // The elements around the vectors. The first one is in flight while the vectors are.
        let around = |i: usize| {
            let element = if i < before { row.add(i) } else { aligned.add(N * vectors + i - before) };
            term((*element).to_f32())
        };
        let first = if lane < before + after { around(lane) } else { neutral(IS_SUM) };
        let mut v = lane;
        while v + IN_FLIGHT * threads < vectors {
            let end = if IS_SUM { vectors.min(v + RUN * threads) } else { vectors };
            while v + IN_FLIGHT * threads < end {
                let loaded: [u32x4; IN_FLIGHT] =
                    core::array::from_fn(|i| load(aligned.add(N * (v + i * threads))));
                loaded.into_iter().for_each(|vector| take(&mut all, vector));
                v = opaque(v + IN_FLIGHT * threads);
            }
            if IS_SUM {
                sum.add(combine_all(IS_SUM, all));
                all = [neutral(IS_SUM); N];
            }
        }
        // No more vectors are left than are in flight at once.
        let is_there = |i: usize| v + i * threads < vectors;
        let loaded: [u32x4; IN_FLIGHT] = core::array::from_fn(|i| {
            if is_there(i) { load(aligned.add(N * (v + i * threads))) } else { u32x4::splat(0) }
        });
        for i in 0..IN_FLIGHT {
            if is_there(i) {
                take(&mut all, loaded[i]);
            }
        }
        all[0] = combine(IS_SUM, all[0], first);
        for i in (lane + threads..before + after).step_by(threads) {
            all[0] = combine(IS_SUM, all[0], around(i));
        }
    }
    let all = combine_all(IS_SUM, all);
    if IS_SUM {
        sum.add(all);
        return sum.value();
    }
    all
}
