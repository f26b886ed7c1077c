//! The kernels of [`forward`], by type and width.
//!
//! A thread holds at most about 32 elements, so that 1024 threads of 64 registers fit a multiprocessor. Under this limit a
//! row has as few threads as possible: some lanes of a warp up to 128 elements, a warp up to 1024, and then several warps.
//@ ptx(softmax_f32_16x2): ld.global.v4 == 2, st.global.v4 == 2, bar.sync == 0, shfl.sync.bfly == 8, .shared == 0
//@ ptx(softmax_f32_256x8): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 1, shfl.sync.bfly == 20
//@ ptx(softmax_bf16_32x4, softmax_f16_32x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 0, .shared == 0
//@ ptx(softmax_bf16_256x4, softmax_f16_256x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_bf16_f32_256x4, softmax_f16_f32_256x4): ld.global.v4 == 4, st.global.v4 == 8, bar.sync == 1
//@ ptx(softmax_f32_bf16_64x8, softmax_f32_f16_64x8): ld.global.v4 == 8, st.global.v2 == 8, bar.sync == 1
//@ ptx(softmax_f32_cluster_1024x8, compute_90+): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 1, st.async == 1
//@ ptx(softmax_f32_cluster_256x8, softmax_bf16_cluster_256x4, compute_90+): barrier.cluster.arrive == 1, st.async == 1
//@ ptx(softmax_f32_narrow_4x1): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 8, bar.sync == 0, .shared == 0
//@ ptx(softmax_bf16_narrow_2x1, softmax_f16_narrow_2x1): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 4
//@ ptx(softmax_f32_256x8, softmax_bf16_256x4, compute_90+): cp.async.bulk.prefetch.L2.global == 1
//@ allow-local(softmax_bf16_narrow_4x4, compute_75): one register of 85 too few, a store and a load each row
//@ allow-local(softmax_bf16_narrow_8x3, softmax_bf16_narrow_8x4, compute_75): the same
//@ ptx(softmax_f32_staged, softmax_bf16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1
//@ ptx(softmax_f32_reduce, softmax_bf16_reduce, softmax_f16_reduce): ld.global.v4 >= 2, bar.sync == 1
//@ ptx(softmax_f32_write, softmax_bf16_write, softmax_f16_write): ld.global.v4 >= 2, st.global.v4 >= 2, bar.sync == 1

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::shared::dynamic_shared_mem;

#[cfg(not(target_arch = "nvptx64"))]
use super::fit::Fit;
use super::forward::{self, ForwardArgs};
use super::row::begin;
use super::stage::Exchange;
use super::{forward_narrow, forward_split, forward_staged};
use common_kernels::element::{Element, Output};

