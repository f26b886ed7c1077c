//! The gradients of a small matrix, in one launch.
//!
//! Some blocks compute the gradient of the input, and the others those of weight and bias. Both read the matrices: the second
//! time they are in L2. This takes less time than [`super::backward`], whose parts another launch adds up.
//@ ptx(norm_backward_f32_few, norm_backward_f16_few, norm_backward_bf16_few): .local == 0
//@ ptx(norm_backward_f32_few_any, norm_backward_f16_few_any, norm_backward_bf16_few_any): .local == 0
//@ allow-local(norm_backward_f32_few_any, compute_75): loads of four rows in flight need a few registers more than there are

use cuda_std::half::{bf16, f16};
use cuda_std::warp::warp_shuffle_xor;
use cuda_std::{kernel, shared_array, thread};

use super::args::{CENTRED, NormBackwardArgs};
use super::row::{Columns, Held, begin, sums_of_warp};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::FewShape;
use common_kernels::element::Element;
use common_kernels::unaligned::Unaligned;

/// Vectors side by side in a block's columns.
const LANES: usize = 8;
/// Rows of which a thread has the elements of its columns in flight.
const IN_FLIGHT: usize = 4;

/// Computes the gradients of a norm.
///
/// `BLOCK` threads have some rows, as many as follow from the number of blocks: a thread `VECTORS` vectors of `N` elements at a
/// time of a
/// row. Or they have eight vectors of columns of every row. Launched with blocks of `BLOCK` threads: first those with columns,
/// enough
/// for all columns if the gradients of weight or bias are wanted, and then those with rows. With `WHOLE`, every load and store
/// is a whole vector.
///
/// # Safety
/// The launch is as described; `cols` is at least 1. With `WHOLE` the flag `ALIGNED` is set. The pointers are valid for their
/// shapes and strides; the flags hold; no other code uses what is written. `d_weight` and `d_bias` have one part, of `T`.
/// `d_inp` is none of the inputs.
#[kernel(
    max_threads = BLOCK,
    args,
    facts: FewShape = FewShape { block: BLOCK as u32, vectors: VECTORS as u32, n: N as u32, lanes: LANES as u32 },
    instances(
        T = f32, N = 4 {
            norm_backward_f32_few = <2, 512, true>;
            norm_backward_f32_few_any = <2, 512, false>;
        }
        for T in [f16, bf16], N = 8 {
            norm_backward_{T}_few = <2, 512, true>;
            norm_backward_{T}_few_any = <2, 512, false>;
        }
    ),
)]
pub unsafe fn norm_backward_few<
    T,
    const N: usize,
    const VECTORS: usize,
    const BLOCK: usize,
    const WHOLE: bool,
>(
    args: NormBackwardArgs<T>,
) where
    T: Element<N>,
{
    begin();
    let (block, blocks) = (thread::block_idx_x() as usize, thread::grid_dim_x() as usize);
    let is_wanted = !args.d_weight.is_null() || !args.d_bias.is_null();
    let of_columns = if is_wanted { (args.cols as usize).div_ceil(N * LANES) } else { 0 };
    // SAFETY: the kernel's contract; all threads of the block call the same function.
    unsafe {
        if block < of_columns {
            columns::<T, N, BLOCK, WHOLE>(&args, N * LANES * block);
        } else {
            rows::<T, N, VECTORS, BLOCK, WHOLE>(&args, block - of_columns, blocks - of_columns);
        }
    }
}

