//! RMSNorm and LayerNorm of long rows, which a block or a cluster of blocks holds in shared memory.
//!
//! Each thread copies its own vectors there and reads only these. Registers hold only weights and biases, so many blocks load at
//! once; in [`super::forward`] the row takes these registers.
//!
//! The variance is computed from differences to the mean, not as the difference of two large sums.
//@ ptx(norm_f32_shared_256x8, norm_bf16_shared_256x8, compute_90+): cp.async.cg >= 8, mapa >= 1, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::mem::{load_global, load_shared, store_shared, u32x4};
use cuda_std::shared::dynamic_shared_mem_aligned;
use cuda_std::{cluster, fastmath, kernel, pipeline, shared_array, thread};

use super::args::{CENTRED, NormArgs};
use super::exchange::Exchange;
use super::row::{begin, correction, lanes_sums, packed, row_sums};
#[cfg(not(target_arch = "nvptx64"))]
use super::shapes::RowsShape;
use common_kernels::element::Element;

/// `out = (x - mean) rstd weight + bias` along each row; x is `inp` plus `residual`. Without [`CENTRED`] the mean is 0.
///
/// `THREADS` threads of each block of a cluster hold a row, `VECTORS` vectors of `N` elements each. Launched with a cluster
/// of at most `most` blocks for each row, or a block; its dynamic shared memory has these vectors. It is the fastest kernel
/// for rows of `least` columns or more.
///
/// # Safety
/// The launch is as described; `cols` is at least 1 and at most what the threads of a row hold. The flag `ALIGNED` is set.
/// The pointers are valid for their shapes and strides; no other code uses what is written. An output may be an input,
/// elementwise.
#[kernel(
    max_threads = THREADS,
    min_blocks = BLOCKS,
    min_arch = 90,
    args,
    facts: RowsShape = RowsShape::new(N * THREADS * VECTORS, THREADS, THREADS).in_clusters(most).in_shared(N, least),
    instances(
        T = f32, N = 4 {
            norm_f32_shared_256x4 = <256, 4, 4>, most = 8, least = 16385;
            norm_f32_shared_256x8 = <256, 8, 3>, most = 8, least = 32769;
            norm_f32_shared_256x16 = <256, 16, 3>, most = 16, least = 65537;
        }
        for T in [f16, bf16], N = 8 {
            norm_{T}_shared_256x4 = <256, 4, 5>, most = 8, least = 16385;
            norm_{T}_shared_256x8 = <256, 8, 3>, most = 16, least = 65537;
        }
    ),
)]
pub unsafe fn norm_in_shared<
    T,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCKS: usize,
