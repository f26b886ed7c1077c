//! Rows of any length, one block per row. Each pass reads the row again, from L2 if it fits there. With one thread per block
//! these are the kernels of a CPU.

use cuda_std::half::{bf16, f16};
use cuda_std::{fastmath, kernel, shared_array, thread};

use super::args::{ALIGNED, CENTRED, NormArgs, NormBackwardArgs};
use super::row::{Columns, begin, correction, row_sums};
use common_kernels::element::Element;
use common_kernels::sum::Sum;

/// Vectors whose elements are added up on their own: see [`Sum`].
const RUN: usize = 16;

/// Adds up the sums of the thread's vectors.
#[inline(always)]
fn add_up<const SUMS: usize>(vectors: usize, of_vector: impl Fn(usize) -> [f32; SUMS]) -> [f32; SUMS] {
    let mut sums = [Sum::ZERO; SUMS];
    let mut first = 0;
    while first < vectors {
        let mut of_run = [0.0; SUMS];
        let end = vectors.min(first + RUN);
        for i in first..end {
            let of_vector = of_vector(i);
            for j in 0..SUMS {
                of_run[j] += of_vector[j];
            }
        }
        for j in 0..SUMS {
            sums[j].add(of_run[j]);
        }
        first = end;
    }
    sums.map(Sum::value)
}

/// Like [`super::forward::norm_rows()`], for rows of any length, including 0.
///
/// Launched with one block of `THREADS` threads per row.
///
/// # Safety
/// Same as for [`super::forward::norm_rows()`], except the limit on the columns.
#[kernel(
    max_threads = THREADS,
    args,
    instances(
        norm_f32_wide = <f32, 4, 1024>, min_blocks = 2;
        norm_f16_wide = <f16, 8, 1024>;
        norm_bf16_wide = <bf16, 8, 1024>;
        norm_f32_serial = <f32, 4, 1>, cpu_only = true;
        norm_f16_serial = <f16, 8, 1>, cpu_only = true;
        norm_bf16_serial = <bf16, 8, 1>, cpu_only = true;
    ),
)]
pub unsafe fn norm_wide<T, const N: usize, const THREADS: usize>(args: NormArgs<T>)
where
    T: Element<N>,
{
    begin();
    let (of_mean, of_variance) = (shared_array![[f32; 1]; 32], shared_array![[f32; 2]; 32]);
    let (row, cols) = (thread::block_idx_x() as usize, args.cols as usize);
    let columns: Columns =
        Columns::new::<N>(thread::thread_idx_x() as usize, THREADS, cols, args.has(ALIGNED));
    let vectors = cols.div_ceil(N * THREADS);
    let per_column = args.per_column;
    // SAFETY: the kernel's contract; all threads call the sums, and each sum has its own shared memory. A thread only reads
    // back what it wrote itself.
    unsafe {
        let inp = args.inp.add(row * args.inp_stride as usize);
        let x = |i: usize| -> [f32; N] {
            let x = columns.load(inp, i);
            if args.residual.is_null() {
                return x;
            }
            let residual = args.residual.add(row * args.residual_stride as usize);
            let residual: [f32; N] = columns.load(residual, i);
            core::array::from_fn(|j| T::from_f32(x[j] + residual[j]).to_f32())
        };
        let mut mean = 0.0;
        if args.has(CENTRED) {
            // The elements past the row's end are zeros.
            let sum = add_up(vectors, |i| [x(i).iter().fold(0.0, |sum, x| sum + x)]);
            mean = row_sums::<THREADS, 1>(of_mean, sum)[0] * per_column;
        }
        let sums = add_up(vectors, |i| columns.deviations::<N>(i, x(i), mean));
        let sums = row_sums::<THREADS, 2>(of_variance, sums);
        let [off, variance] = correction(sums, per_column, args.has(CENTRED));
        let rstd = fastmath::rsqrt_approx(variance + args.epsilon);
        if thread::thread_idx_x() == 0 {
            args.store_statistics(row, mean + off, rstd);
        }
        for i in 0..vectors {
            let x = x(i);
            if !args.sum.is_null() {
                columns.store(args.sum.add(row * args.sum_stride as usize), i, x);
            }
            let mut y = x.map(|x| (x - mean - off) * rstd);
            if !args.weight.is_null() {
                let weight: [f32; N] = columns.load(args.weight, i);
                y = core::array::from_fn(|j| y[j] * weight[j]);
            }
            if !args.bias.is_null() {
                let bias: [f32; N] = columns.load(args.bias, i);
                y = core::array::from_fn(|j| y[j] + bias[j]);
            }
            columns.store(args.out.add(row * args.out_stride as usize), i, y);
        }
    }
}

