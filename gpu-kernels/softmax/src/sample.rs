//! A token per row, sampled from the softmax of its logits at a temperature, after cuts to the most probable tokens.
//!
//! A draw reads the logits once, and computes two random numbers for every 1024 columns ([`Noise`]). It has two steps:
//!
//! 1. Choose a chunk of 1024 columns: the one with the largest `ln(sum of its exponentials) + noise` (Gumbel-max: Gumbel,
//!    "Statistical theory of extreme values", 1954). So a warp keeps only the sum of a chunk that it has read, and rounding
//!    can exchange only chunks that are nearly equal.
//! 2. Choose a token of the chunk by inverse transform sampling: the last column for which the sum of the columns before it
//!    in the chunk is at most a uniform number times the chunk's sum.
//!
//! Both are defined by columns, so the token does not depend on the kernel, unless two compared numbers are equal up to the
//! rounding of `f32`. The frequency of a token with less than 2^-24 of its chunk's sum depends on rounding.
//!
//! - Without noise (flag [`GREEDY`]) the token is the largest logit; of equal ones, that in the smaller column.
//! - `top_k` keeps the `k` largest logits, in the order of [`top_k`](super::top_k), and no more if some are equal. One of
//!   them is drawn by inverse transform sampling over their places.
//! - `top_p` below 1 then keeps a logit if its predecessors in that order sum to less than `top_p` of the probability of all
//!   that are left; so it keeps at least the first.
//!
//! Without `top_k`, `top_p` needs no sort. The token drawn from all logits is right if the larger logits sum to less than
//! `top_p`. If not, `top_p` cuts it and all smaller ones, and the next round draws from the larger ones. This is rejection
//! sampling, so the distribution is exact. One pass sums the larger ones and draws from them.
//!
//! The log-probability of the token is its value in `log_softmax(logits * scale)`, before the cuts. A row with NaN or +inf,
//! or with only -inf, gives [`NO_TOKEN`] and NaN.
//!
//! A warp has a row of up to a chunk; a block or a cluster has a wider one.
//! Requires: a stride of at least `cols`.
//@ ptx(sample_f32_32x8): ld.global.v4 >= 8, bar == 0, .shared == 0, .local == 0
//@ ptx(sample_f16_32x4, sample_bf16_32x4): ld.global.v4 >= 4, bar == 0, .shared == 0, .local == 0
//@ ptx(sample_f32_wide): ld.global.v4 >= 8, bar.sync >= 1, .local == 0
//@ ptx(sample_f16_wide, sample_bf16_wide): ld.global.v4 >= 4, bar.sync >= 1, .local == 0
//@ ptx(sample_f32_cluster, sample_f16_cluster, sample_bf16_cluster, compute_90+): mapa >= 1, .local == 0
//@ ptx(sample_top_k_f32_wide, sample_top_k_f16_wide, sample_top_k_bf16_wide): bar.sync >= 3, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::{f32x2, u32x4};

mod args;
mod in_chunk;
mod narrow;
pub mod noise;
#[cfg(not(target_arch = "nvptx64"))]
mod operation;
mod selected;
mod serial;
mod wide;

pub use args::SampleArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use args::{SampleArgsHost, SampleLaunch};
pub use noise::Noise;
#[cfg(not(target_arch = "nvptx64"))]
pub use operation::SamplingKernels;

use narrow::narrow;
use serial::serial;
use wide::{quads, wide};

#[cfg(not(target_arch = "nvptx64"))]
use super::fit::Fit;
use super::row::begin;
use super::top_k::block::{self, Scratch};
use super::top_k::in_warp::in_warp;
use super::top_k::words;
use common_kernels::element::Element;

/// The token of a row that has none.
pub const NO_TOKEN: u32 = u32::MAX;

/// A flag of the kernels: no noise.
pub const GREEDY: u32 = 1;

/// Samples a token of each row of `logits`, without `top_k`.
///
/// A row belongs to `THREADS` threads: a warp holds a row, `VECTORS` vectors of `N` elements per lane; a block, or one
/// thread, reads a row of any width. Launched with blocks of `BLOCK` threads, enough for `rows`.
///
/// # Safety
/// The launch is as described; `logits` is valid for `rows` rows of `cols` elements, at least one. `tokens` and, if not
/// null, `log_probabilities` have an element for each row, which no other code uses. `top_k` is at most
/// [`MOST`](super::top_k::MOST) with one thread per row, and otherwise 0.
#[kernel(
    with(BLOCK = max(THREADS, 64)),
    max_threads = BLOCK,
    min_blocks = 1024 / BLOCK,
    args,
    facts: Fit = Fit::of_warps::<N>(BLOCK, THREADS, VECTORS),
    instances(
        T = f32, N = 4 {
            sample_f32_32x2 = <32, 2>;
            sample_f32_32x8 = <32, 8>, min_blocks = 12;
            sample_f32_64x8 = <64, 8>, min_blocks = 10;
            sample_f32_wide = <128, 8>, min_blocks = 5;
            sample_f32_serial = <1, 8>, cpu_only = true;
        }
        for T in [f16, bf16], N = 8 {
            sample_{T}_32x1 = <32, 1>, min_blocks = 14;
            sample_{T}_32x4 = <32, 4>, min_blocks = 12;
            sample_{T}_64x4 = <64, 4>, min_blocks = 12;
            sample_{T}_wide = <128, 4>, min_blocks = 6;
            sample_{T}_serial = <1, 4>, cpu_only = true;
        }
    ),
)]
pub unsafe fn sample_rows<
    T: Element<N>,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
