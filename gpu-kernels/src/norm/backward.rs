//! The gradients of rows that fit the registers of a warp or a block.
//!
//! With `g = weight d_out` and `x` the normalised row, the gradient of the input is `rstd (g - x mean(g x) - mean(g))`, the last
//! mean of LayerNorm alone. Blocks take rows in turns, and keep the gradients of weight and bias of their rows in registers. They
//! write them as parts, which [`super::columns`] adds up in a fixed order.
//@ ptx(norm_backward_f32_256x8): .local == 0
//@ ptx(norm_backward_bf16_256x4, norm_backward_f16_256x4): .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x2;
use cuda_std::{kernel, shared_array, thread};

use super::args::{ALIGNED, CENTRED, NormBackwardArgs};
#[cfg(not(target_arch = "nvptx64"))]
use super::kernels::RowsShape;
use super::row::{Columns, Held, row_sums};
use crate::element::{Element, Output};

/// The gradients of a norm. A part is the rows that a group of `THREADS` threads takes.
///
/// `THREADS` threads hold a row, `VECTORS` vectors of `N` elements each. Launched on any number of blocks of `BLOCK` threads, with
/// `BLOCK / THREADS` parts each.
///
/// # Safety
/// The launch is as said; `cols` is at most what the threads of a row hold, and not 0. The pointers are valid for what their shapes and
/// strides say; the flags are true; no other code uses what is written. `d_inp` may be `d_out`, `d_sum` or `inp` with the same stride.
#[kernel(
    with(BLOCK = max(THREADS, 128)),
    max_threads = BLOCK,
    min_blocks = 256 / BLOCK,
    args,
    facts: RowsShape = RowsShape::new(N * THREADS * VECTORS, BLOCK, THREADS),
    instances(
        T = f32, N = 4 {
            norm_backward_f32_32x2 = <32, 2>;
            norm_backward_f32_32x4 = <32, 4>;
            norm_backward_f32_32x8 = <32, 8>;
            norm_backward_f32_64x6 = <64, 6>;
            norm_backward_f32_64x8 = <64, 8>;
            norm_backward_f32_128x6 = <128, 6>;
            norm_backward_f32_128x8 = <128, 8>;
            norm_backward_f32_256x6 = <256, 6>;
            norm_backward_f32_256x8 = <256, 8>;
        }
        for T in [f16, bf16], N = 8 {
            norm_backward_{T}_32x1 = <32, 1>;
            norm_backward_{T}_32x2 = <32, 2>;
            norm_backward_{T}_32x4 = <32, 4>;
            norm_backward_{T}_64x3 = <64, 3>;
            norm_backward_{T}_64x4 = <64, 4>;
            norm_backward_{T}_128x3 = <128, 3>;
            norm_backward_{T}_128x4 = <128, 4>;
            norm_backward_{T}_256x3 = <256, 3>;
            norm_backward_{T}_256x4 = <256, 4>;
        }
    ),
)]
pub unsafe fn norm_backward_rows<
    T,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
>(
    args: NormBackwardArgs<T>,
) where
    T: Element<N>,
    f32: Output<N>,
{
    let shared = shared_array![f32x2; 64];
    let tid = thread::thread_idx_x() as usize;
    let groups = BLOCK / THREADS;
    let part = thread::block_idx_x() as usize * groups + tid / THREADS;
    let (parts, rows) = (thread::grid_dim_x() as usize * groups, args.rows as usize);
    let of_row = Columns::new::<N>(tid % THREADS, THREADS, args.cols as usize, args.has(ALIGNED));
    let per_column = 1.0 / args.cols as f32;
    let (mut d_weight, mut d_bias) = ([[0.0; N]; VECTORS], [[0.0; N]; VECTORS]);
    // All groups of the block take as many turns as its first one.
    let turns = rows.saturating_sub(thread::block_idx_x() as usize * groups).div_ceil(parts);
    // SAFETY: the kernel's contract. All threads come to the sums, and the barrier of the turn between lies between two with the same
    // shared memory.
    unsafe {
        for turn in 0..turns {
            let row = part + turn * parts;
            let is_there = row < rows;
            let (row, len) = if is_there { (row, args.cols as usize) } else { (0, 0) };
            let columns = Columns { len, ..of_row };
            let x: Held<N, VECTORS> = columns.load_all(args.inp.add(row * args.inp_stride as usize));
            let d_out: Held<N, VECTORS> = columns.load_all(args.d_out.add(row * args.d_out_stride as usize));
            let mean = if args.has(CENTRED) { *args.mean.add(row) } else { 0.0 };
            let rstd = *args.rstd.add(row);
            let x = x.map(|x| x.map(|x| (x - mean) * rstd));
            let mut g = d_out;
            let mut sums = f32x2::new(0.0, 0.0);
            for i in 0..VECTORS {
                if !args.weight.is_null() {
                    let weight: [f32; N] = columns.load(args.weight, i);
                    g[i] = core::array::from_fn(|j| d_out[i][j] * weight[j]);
                }
                for j in 0..N {
                    // Past the row's end the gradients are zeros.
                    sums = f32x2::new(sums.x + g[i][j] * x[i][j], sums.y + g[i][j]);
                    d_weight[i][j] += d_out[i][j] * x[i][j];
                    d_bias[i][j] += d_out[i][j];
                }
            }
            let of_turn = shared.cast::<f32x2>().add(turn % 2 * 32);
            let sums = row_sums::<THREADS>(of_turn, sums);
            let of_mean = if args.has(CENTRED) { sums.y * per_column } else { 0.0 };
            for i in 0..VECTORS {
                let mut d: [f32; N] =
                    core::array::from_fn(|j| rstd * (g[i][j] - x[i][j] * (sums.x * per_column) - of_mean));
                if !args.d_sum.is_null() {
                    let other: [f32; N] = columns.load(args.d_sum.add(row * args.d_sum_stride as usize), i);
                    d = core::array::from_fn(|j| d[j] + other[j]);
                }
                columns.store(args.d_inp.add(row * args.d_inp_stride as usize), i, d);
            }
        }
        for i in 0..VECTORS {
            let at = part * args.pitch as usize;
            if !args.d_weight.is_null() {
                of_row.store(args.d_weight.add(at), i, d_weight[i]);
            }
            if !args.d_bias.is_null() {
                of_row.store(args.d_bias.add(at), i, d_bias[i]);
            }
        }
    }
}
