//! Cross entropy of softmax along rows: loss, log-sum-exp, correctness and gradient in one pass over the logits.
//!
//! One thread holds a row of up to 16 columns; 8 lanes up to 32 warps hold a longer one. They read it once and keep its
//! exponentials in registers, as the softmax does. A block or a cluster holds a wider row in shared memory, or a block reads
//! it a second time for the gradient.
//!
//! The results for a row with maximum `max` and with `sum`, the sum of `exp(x - max)`:
//! - `loss = ln(sum) - (x[target] - max)`, which stays accurate for large logits;
//! - `lse = max + ln(sum)`;
//! - `correct`: 1 if the target's logit is the largest, the first of equal ones, and the loss is not NaN; otherwise 0;
//! - `d_logits = (exp(x - max) / sum - one_hot(target)) * d_scale * d_loss[row]`.
//!
//! All results except the loss may be omitted, by a null pointer. [`CrossEntropyArgs`] documents the targets. A row with NaN
//! or +inf, or with only -inf, gives NaN. A target of -inf among finite logits has the loss +inf. Every sum has a fixed
//! order.
//!
//! Requires: strides of at least `cols`. `d_logits` does not overlap `logits`, or is `logits` with the same stride.
//@ ptx(cross_entropy_f32_1x16, cross_entropy_f16_1x16): ex2.approx == 16, bar == 0, shfl == 0, .shared == 0
//@ ptx(cross_entropy_bf16_1x16): ex2.approx == 16, bar == 0, shfl == 0, .shared == 0
//@ ptx(cross_entropy_f32_8x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 9, bar == 0
//@ ptx(cross_entropy_f16_8x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 9, bar == 0
//@ ptx(cross_entropy_bf16_8x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 9, bar == 0
//@ ptx(cross_entropy_f16_16x2, cross_entropy_bf16_16x2): ld.global.v4 == 2, shfl.sync.bfly == 12, bar == 0
//@ ptx(cross_entropy_f32_32x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_f16_32x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_bf16_32x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_f32_32x4): ld.global.v4 == 4, st.global.v4 == 4, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_f16_32x4): ld.global.v4 == 4, st.global.v4 == 4, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_bf16_32x4): ld.global.v4 == 4, st.global.v4 == 4, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_f32_32x8): ld.global.v4 == 8, st.global.v4 == 8, shfl.sync.bfly == 15, bar == 0
//@ ptx(cross_entropy_f32_64x8, cross_entropy_f32_128x8): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 2
//@ ptx(cross_entropy_f32_256x8): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 2
//@ ptx(cross_entropy_f32_512x8, cross_entropy_f32_1024x8): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 2
//@ ptx(cross_entropy_f16_64x4, cross_entropy_f16_128x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 2
//@ ptx(cross_entropy_f16_256x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 2
//@ ptx(cross_entropy_f16_512x4, cross_entropy_f16_1024x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 2
//@ ptx(cross_entropy_bf16_64x4, cross_entropy_bf16_128x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 2
//@ ptx(cross_entropy_bf16_256x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 2
//@ ptx(cross_entropy_bf16_512x4, cross_entropy_bf16_1024x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 2
//@ ptx(cross_entropy_f32_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1
//@ ptx(cross_entropy_f16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1
//@ ptx(cross_entropy_bf16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1
//@ ptx(cross_entropy_f32_wide): ld.global.v4 >= 8, st.global.v4 >= 4, bar.sync == 2
//@ ptx(cross_entropy_f16_wide, cross_entropy_bf16_wide): ld.global.v4 >= 8, st.global.v4 >= 4, bar.sync == 2

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::shared::dynamic_shared_mem;

mod args;
mod first_max;
mod in_registers;
mod in_shared;
mod narrow;
#[cfg(not(target_arch = "nvptx64"))]
mod operation;
mod serial;
mod sharded;
mod wide;

