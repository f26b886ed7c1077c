//! The largest probabilities of each row of a softmax, in one pass over the logits: no softmax is written.
//!
//! A row of up to 1024 columns is a warp's, a wider one a block's or a cluster's. A warp remembers the maxima of its vectors, a block those
//! of each thread's chunks. In both, the `k`th largest of some maxima, found by bisection, is a bound: at least `k` elements reach it, and few
//! more. These are gathered, which takes another look at the chunks whose maximum reaches the bound alone, and sorted by one
//! warp in its registers. Where more elements reach the bound than there is room for, the `k`th of those that found room is a higher one, for
//! another round. Blocks of a cluster select from their parts so, and the first one from what they have found.
//!
//! Elements are compared as logits, by keys that are all different: the larger logit first, of equal ones the one in the
//! smaller column. So no rounding decides what is selected. What comes out for place `i` of a row is the column of the element,
//! and `exp((x - max) * scale) / sum` or its logarithm.
//!
//! A row with NaN or +inf, or of -inf only, gives NaN, whose places are all equal: columns 0, 1, 2 and so on. With the flag
//! [`ZERO_MASKED`] one of -inf only gives 0, in the same columns. Where `k` is more than the columns, the places after the last one
//! have probability 0 and [`NO_COLUMN`]. Every sum has a fixed order.
//!
//! Requires: strides of at least `cols`, and of `k` for what is written.
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
use super::operation::Fit;
use crate::element::Element;

/// What stands for a column where there is none.
pub const NO_COLUMN: u32 = u32::MAX;

/// A flag of the kernels: the logarithms of the probabilities.
pub const LOG: u32 = super::forward::LOG;
/// A flag of the kernels: a row of nothing but -inf gives 0 (its logarithm -inf), not NaN.
pub const ZERO_MASKED: u32 = super::forward::ZERO_MASKED;

/// The `k` largest probabilities of each row of `logits`, and their columns.
///
/// `THREADS` threads have a row: a warp one that it holds, `VECTORS` vectors of `N` elements a lane; a block one of any width; one
/// thread, too. Launched on blocks of `BLOCK` threads, enough of them for `rows`.
///
/// # Safety
/// The launch is as described; `cols` is at most what a warp holds, where a warp has a row. `logits` is valid for `rows`
/// rows of `cols` elements; `probabilities` and `indices` for as many of `k`, which no other code uses; `k` is from 1 to
/// [`MOST`].
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

/// As [`top_k_rows`](fn@top_k_rows), of rows of any width that a cluster of up to 16 blocks has.
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
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe { rows::<T, _, N, VECTORS, true>(shared, Scratch::new(scratch), args) };
}

/// Words of shared memory of a block of `block` threads, where `threads` threads share a row.
pub(super) const fn words(threads: usize, block: usize) -> usize {
    if threads > 32 { Scratch::words(false) } else { in_warp::WORDS * block / 32 }
}