/// Computes softmax or log-softmax along the rows of `inp`.
///
/// `THREADS` threads hold a row, `LANES` of each warp, `VECTORS` vectors of `N` elements each; with `CLUSTER` a cluster of
/// 2 to 16 blocks of `BLOCK` threads holds it. Launched with blocks of `BLOCK` threads, or clusters of them, enough for
/// `rows`.
///
/// # Safety
/// The launch is as described; `cols` is at most what the threads of a row hold; both pointers are valid for `rows`
/// rows; no other code uses `out`, which may be `inp` with the same stride.
#[kernel(
    with(BLOCK = max(THREADS, 64), LANES = min(THREADS, 32)),
    max_threads = BLOCK,
    min_blocks = 1024 / BLOCK,
    args,
    facts: Fit = Fit::of::<N>(BLOCK, THREADS, VECTORS, CLUSTER),
    instances(
        I = f32, O = f32, N = 4, CLUSTER = false {
            softmax_f32_8x1 = <8, 1>, min_blocks = 21;
            softmax_f32_8x2 = <8, 2>, min_blocks = 21;
            softmax_f32_16x2 = <16, 2>, min_blocks = 21;
            softmax_f32_32x2 = <32, 2>, min_blocks = 21;
            softmax_f32_32x4 = <32, 4>, min_blocks = 18;
            softmax_f32_32x6 = <32, 6>;
            softmax_f32_64x4 = <64, 4>;
            softmax_f32_64x6 = <64, 6>;
            softmax_f32_64x8 = <64, 8>;
            softmax_f32_128x6 = <128, 6>;
            softmax_f32_128x7 = <128, 7>;
            softmax_f32_256x6 = <256, 6>;
            softmax_f32_256x8 = <256, 8>;
            softmax_f32_320x8 = <320, 8>;
            softmax_f32_512x8 = <512, 8>;
            softmax_f32_1024x6 = <1024, 6>;
            softmax_f32_1024x8 = <1024, 8>;
            softmax_f32_cluster_256x8 = <256, 8>, CLUSTER = true, min_arch = 90;
            softmax_f32_cluster_1024x8 = <1024, 8>, CLUSTER = true, min_arch = 90;
        }
        for I in [f16, bf16], O = I, N = 8, CLUSTER = false {
            softmax_{I}_8x1 = <8, 1>;
            softmax_{I}_8x2 = <8, 2>;
            softmax_{I}_32x1 = <32, 1>;
            softmax_{I}_32x2 = <32, 2>;
            softmax_{I}_32x3 = <32, 3>;
            softmax_{I}_32x4 = <32, 4>;
            softmax_{I}_32x5 = <32, 5>, min_blocks = 13;
            softmax_{I}_32x6 = <32, 6>, min_blocks = 11;
            softmax_{I}_64x4 = <64, 4>;
            softmax_{I}_96x4 = <96, 4>;
            softmax_{I}_128x4 = <128, 4>;
            softmax_{I}_160x4 = <160, 4>;
            softmax_{I}_192x4 = <192, 4>;
            softmax_{I}_256x4 = <256, 4>;
            softmax_{I}_320x4 = <320, 4>;
            softmax_{I}_320x5 = <320, 5>;
            softmax_{I}_512x4 = <512, 4>;
            softmax_{I}_768x4 = <768, 4>;
            softmax_{I}_1024x4 = <1024, 4>;
            softmax_{I}_cluster_256x4 = <256, 4>, CLUSTER = true, min_arch = 90;
            softmax_{I}_cluster_512x4 = <512, 4>, CLUSTER = true, min_arch = 90;
            softmax_{I}_cluster_1024x4 = <1024, 4>, CLUSTER = true, min_arch = 90;
        }
        for O in [f16, bf16], I = f32, N = 4, CLUSTER = false {
            softmax_f32_{O}_8x2 = <8, 2>, min_blocks = 21;
            softmax_f32_{O}_32x2 = <32, 2>, min_blocks = 21;
            softmax_f32_{O}_32x4 = <32, 4>, min_blocks = 18;
            softmax_f32_{O}_64x8 = <64, 8>;
            softmax_f32_{O}_128x8 = <128, 8>;
            softmax_f32_{O}_256x8 = <256, 8>;
            softmax_f32_{O}_512x8 = <512, 8>;
            softmax_f32_{O}_1024x8 = <1024, 8>;
            softmax_f32_{O}_cluster_1024x8 = <1024, 8>, CLUSTER = true, min_arch = 90;
        }
        for I in [f16, bf16], O = f32, N = 8, CLUSTER = false {
            softmax_{I}_f32_8x2 = <8, 2>, min_blocks = 14;
            softmax_{I}_f32_32x2 = <32, 2>, min_blocks = 14;
            softmax_{I}_f32_32x4 = <32, 4>, min_blocks = 14;
            softmax_{I}_f32_64x4 = <64, 4>;
            softmax_{I}_f32_128x4 = <128, 4>;
            softmax_{I}_f32_256x4 = <256, 4>;
            softmax_{I}_f32_512x4 = <512, 4>;
            softmax_{I}_f32_1024x4 = <1024, 4>;
            softmax_{I}_f32_cluster_1024x4 = <1024, 4>, CLUSTER = true, min_arch = 90;
        }
    ),
)]
pub unsafe fn softmax<
    I,
    O,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const CLUSTER: bool,
    const BLOCK: usize,
    const LANES: u32,
>(
    #[shared(BLOCK / 32 + if CLUSTER { Exchange::<f32x2>::LEN } else { 0 })] shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Output<N>,
{
    begin();
    // SAFETY: the kernel's contract; the block has a pair for each of its warps, and memory to exchange pairs.
    unsafe { forward::softmax::<I, O, N, BLOCK, THREADS, LANES, VECTORS, CLUSTER>(shared, args) };
}

/// Like [`softmax`](fn@softmax), for rows that `LANES` lanes hold, `ROWS` at once. Rows of whole vectors are fastest.
///
/// Launched with blocks of `BLOCK` threads, enough for `rows`.
///
/// # Safety
/// Same as for [`softmax`](fn@softmax).
#[kernel(
    with(BLOCK = 256, WIDTH = LANES),
    max_threads = BLOCK,
    min_blocks = 4,
    args,
    facts: Fit = Fit::of::<N>(BLOCK, LANES, VECTORS, false).with_rows(ROWS),
    instances(
        I = f32, O = f32, N = 4 {
            softmax_f32_narrow_4x1 = <4, 1, 2>;
            softmax_f32_narrow_4x2 = <4, 2, 1>;
        }
        for I in [f16, bf16], O = I, N = 8 {
            softmax_{I}_narrow_2x1 = <2, 1, 2>;
            softmax_{I}_narrow_2x2 = <2, 2, 2>;
            softmax_{I}_narrow_4x2 = <4, 2, 2>;
            softmax_{I}_narrow_4x4 = <4, 4, 1>, min_blocks = 3;
            softmax_{I}_narrow_8x3 = <8, 3, 1>;
            softmax_{I}_narrow_8x4 = <8, 4, 1>, min_blocks = 3;
        }
        for O in [f16, bf16], I = f32, N = 4 {
            softmax_f32_{O}_narrow_4x2 = <4, 2, 1>;
        }
        for I in [f16, bf16], O = f32, N = 8 {
            softmax_{I}_f32_narrow_4x2 = <4, 2, 1>;
        }
    ),
)]
pub unsafe fn narrow<
    I,
    O,
    const N: usize,
    const LANES: usize,
    const VECTORS: usize,
    const ROWS: usize,
    const BLOCK: usize,
    const WIDTH: u32,