pub use args::CrossEntropyArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use args::{CrossEntropyArgsHost, CrossEntropyLaunch};
#[cfg(not(target_arch = "nvptx64"))]
pub use operation::{CrossEntropyKernels, ShardKernels};
pub use sharded::{
    FACTORS, NUMBERS, ShardGradientArgs, ShardPartArgs, cross_entropy_combine, cross_entropy_gradient,
    cross_entropy_part,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use sharded::{ShardGradientArgsHost, ShardGradientLaunch, ShardPartArgsHost, ShardPartLaunch};

use in_registers::in_registers;
use in_shared::in_shared;
use narrow::narrow;
use serial::serial;
use wide::wide;

#[cfg(not(target_arch = "nvptx64"))]
use super::fit::Fit;
use super::row::begin;
use common_kernels::element::Element;

/// A value of a kernel's `target_bytes`: the targets are `i64`.
pub const I64: u32 = 8;
/// A value of a kernel's `target_bytes`: the targets are `i32`, or `u32` below 2^31.
pub const I32: u32 = 4;
/// A value of a kernel's `target_bytes`: the targets are `u8`.
pub const U8: u32 = 1;

/// Computes the cross entropy of the rows of `logits`.
///
/// `THREADS` threads hold a row, `LANES` of each warp, `VECTORS` vectors of `N` elements each. With `WIDE` rows may have any
/// width: a block reads `VECTORS` vectors at a time, or one thread reads all. Launched with blocks of `BLOCK` threads,
/// enough for `rows`.
///
/// # Safety
/// The launch is as described; `cols` is at most what the threads of a row hold. `loss`, `lse`, `correct`, `targets` and
/// `d_loss` have an element for each row; `lse`, `correct`, `d_logits` and `d_loss` may be null. `logits` and `d_logits` are
/// valid for `rows` rows. No other code uses what is written; `d_logits` may be `logits` with the same stride.
#[kernel(
    with(BLOCK = max(THREADS, 64), LANES = min(THREADS, 32)),
    max_threads = BLOCK,
    min_blocks = 1024 / BLOCK,
    args,
    facts: Fit = Fit::of_any::<N>(BLOCK, THREADS, VECTORS, WIDE),
    instances(
        T = f32, N = 4, WIDE = false {
            cross_entropy_f32_1x16 = <1, 4>, min_blocks = 20;
            cross_entropy_f32_8x2 = <8, 2>, min_blocks = 18;
            cross_entropy_f32_32x2 = <32, 2>, min_blocks = 21;
            cross_entropy_f32_32x4 = <32, 4>, min_blocks = 18;
            cross_entropy_f32_32x8 = <32, 8>, min_blocks = 14;
            cross_entropy_f32_64x8 = <64, 8>;
            cross_entropy_f32_128x8 = <128, 8>;
            cross_entropy_f32_256x8 = <256, 8>;
            cross_entropy_f32_512x8 = <512, 8>;
            cross_entropy_f32_1024x8 = <1024, 8>;
            cross_entropy_f32_wide = <512, 4>, WIDE = true;
            cross_entropy_f32_serial = <1, 1>, WIDE = true, cpu_only = true;
        }
        for T in [f16, bf16], N = 8, WIDE = false {
            cross_entropy_{T}_1x16 = <1, 2>, min_blocks = 20;
            cross_entropy_{T}_8x2 = <8, 2>, min_blocks = 18;
            cross_entropy_{T}_16x2 = <16, 2>, min_blocks = 14;
            cross_entropy_{T}_32x2 = <32, 2>, min_blocks = 18;
            cross_entropy_{T}_32x4 = <32, 4>;
            cross_entropy_{T}_64x4 = <64, 4>;
            cross_entropy_{T}_128x4 = <128, 4>;
            cross_entropy_{T}_256x4 = <256, 4>;
            cross_entropy_{T}_512x4 = <512, 4>;
            cross_entropy_{T}_1024x4 = <1024, 4>;
            cross_entropy_{T}_wide = <512, 4>, WIDE = true;
            cross_entropy_{T}_serial = <1, 1>, WIDE = true, cpu_only = true;
        }
    ),
)]
pub unsafe fn cross_entropy_rows<
    T: Element<N>,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const WIDE: bool,
    const BLOCK: usize,
    const LANES: u32,
>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    #[shared(BLOCK / 32)] first_shared: *mut u32,
    args: CrossEntropyArgs<T>,
) {
    begin();
    let body: unsafe fn(*mut f32x2, *mut u32, CrossEntropyArgs<T>) = const {
        match (THREADS, WIDE) {
            (1, false) => narrow::<T, BLOCK>,
            (1, true) => serial::<T>,
            (_, true) => wide::<T, N, BLOCK, VECTORS>,
            (_, false) => in_registers::<T, N, BLOCK, THREADS, LANES, VECTORS>,
        }
    };
    // SAFETY: the kernel's contract; each warp of the block has an element of both arrays.
    unsafe { body(shared, first_shared, args) };
}

/// Like [`cross_entropy_rows`](fn@cross_entropy_rows), for rows that a block of `BLOCK` threads, or a cluster of up to 16
/// blocks, holds in shared memory.
///
/// Launched with one block or one cluster per row, and with [`Fit::shared_bytes`] of dynamic shared memory.
///
/// # Safety
/// Same as for [`cross_entropy_rows`](fn@cross_entropy_rows).
#[kernel(
    with(BLOCK = 256),
    max_threads = BLOCK,
    min_blocks = 3,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(BLOCK, 1),
    instances(
        cross_entropy_f32_staged = <f32, 4>;
        cross_entropy_f16_staged = <f16, 8>;
        cross_entropy_bf16_staged = <bf16, 8>;
    ),
)]
pub unsafe fn cross_entropy_staged<T: Element<N>, const N: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    #[shared(BLOCK / 32)] first_shared: *mut u32,
    args: CrossEntropyArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has an element of both arrays.
    unsafe { in_shared::<T, N, BLOCK>(dynamic_shared_mem::<u32x4>(), shared, first_shared, args) };
}