>(
    args: NormArgs<T>,
) where
    T: Element<N>,
{
    begin();
    // The sums of the warps: for the mean, then for the variance.
    let of_warps = shared_array![[f32; 2]; 64];
    let tid = thread::thread_idx_x() as usize;
    let own = dynamic_shared_mem_aligned::<u32x4>().wrapping_add(tid);
    let (rank, blocks) = (cluster::block_rank(), cluster::num_blocks());
    let warps = THREADS as u32 / 32;
    let row = (thread::block_idx_x() / blocks) as usize;
    // The block's vectors of the row, and whether the thread has its vector `i`.
    let vectors = args.cols / N as u32;
    let part = vectors.div_ceil(blocks);
    let from = (rank * part).min(vectors);
    let len = part.min(vectors - from);
    let has = |i: usize| ((i * THREADS + tid) as u32) < len;
    let from = N * (from as usize + tid);
    let step = N * THREADS;
    let vector = |from: *const T, i: usize| match has(i) {
        // SAFETY: a vector of the block's columns.
        true => unsafe { load_global(from.add(i * step).cast()) },
        false => u32x4::new(0, 0, 0, 0),
    };
    let (mut early_weight, mut early_bias, exchange);
    // Later loads leave registers for more blocks.
    let (is_weight_early, is_bias_early) = (VECTORS <= 8, N == 4 && VECTORS <= 4);
    // SAFETY: the thread's vectors of a row, and its own shared memory, which it reads after the copies are complete. All threads
    // of the cluster create the exchange.
    unsafe {
        let inp = args.inp.add(row * args.inp_stride as usize + from);
        for i in 0..VECTORS {
            if has(i) {
                pipeline::memcpy_async_l2(own.add(i * THREADS), inp.add(i * step).cast::<u32x4>());
            }
        }
        early_weight = [u32x4::new(0, 0, 0, 0); VECTORS];
        early_bias = early_weight;
        if is_weight_early && !args.weight.is_null() {
            early_weight = core::array::from_fn(|i| vector(args.weight.add(from), i));
        }
        if is_bias_early && !args.bias.is_null() {
            early_bias = core::array::from_fn(|i| vector(args.bias.add(from), i));
        }
        exchange = if blocks > 1 { Some(Exchange::new(1)) } else { None };
        pipeline::wait_all();
    }
    // SAFETY: the thread's vectors of a row, and its own shared memory, which it has copied or written.
    unsafe {
        if !args.residual.is_null() {
            let residual = args.residual.add(row * args.residual_stride as usize + from);
            for i in 0..VECTORS {
                if has(i) {
                    let own = own.add(i * THREADS);
                    let (a, b) =
                        (T::unpack(load_shared(own)), T::unpack(load_global(residual.add(i * step).cast())));
                    store_shared(own, packed::<T, N>(core::array::from_fn(|j| a[j] + b[j])));
                }
            }
        }
        if !args.sum.is_null() {
            let sum = args.sum.add(row * args.sum_stride as usize + from);
            for i in 0..VECTORS {
                if has(i) {
                    T::store(sum.add(i * step), T::unpack(load_shared(own.add(i * THREADS))));
                }
            }
        }
    }
    let (mean, off, rstd);
    // SAFETY: all threads of the cluster execute this. A thread reads only the vectors of shared memory that it has copied or
    // written.
    unsafe {
        if blocks > 1 {
            cluster::wait();
        }
        // The sums of the differences of the thread's elements to the mean, and of their squares.
        let deviations = |mean: f32| {
            (0..VECTORS).fold([0.0; 2], |sums, i| {
                if !has(i) {
                    return sums;
                }
                let x = T::unpack(load_shared(own.add(i * THREADS)));
                let add =
                    |[sum, squares]: [f32; 2], x: f32| [sum + (x - mean), squares + (x - mean) * (x - mean)];
                x.into_iter().fold(sums, add)
            })
        };
        let sums;
        (mean, sums) = match exchange {
            None => {
                let sums_of_row =
                    |i: usize, x| row_sums::<THREADS, 2>(of_warps.cast::<[f32; 2]>().add(32 * i), x);
                let mean = if args.has(CENTRED) {
                    sums_of_row(0, deviations(0.0))[0] * args.per_column
                } else {
                    0.0
                };
                (mean, sums_of_row(1, deviations(mean)))
            }
            Some(exchange) if !args.has(CENTRED) => {
                exchange.send(0, deviations(0.0));
                (0.0, exchange.receive(0))
            }
            Some(exchange) => {
                // A warp sends the mean of its elements, and the squares of the differences to that.
                let elements = |warp: u32| {
                    let (first, threads) = (warp / warps * part, THREADS as u32);
                    let len = part.min(vectors - first.min(vectors));
                    let more = (len % threads).saturating_sub(warp % warps * 32).min(32);
                    (N as u32 * (len / threads * 32 + more)) as f32
                };
                let count = elements(rank * warps + tid as u32 / 32);
                let per_element = if count > 0.0 { 1.0 / count } else { 0.0 };
                let about = lanes_sums::<32, 2>(deviations(0.0))[0] * per_element;
                let [sum, squares] = lanes_sums::<32, 2>(deviations(about));
                exchange.send_of_warp(0, [about + sum * per_element, squares - sum * sum * per_element]);
                let of_warps = exchange.wait(0);
                let [sum, _] = exchange.fold(of_warps, |warp, [of_warp, _]| [elements(warp) * of_warp, 0.0]);
                let mean = sum * args.per_column;
                (
                    mean,
                    exchange.fold(of_warps, |warp, [of_warp, squares]| {
                        let off = elements(warp) * (of_warp - mean);
                        [off, squares + off * (of_warp - mean)]
                    }),
                )
            }
        };
        let variance;
        [off, variance] = correction(sums, args.per_column, args.has(CENTRED));
        rstd = fastmath::rsqrt_approx(variance + args.epsilon);
    }
    // SAFETY: one thread writes the statistics. The others are the thread's vectors, of existing rows and of its shared memory.
    unsafe {
        if tid == 0 && rank == 0 {
            args.store_statistics(row, mean + off, rstd);
        }
        let out = args.out.add(row * args.out_stride as usize + from);
        for i in 0..VECTORS {
            if has(i) {
                let mut y = T::unpack(load_shared(own.add(i * THREADS))).map(|x| (x - mean - off) * rstd);
                if !args.weight.is_null() {
                    let weight =
                        if is_weight_early { early_weight[i] } else { vector(args.weight.add(from), i) };
                    let weight = T::unpack(weight);
                    y = core::array::from_fn(|j| y[j] * weight[j]);
                }
                if !args.bias.is_null() {
                    let bias =
                        T::unpack(if is_bias_early { early_bias[i] } else { vector(args.bias.add(from), i) });
                    y = core::array::from_fn(|j| y[j] + bias[j]);
                }
                T::store(out.add(i * step), y);
            }
        }
    }
}
