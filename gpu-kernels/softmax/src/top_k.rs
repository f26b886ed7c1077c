//! The largest probabilities of each row of a softmax, in one pass over the logits. No softmax is written.
//!
//! A warp takes a row of up to 1024 columns; a block or a cluster takes a wider one. A warp remembers the maxima of its
//! vectors, a block those of each thread's chunks. In both, bisection finds the `k`th largest of some maxima. This is a
//! bound: at least `k` elements reach it, and few more. The elements that reach it are gathered, which reads only the chunks
//! whose maximum reaches the bound again, and one warp sorts them in its registers. If there is no room for all of them, the
//! `k`th of those that found room is a higher bound, for another round. The blocks of a cluster each select from their part,
//! and the first block selects from the results.
//!
//! Elements are compared as logits, by keys that are all different: the larger logit first; of equal ones, that in the
//! smaller column. So rounding never decides what is selected. The result for place `i` of a row is the column of the
//! element, and `exp((x - max) * scale) / sum` or its logarithm.
//!
//! A row with NaN or +inf, or with only -inf, gives NaN in columns 0, 1, 2 and so on, because all places are equal. With the
//! flag [`ZERO_MASKED`] a row with only -inf gives 0, in the same columns. If `k` is more than the columns, the places after
//! the last column have probability 0 and [`NO_COLUMN`]. Every sum has a fixed order.
//!
//! Requires: strides of at least `cols` for the logits, and of at least `k` for the results.
//@ ptx(top_k_f32_32x8): ld.global.v4 >= 8, bar.sync == 0, .local == 0
//@ ptx(top_k_f16_32x4, top_k_bf16_32x4): ld.global.v4 >= 4, bar.sync == 0, .local == 0
//@ ptx(top_k_f32_wide): ld.global.v4 >= 8, bar.sync >= 3, .local == 0
//@ ptx(top_k_f16_wide, top_k_bf16_wide): ld.global.v4 >= 4, bar.sync >= 3, .local == 0
//@ ptx(top_k_f32_cluster, top_k_f16_cluster, top_k_bf16_cluster, compute_90+): mapa >= 1, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::f32x2;

mod args;
pub(super) mod block;
mod elements;
pub(super) mod in_warp;
pub mod key;
pub(super) mod select;
pub(super) mod serial;
mod sort;

pub use args::TopKArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use args::{TopKArgsHost, TopKLaunch};
pub use select::MOST;

use block::{BLOCK, Scratch, rows};
use in_warp::in_warp;
use serial::serial;

#[cfg(not(target_arch = "nvptx64"))]
use super::fit::Fit;
use super::row::begin;
use common_kernels::element::Element;

/// The column of a place that has none.
pub const NO_COLUMN: u32 = u32::MAX;

/// A flag of the kernels: the results are logarithms of probabilities.
pub const LOG: u32 = super::forward::LOG;
/// A flag of the kernels: a row with only -inf gives 0 (its logarithm -inf), not NaN.
pub const ZERO_MASKED: u32 = super::forward::ZERO_MASKED;

/// Writes the `k` largest probabilities of each row of `logits`, and their columns.
///
/// A row belongs to `THREADS` threads: a warp holds a row, `VECTORS` vectors of `N` elements per lane; a block, or one
/// thread, reads a row of any width. Launched with blocks of `BLOCK` threads, enough for `rows`.
///
/// # Safety
/// The launch is as described; a warp that has a row holds it. `logits` is valid for `rows` rows of `cols` elements.
/// `probabilities` and `indices` are valid for `rows` rows of `k`, which no other code uses. `k` is from 1 to [`MOST`].
#[kernel(
    with(BLOCK = max(THREADS, 128)),
    max_threads = BLOCK,
    min_blocks = 1024 / BLOCK,
    args,
    facts: Fit = Fit::of_warps::<N>(BLOCK, THREADS, VECTORS),
    instances(
        T = f32, N = 4 {
            top_k_f32_32x2 = <32, 2>;
            top_k_f32_32x8 = <32, 8>, min_blocks = 7;
            top_k_f32_wide = <256, 8>;
            top_k_f32_serial = <1, 8>, cpu_only = true;
        }
        for T in [f16, bf16], N = 8 {
            top_k_{T}_32x1 = <32, 1>;
            top_k_{T}_32x4 = <32, 4>, min_blocks = 7;
            top_k_{T}_wide = <256, 4>;
            top_k_{T}_serial = <1, 4>, cpu_only = true;
        }
    ),
)]
pub unsafe fn top_k_rows<
    T: Element<N>,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const BLOCK: usize,
>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    #[shared(words(THREADS, BLOCK))] scratch: *mut u64,
    args: TopKArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe {
        match (THREADS, size_of::<T>()) {
            (1, _) => serial(args),
            (32, 4) => in_warp::<T, u64, _, N, BLOCK, VECTORS>(scratch, args),
            (32, _) => in_warp::<T, u32, _, N, BLOCK, VECTORS>(scratch, args),
            _ => rows::<T, _, N, VECTORS, false>(shared, Scratch::new(scratch), args),
        }
    }
}

/// Like [`top_k_rows`](fn@top_k_rows), for rows of any width, with a cluster of up to 16 blocks per row.
///
/// # Safety
/// Same as for [`top_k_rows`](fn@top_k_rows).
#[kernel(
    max_threads = 256,
    min_blocks = 4,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(BLOCK, 0),
    instances(
        top_k_f32_cluster = <f32, 4, 8>;
        top_k_f16_cluster = <f16, 8, 4>;
        top_k_bf16_cluster = <bf16, 8, 4>;
    ),
)]
pub unsafe fn top_k_cluster<T: Element<N>, const N: usize, const VECTORS: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    #[shared(Scratch::words(true))] scratch: *mut u64,
    args: TopKArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe { rows::<T, _, N, VECTORS, true>(shared, Scratch::new(scratch), args) };
}

/// Returns the words of shared memory of a block of `block` threads, where `threads` threads share a row.
pub(super) const fn words(threads: usize, block: usize) -> usize {
    if threads > 32 { Scratch::words(false) } else { in_warp::WORDS * block / 32 }
}
