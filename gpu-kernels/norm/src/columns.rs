//! The gradients of weight and bias: sums along the columns, in a fixed order.

use cuda_std::half::{bf16, f16};
use cuda_std::{KernelArgs, kernel, shared_array, thread};

use super::args::{ALIGNED, CENTRED, NormBackwardArgs};
use super::row::{Columns, begin};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::ColumnsShape;
use common_kernels::element::{Element, Number, Output};
use common_kernels::sum::Sum;

/// Rows whose gradients are added up on their own: see [`Sum`].
const RUN: usize = 16;

/// Computes each part's gradients of weight and bias, where [`super::wide`] computes the gradient of the input.
///
/// Each thread has `N` columns. Launched with blocks of `THREADS` threads: along x enough for the columns, and along y one
/// per part. The parts share the rows.
///
/// # Safety
/// Same as for [`super::backward::norm_backward_rows()`]; only `d_weight` and `d_bias` are written. The launch before wrote
/// `d_inp`, so that is neither `d_out` nor `inp`.
#[kernel(
    max_threads = THREADS,
    args,
    facts: ColumnsShape = ColumnsShape::new(N * THREADS, THREADS),
    instances(
        norm_columns_f32 = <f32, 4, 64>;
        norm_columns_f16 = <f16, 8, 64>;
        norm_columns_bf16 = <bf16, 8, 64>;
        norm_columns_f32_serial = <f32, 4, 1>, cpu_only = true;
        norm_columns_f16_serial = <f16, 8, 1>, cpu_only = true;
        norm_columns_bf16_serial = <bf16, 8, 1>, cpu_only = true;
    ),
)]
pub unsafe fn norm_columns<T, const N: usize, const THREADS: usize>(args: NormBackwardArgs<T>)
where
    T: Element<N>,
    f32: Output<N>,
{
    begin();
    let (part, parts) = (thread::block_idx_y() as usize, thread::grid_dim_y() as usize);
    let col = N * (thread::block_idx_x() as usize * THREADS + thread::thread_idx_x() as usize);
    if col >= args.cols as usize {
        return;
    }
    let is_aligned = args.has(ALIGNED);
    let columns: Columns = Columns::of_vectors::<N>(col / N, 1, args.cols as usize, is_aligned);
    let (mut d_weight, mut d_bias) = ([Sum::ZERO; N], [Sum::ZERO; N]);
    let (mut first, rows) = (part, args.rows as usize);
    // SAFETY: the kernel's contract; the thread has columns.
    unsafe {
        while first < rows {
            let mut of_run = [[0.0; 2]; N];
            for row in (first..rows.min(first + RUN * parts)).step_by(parts) {
                let x: [f32; N] = columns.load(args.inp.add(row * args.inp_stride as usize), 0);
                let d_out: [f32; N] = columns.load(args.d_out.add(row * args.d_out_stride as usize), 0);
                let mean = if args.has(CENTRED) { *args.mean.add(row) } else { 0.0 };
                let rstd = *args.rstd.add(row);
                for j in 0..N {
                    let [d_weight, d_bias] = of_run[j];
                    of_run[j] = [d_weight + d_out[j] * ((x[j] - mean) * rstd), d_bias + d_out[j]];
                }
            }
            for j in 0..N {
                d_weight[j].add(of_run[j][0]);
                d_bias[j].add(of_run[j][1]);
            }
            first += RUN * parts;
        }
        let at = part * args.pitch as usize + col;
        if !args.d_weight.is_null() {
            <f32 as Output<N>>::store(args.d_weight.add(at), d_weight.map(Sum::value));
        }
        if !args.d_bias.is_null() {
            <f32 as Output<N>>::store(args.d_bias.add(at), d_bias.map(Sum::value));
        }
    }
}

/// The arguments of [`norm_sum_parts()`].
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct SumPartsArgs<T> {
    /// `[cols]`, written; or null.
    pub d_weight: *mut T,
    /// `[cols]`, written; or null.
    pub d_bias: *mut T,
    /// `[parts, pitch]`, the parts of `d_weight`; or null.
    pub of_weight: *const f32,
    /// `[parts, pitch]`, the parts of `d_bias`; or null.
    pub of_bias: *const f32,
    /// Number of parts.
    pub count: u32,
    /// Distance from one part to the next.
    pub pitch: u32,
    /// Columns.
    pub cols: u32,
}

/// Adds up the parts of each column.
///
/// A block has one column per lane; its warps share the parts of each column. Launched with blocks of `32 * WARPS` threads:
/// along x enough for the columns, and along y one per gradient. They may start before the launch that writes the parts has ended.
///
/// # Safety
/// The launch is as described; the pointers are valid for their shapes; no other code uses the gradients.
#[kernel(
    with(THREADS = 32 * WARPS),
    max_threads = THREADS,
    args,
    facts: ColumnsShape = ColumnsShape::new(32, THREADS),
    instances(
        norm_sum_parts_f32 = <f32, 16>;
        norm_sum_parts_f16 = <f16, 16>;
        norm_sum_parts_bf16 = <bf16, 16>;
    ),
)]
pub unsafe fn norm_sum_parts<T: Number, const WARPS: usize, const THREADS: usize>(args: SumPartsArgs<T>) {
    begin();
    let shared = shared_array![f32; 512];
    let tid = thread::thread_idx_x() as usize;
    let (lane, own) = (tid % 32, tid / 32);
    let col = thread::block_idx_x() as usize * 32 + lane;
    let is_bias = args.d_weight.is_null() || thread::block_idx_y() > 0;
    let (out, parts) = if is_bias { (args.d_bias, args.of_bias) } else { (args.d_weight, args.of_weight) };
    let mut sums = [0.0; 8];
    // SAFETY: the kernel's contract. Eight sums keep eight loads in flight; all threads reach the barrier.
    unsafe {
        if col < args.cols as usize {
            for first in (own..args.count as usize).step_by(8 * WARPS) {
                for i in 0..8 {
                    let part = first + i * WARPS;
                    if part < args.count as usize {
                        sums[i] += *parts.add(part * args.pitch as usize + col);
                    }
                }
            }
        }
        let [a, b, c, d, e, f, g, h] = sums;
        *shared.add(tid) = ((a + b) + (c + d)) + ((e + f) + (g + h));
        thread::sync_threads_aligned();
        if own == 0 && col < args.cols as usize {
            let sum = (0..WARPS).fold(0.0, |sum, warp| sum + *shared.add(32 * warp + lane));
            *out.add(col) = T::from_f32(sum);
        }
    }
}
