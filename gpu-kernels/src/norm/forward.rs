//! RMSNorm and LayerNorm of rows that fit the registers of a warp or a block.
//!
//! The variance is that of the differences to the mean, which are in registers: no difference of two large sums.
//@ ptx(norm_f32_256x8): ld.global.v4 >= 8, st.global.v4 >= 8, .local == 0
//@ ptx(norm_bf16_256x4, norm_f16_256x4): ld.global.v4 >= 4, st.global.v4 >= 4, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x2;
use cuda_std::{GpuFloat, kernel, shared_array, thread};

use super::args::{ALIGNED, CENTRED, NormArgs};
#[cfg(not(target_arch = "nvptx64"))]
use super::kernels::RowsShape;
use super::row::{Columns, Held, packed, row_sums};
use crate::element::Element;

/// `out = (x - mean) rstd weight + bias` along each row, where x is `inp` plus `residual`. Without [`CENTRED`] the mean is 0.
///
/// `THREADS` threads hold a row, `VECTORS` vectors of `N` elements each. Launched on blocks of `BLOCK` threads, enough for
/// `rows`.
///
/// # Safety
/// The launch is as said; `cols` is at most what the threads of a row hold, and not 0. The pointers are valid for what their shapes and
/// strides say; the flags are true; no other code uses what is written, which may be what is read at the same place.
#[kernel(
    with(BLOCK = max(THREADS, 128)),
    max_threads = BLOCK,
    args,
    facts: RowsShape = RowsShape::new(N * THREADS * VECTORS, BLOCK, THREADS),
    instances(
        T = f32, N = 4 {
            norm_f32_32x2 = <32, 2>;
            norm_f32_32x4 = <32, 4>;
            norm_f32_32x8 = <32, 8>;
            norm_f32_64x6 = <64, 6>;
            norm_f32_64x8 = <64, 8>;
            norm_f32_128x6 = <128, 6>;
            norm_f32_128x8 = <128, 8>;
            norm_f32_256x6 = <256, 6>;
            norm_f32_256x8 = <256, 8>;
            norm_f32_512x6 = <512, 6>;
            norm_f32_512x8 = <512, 8>;
        }
        for T in [f16, bf16], N = 8 {
            norm_{T}_32x1 = <32, 1>;
            norm_{T}_32x2 = <32, 2>;
            norm_{T}_32x4 = <32, 4>;
            norm_{T}_64x3 = <64, 3>;
            norm_{T}_64x4 = <64, 4>;
            norm_{T}_128x3 = <128, 3>;
            norm_{T}_128x4 = <128, 4>;
            norm_{T}_160x4 = <160, 4>;
            norm_{T}_256x3 = <256, 3>;
            norm_{T}_256x4 = <256, 4>;
            norm_{T}_512x3 = <512, 3>;
            norm_{T}_512x4 = <512, 4>;
            norm_{T}_1024x4 = <1024, 4>;
        }
    ),
)]
pub unsafe fn norm_rows<T, const N: usize, const THREADS: usize, const VECTORS: usize, const BLOCK: usize>(
    args: NormArgs<T>,
) where
    T: Element<N>,
{
    let (shared_mean, shared_square) = (shared_array![f32x2; 32], shared_array![f32x2; 32]);
    let tid = thread::thread_idx_x() as usize;
    let row = thread::block_idx_x() as usize * (BLOCK / THREADS) + tid / THREADS;
    // The threads of a row that is not there come to the shuffles and barriers of the others.
    let is_there = row < args.rows as usize;
    let (row, len) = if is_there { (row, args.cols as usize) } else { (0, 0) };
    let columns = Columns::new::<N>(tid % THREADS, THREADS, len, args.has(ALIGNED));
    let per_column = 1.0 / args.cols as f32;
    if tid == 0 {
        args.prefetch_vectors();
    }
    // SAFETY: the kernel's contract; all threads come to the sums, of which each has shared memory of its own.
    unsafe {
        let mut x: Held<VECTORS> = columns.load_all(args.inp.add(row * args.inp_stride as usize));
        if !args.residual.is_null() {
            let residual: Held<VECTORS> =
                columns.load_all(args.residual.add(row * args.residual_stride as usize));
            for i in 0..VECTORS {
                let (a, b) = (T::unpack(x[i]), T::unpack(residual[i]));
                x[i] = packed::<T, N>(core::array::from_fn(|j| a[j] + b[j]));
            }
        }
        if !args.sum.is_null() {
            for i in 0..VECTORS {
                columns.store(args.sum.add(row * args.sum_stride as usize), i, T::unpack(x[i]));
            }
        }
        let mut mean = 0.0;
        if args.has(CENTRED) {
            // Past the row's end there are zeros.
            let sum = x.iter().flat_map(|&x| T::unpack(x)).fold(0.0, |sum, x| sum + x);
            mean = row_sums::<THREADS>(shared_mean, f32x2::new(sum, 0.0)).x * per_column;
        }
        let sum = (0..VECTORS).fold(0.0, |sum, i| {
            let x = T::unpack(x[i]);
            sum + columns.sum::<N>(i, |j| (x[j] - mean) * (x[j] - mean))
        });
        let variance = row_sums::<THREADS>(shared_square, f32x2::new(sum, 0.0)).x * per_column;
        let rstd = 1.0 / GpuFloat::sqrt(variance + args.epsilon);
        if is_there && tid.is_multiple_of(THREADS) {
            if !args.mean.is_null() {
                *args.mean.add(row) = mean;
            }
            if !args.rstd.is_null() {
                *args.rstd.add(row) = rstd;
            }
        }
        for i in 0..VECTORS {
            let mut y = T::unpack(x[i]).map(|x| (x - mean) * rstd);
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