/// Computes the gradient of the input for the rows of a block.
///
/// # Safety
/// As for [`norm_backward_few()`]. All threads of the block call this.
#[inline(always)]
unsafe fn rows<T: Element<N>, const N: usize, const VECTORS: usize, const BLOCK: usize, const WHOLE: bool>(
    args: &NormBackwardArgs<T>,
    block: usize,
    blocks: usize,
) {
    let of_warps = shared_array![[f32; 2]; 32];
    let (tid, rows) = (thread::thread_idx_x() as usize, args.rows as usize);
    let at_once = rows.div_ceil(blocks).next_power_of_two();
    let threads = BLOCK / at_once;
    let (row, thread) = (block * at_once + tid / threads, tid % threads);
    // Threads without a row take part in the shuffles and barriers of the others.
    let is_there = row < rows;
    let (row, len) = if is_there { (row, args.cols as usize) } else { (0, 0) };
    let width = N * VECTORS * threads;
    let part = |i: usize| -> Columns {
        let part = Columns::new::<N>(thread, threads, len, WHOLE);
        Columns { first: part.first + i * width, ..part }
    };
    // SAFETY: the kernel's contract. All threads of the block reach the shuffles and the barrier; a warp writes its own sums,
    // and reads the others' after the barrier.
    unsafe {
        let fetch = |i: usize| -> [Held<VECTORS>; 3] {
            let x = part(i).fetch_all(args.inp.add(row * args.inp_stride as usize));
            let d_out = part(i).fetch_all(args.d_out.add(row * args.d_out_stride as usize));
            let none = [Unaligned::NONE; VECTORS];
            let weight = if args.weight.is_null() { none } else { part(i).fetch_all(args.weight) };
            [x, d_out, weight].map(|of| of.map(Unaligned::vector::<T>))
        };
        let mean = if args.has(CENTRED) { *args.mean.add(row) } else { 0.0 };
        let rstd = *args.rstd.add(row);
        // The normalised elements of a vector, and the gradients after the weight: zeros past the row's end.
        let vector = |[x, d_out, weight]: &[Held<VECTORS>; 3], i: usize| {
            let (x, mut g) = (T::unpack(x[i]).map(|x| (x - mean) * rstd), T::unpack(d_out[i]));
            if !args.weight.is_null() {
                let weight = T::unpack(weight[i]);
                g = core::array::from_fn(|j| g[j] * weight[j]);
            }
            (x, g)
        };
        let parts = (args.cols as usize).div_ceil(width);
        let (mut sums, mut held) = ([0.0; 2], fetch(0));
        for i in 0..parts {
            if i > 0 {
                held = fetch(i);
            }
            for i in 0..VECTORS {
                let (x, g) = vector(&held, i);
                sums = (0..N).fold(sums, |[of_x, of_mean], j| [of_x + g[j] * x[j], of_mean + g[j]]);
            }
        }
        let mut distance = threads.min(32) as u32 / 2;
        while distance > 0 {
            sums = sums.map(|sum| sum + warp_shuffle_xor(u32::MAX, sum, distance, 32).0);
            distance /= 2;
        }
        if threads > 32 {
            if tid.is_multiple_of(32) {
                *of_warps.add(tid / 32) = sums;
            }
            thread::sync_threads_aligned();
            let of_row = of_warps.add(tid / threads * (threads / 32));
            sums = (0..threads / 32).fold([0.0; 2], |sums, warp| {
                let of_warp = *of_row.add(warp);
                [sums[0] + of_warp[0], sums[1] + of_warp[1]]
            });
        }
        let [of_x, of_mean] = sums.map(|sum| sum * args.per_column);
        let of_mean = if args.has(CENTRED) { of_mean } else { 0.0 };
        for part_of_row in (0..parts).rev() {
            // The last part is still there.
            if part_of_row + 1 < parts {
                held = fetch(part_of_row);
            }
            let of_row = part(part_of_row);
            for i in 0..VECTORS {
                let (x, g) = vector(&held, i);
                let mut d: [f32; N] = core::array::from_fn(|j| rstd * (g[j] - x[j] * of_x - of_mean));
                if !args.d_sum.is_null() {
                    let other: [f32; N] = of_row.load(args.d_sum.add(row * args.d_sum_stride as usize), i);
                    d = core::array::from_fn(|j| d[j] + other[j]);
                }
                of_row.store(args.d_inp.add(row * args.d_inp_stride as usize), i, d);
            }
        }
    }
}

/// Computes the gradients of weight and bias for the columns from `first` on, eight vectors.
///
/// # Safety
/// As for [`norm_backward_few()`]. All threads of the block call this.
#[inline(always)]
unsafe fn columns<T: Element<N>, const N: usize, const BLOCK: usize, const WHOLE: bool>(
    args: &NormBackwardArgs<T>,
    first: usize,
) {
    // The sums of each warp: those of the weight, then those of the bias.
    let shared = shared_array![f32; 2048];
    let (tid, rows, width) = (thread::thread_idx_x() as usize, args.rows as usize, N * LANES);
    let own: Columns = Columns::new::<N>(tid % LANES, LANES, args.cols as usize - first, WHOLE);
    let (group, groups) = (tid / LANES, BLOCK / LANES);
    let mut sums = [[0.0; N]; 2];
    // SAFETY: the kernel's contract. All threads reach the shuffles and the barrier; a warp writes its own sums, and others
    // read them after the barrier.
    unsafe {
        for first_row in (group..rows).step_by(IN_FLIGHT * groups) {
            let fetched: [_; IN_FLIGHT] = core::array::from_fn(|i| {
                let row = first_row + i * groups;
                if row >= rows {
                    return ([Unaligned::NONE], [Unaligned::NONE], [0.0; 2]);
                }
                let x = own.fetch_all::<T, N, 1>(args.inp.add(row * args.inp_stride as usize + first));
                let d = own.fetch_all::<T, N, 1>(args.d_out.add(row * args.d_out_stride as usize + first));
                let mean = if args.has(CENTRED) { *args.mean.add(row) } else { 0.0 };
                (x, d, [mean, *args.rstd.add(row)])
            });
            for i in 0..IN_FLIGHT {
                let ([x], [d], [mean, rstd]) = fetched[i];
                let (x, d) = (T::unpack(x.vector::<T>()), T::unpack(d.vector::<T>()));
                for j in 0..N {
                    sums[0][j] += d[j] * ((x[j] - mean) * rstd);
                    sums[1][j] += d[j];
                }
            }
        }
        sums = sums.map(|sums| sums_of_warp(LANES, sums));
        let of_warp = |warp: usize, which: usize| shared.add((2 * warp + which) * width);
        if tid % 32 < LANES {
            for j in 0..N {
                *of_warp(tid / 32, 0).add(own.at(0, j)) = sums[0][j];
                *of_warp(tid / 32, 1).add(own.at(0, j)) = sums[1][j];
            }
        }
        thread::sync_threads_aligned();
        let (which, col) = (tid / width, tid % width);
        let out = if which == 0 { args.d_weight } else { args.d_bias };
        if which < 2 && !out.is_null() && first + col < args.cols as usize {
            let sum = (0..BLOCK / 32).fold(0.0, |sum, warp| sum + *of_warp(warp, which).add(col));
            *out.cast::<T>().add(first + col) = T::from_f32(sum);
        }
    }
}