>(
    args: ForwardArgs<I, O>,
) where
    I: Element<N>,
    O: Output<N>,
{
    begin();
    // SAFETY: the kernel's contract.
    unsafe { forward_narrow::softmax::<I, O, N, BLOCK, LANES, WIDTH, VECTORS, ROWS>(args) };
}

/// Like [`softmax`](fn@softmax), for rows that a block of `BLOCK` threads, or a cluster of up to 16 blocks, holds in shared
/// memory.
///
/// Launched with one block or one cluster per row, and with [`Fit::shared_bytes`] of dynamic shared memory.
///
/// # Safety
/// Same as for [`softmax`](fn@softmax).
#[kernel(
    with(BLOCK = 256),
    max_threads = BLOCK,
    min_blocks = 3,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(BLOCK, 1),
    instances(
        N = 4 {
            softmax_f32_staged = <f32, f32>;
        }
        N = 8 {
            softmax_f16_staged = <f16, f16>;
            softmax_bf16_staged = <bf16, bf16>;
        }
        for O in [f16, bf16], N = 4 {
            softmax_f32_{O}_staged = <f32>;
        }
        for I in [f16, bf16], N = 8 {
            softmax_{I}_f32_staged = <f32>;
        }
    ),
)]
pub unsafe fn staged<I: Element<N>, O: Output<N>, const N: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) {
    begin();
    // SAFETY: the kernel's contract; the block has a pair for each of its warps.
    unsafe { forward_staged::softmax::<I, O, N, BLOCK>(dynamic_shared_mem::<u32x4>(), shared, args) };
}

/// Writes the (max, sum) of each of `parts` parts of each row of `inp` to `pairs`, `[rows, parts]`. The softmax will be of
/// type `O`.
///
/// Launched with `rows * parts` blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as described; `inp` is valid for `rows` rows and `pairs` for its elements, which no other code uses.
#[kernel(
    max_threads = BLOCK,
    min_blocks = 2,
    args,
    facts: Fit = Fit::any_width(BLOCK),
    instances(
        BLOCK = 512 {
            softmax_f32_reduce = <f32, f32, 4, 4>;
        }
        for O in [f16, bf16], I = f32, N = 4, VECTORS = 4, BLOCK = 512 {
            softmax_f32_{O}_reduce = <>;
        }
        for I in [f16, bf16], N = 8, VECTORS = 2, BLOCK = 512 {
            softmax_{I}_reduce = <I>;
        }
        for I in [f16, bf16], N = 8, VECTORS = 2, BLOCK = 512 {
            softmax_{I}_f32_reduce = <f32>;
        }
    ),
)]
pub unsafe fn reduce<
    I: Element<N>,
    O: Output<N>,
    const N: usize,
    const VECTORS: usize,
    const BLOCK: usize,
>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) {
    begin();
    // SAFETY: the kernel's contract; the block has a pair for each of its warps.
    unsafe { forward_split::reduce::<I, O, N, VECTORS, BLOCK>(shared, args) };
}

/// Computes the softmax or log-softmax of each row of `inp` from the `pairs` that [`reduce`](fn@reduce) wrote for its parts.
///
/// Launched with `rows * parts` blocks of `BLOCK` threads.
///
/// # Safety
/// The launch is as described; `out` and `inp` are valid for `rows` rows and `pairs` for its elements; no other code uses
/// `out`, which may be `inp` with the same stride.
#[kernel(
    max_threads = BLOCK,
    min_blocks = 2,
    args,
    facts: Fit = Fit::any_width(BLOCK),
    instances(
        BLOCK = 512 {
            softmax_f32_write = <f32, f32, 4, 4>;
        }
        for O in [f16, bf16], I = f32, N = 4, VECTORS = 4, BLOCK = 512 {
            softmax_f32_{O}_write = <>;
        }
        for I in [f16, bf16], N = 8, VECTORS = 2, BLOCK = 512 {
            softmax_{I}_write = <I>;
        }
        for I in [f16, bf16], N = 8, VECTORS = 2, BLOCK = 512 {
            softmax_{I}_f32_write = <f32>;
        }
    ),
)]
pub unsafe fn write<I: Element<N>, O: Output<N>, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    args: ForwardArgs<I, O>,
) {
    begin();
    // SAFETY: the kernel's contract; the block has a pair for each of its warps.
    unsafe { forward_split::write::<I, O, N, VECTORS, BLOCK>(shared, args) };
}