/// Computes the gradient of the input, for rows of any length. [`super::columns`] computes those of weight and bias.
///
/// Launched with one block of `THREADS` threads per row.
///
/// # Safety
/// Same as for [`super::backward::norm_backward_rows()`], except the limit on the columns; `d_weight` and
/// `d_bias` are not used.
#[kernel(
    max_threads = THREADS,
    args,
    instances(
        norm_backward_f32_wide = <f32, 4, 1024>;
        norm_backward_f16_wide = <f16, 8, 1024>;
        norm_backward_bf16_wide = <bf16, 8, 1024>;
        norm_backward_f32_serial = <f32, 4, 1>, cpu_only = true;
        norm_backward_f16_serial = <f16, 8, 1>, cpu_only = true;
        norm_backward_bf16_serial = <bf16, 8, 1>, cpu_only = true;
    ),
)]
pub unsafe fn norm_backward_wide<T, const N: usize, const THREADS: usize>(args: NormBackwardArgs<T>)
where
    T: Element<N>,
{
    begin();
    let shared = shared_array![[f32; 2]; 32];
    let (row, cols) = (thread::block_idx_x() as usize, args.cols as usize);
    let columns: Columns =
        Columns::new::<N>(thread::thread_idx_x() as usize, THREADS, cols, args.has(ALIGNED));
    let vectors = cols.div_ceil(N * THREADS);
    let per_column = args.per_column;
    // SAFETY: the kernel's contract; all threads call the sums.
    unsafe {
        let inp = args.inp.add(row * args.inp_stride as usize);
        let d_out = args.d_out.add(row * args.d_out_stride as usize);
        let mean = if args.has(CENTRED) { *args.mean.add(row) } else { 0.0 };
        let rstd = *args.rstd.add(row);
        let x_and_g = |i: usize| -> [[f32; N]; 2] {
            let x: [f32; N] = columns.load(inp, i);
            let mut g: [f32; N] = columns.load(d_out, i);
            if !args.weight.is_null() {
                let weight: [f32; N] = columns.load(args.weight, i);
                g = core::array::from_fn(|j| g[j] * weight[j]);
            }
            [x.map(|x| (x - mean) * rstd), g]
        };
        let sums = add_up(vectors, |i| {
            let [x, g] = x_and_g(i);
            // The gradients past the row's end are zeros.
            (0..N).fold([0.0; 2], |sums, j| [sums[0] + g[j] * x[j], sums[1] + g[j]])
        });
        let sums = row_sums::<THREADS, 2>(shared, sums);
        let of_mean = if args.has(CENTRED) { sums[1] * per_column } else { 0.0 };
        for i in 0..vectors {
            let [x, g] = x_and_g(i);
            let mut d: [f32; N] =
                core::array::from_fn(|j| rstd * (g[j] - x[j] * (sums[0] * per_column) - of_mean));
            if !args.d_sum.is_null() {
                let other: [f32; N] = columns.load(args.d_sum.add(row * args.d_sum_stride as usize), i);
                d = core::array::from_fn(|j| d[j] + other[j]);
            }
            columns.store(args.d_inp.add(row * args.d_inp_stride as usize), i, d);
        }
    }
}