>(
    #[shared(if THREADS > 32 { quads::<BLOCK>() } else { 1 })] shared: *mut u32x4,
    args: SampleArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; the shared memory has what `wide` needs.
    unsafe {
        match THREADS {
            1 => serial(args),
            32 => narrow::<T, N, BLOCK, VECTORS>(args),
            _ => wide::<T, N, BLOCK, VECTORS, false>(shared, args),
        }
    }
}

/// Like [`sample_rows`](fn@sample_rows), for rows of any width, with a cluster of up to 16 blocks of `BLOCK` threads per
/// row.
///
/// # Safety
/// Same as for [`sample_rows`](fn@sample_rows).
#[kernel(
    with(BLOCK = 128),
    max_threads = BLOCK,
    min_blocks = 5,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(BLOCK, 0),
    instances(
        sample_f32_cluster = <f32, 4, 8>;
        sample_f16_cluster = <f16, 8, 4>;
        sample_bf16_cluster = <bf16, 8, 4>;
    ),
)]
pub unsafe fn sample_cluster<T: Element<N>, const N: usize, const VECTORS: usize, const BLOCK: usize>(
    #[shared(quads::<BLOCK>())] shared: *mut u32x4,
    args: SampleArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; the shared memory has what `wide` needs.
    unsafe { wide::<T, N, BLOCK, VECTORS, true>(shared, args) };
}

/// Samples a token of each row of `logits`, with `top_k`.
///
/// Launched like [`sample_rows`](fn@sample_rows).
///
/// # Safety
/// Same as for [`sample_rows`](fn@sample_rows), except that `top_k` is from 1 to [`MOST`](super::top_k::MOST).
#[kernel(
    with(BLOCK = max(THREADS, 128)),
    max_threads = BLOCK,
    min_blocks = 1024 / BLOCK,
    args,
    facts: Fit = Fit::of_warps::<N>(BLOCK, THREADS, VECTORS),
    instances(
        T = f32, N = 4 {
            sample_top_k_f32_32x8 = <32, 8>, min_blocks = 6;
            sample_top_k_f32_wide = <256, 8>;
            sample_top_k_f32_serial = <1, 8>, cpu_only = true;
        }
        for T in [f16, bf16], N = 8 {
            sample_top_k_{T}_32x4 = <32, 4>, min_blocks = 6;
            sample_top_k_{T}_wide = <256, 4>;
            sample_top_k_{T}_serial = <1, 4>, cpu_only = true;
        }
    ),
)]
pub unsafe fn sample_top_k_rows<
    T: Element<N>,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    #[shared(words(THREADS, BLOCK))] scratch: *mut u64,
    args: SampleArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe {
        match (THREADS, size_of::<T>()) {
            (1, _) => serial(args),
            (32, 4) => in_warp::<T, u64, _, N, BLOCK, VECTORS>(scratch, args),
            (32, _) => in_warp::<T, u32, _, N, BLOCK, VECTORS>(scratch, args),
            _ => block::rows::<T, _, N, VECTORS, false>(shared, Scratch::new(scratch), args),
        }
    }
}

/// Like [`sample_top_k_rows`](fn@sample_top_k_rows), for rows of any width, with a cluster of up to 16 blocks per row.
///
/// # Safety
/// Same as for [`sample_top_k_rows`](fn@sample_top_k_rows).
#[kernel(
    max_threads = 256,
    min_blocks = 4,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(block::BLOCK, 0),
    instances(
        sample_top_k_f32_cluster = <f32, 4, 8>;
        sample_top_k_f16_cluster = <f16, 8, 4>;
        sample_top_k_bf16_cluster = <bf16, 8, 4>;
    ),
)]
pub unsafe fn sample_top_k_cluster<T: Element<N>, const N: usize, const VECTORS: usize>(
    #[shared(block::BLOCK / 32)] shared: *mut f32x2,
    #[shared(Scratch::words(true))] scratch: *mut u64,
    args: SampleArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe { block::rows::<T, _, N, VECTORS, true>(shared, Scratch::new(scratch), args) };
}
