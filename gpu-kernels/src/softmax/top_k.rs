//! The largest probabilities of each row of a softmax, in one pass over the logits: no softmax is written.
//!
//! A row is a block's, which reads it twice, or a cluster's, which holds it in shared memory. Its threads each find their (max,
//! sum) and their largest element. Of these, one a thread, the `k`th is a bound below which none of the row's `k` largest
//! can be, and few of the others are above it; those that reach it are ordered by counting, for each, how many are larger. Blocks of a
//! cluster select from their parts so, and the first one from what they have found.
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
//@ ptx(top_k_f32_wide): ld.global.v4 >= 4, bar.sync >= 5, .local == 0
//@ ptx(top_k_f16_wide, top_k_bf16_wide): ld.global.v4 >= 2, bar.sync >= 5, .local == 0
//@ ptx(top_k_f32_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1, mapa >= 1
//@ ptx(top_k_f16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1, mapa >= 1
//@ ptx(top_k_bf16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, st.async >= 1, mapa >= 1

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::shared::dynamic_shared_mem;

mod args;
pub(super) mod elements;
pub(super) mod key;
pub(super) mod select;
pub(super) mod serial;
pub(super) mod team;

pub use args::TopKArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use args::{TopKArgsHost, TopKLaunch};
pub use select::MOST;

use args::{in_shared, wide};
use select::Scratch;
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
/// A block of `BLOCK` threads has a row of any width, and reads `VECTORS` vectors of `N` elements at a time; with `VECTORS` 0 a
/// thread has it. Launched on blocks of `BLOCK` threads, enough of them for `rows`.
///
/// # Safety
/// The launch is as said; `logits` is valid for `rows` rows of `cols` elements; `probabilities` and `indices` for as many of
/// `k`, which nobody else uses; `k` is from 1 to [`MOST`].
#[kernel(
    max_threads = BLOCK,
    args,
    facts: Fit = Fit::of_any::<N>(BLOCK, if VECTORS == 0 { 1 } else { BLOCK }, VECTORS, true),
    instances(
        N = 4 {
            top_k_f32_wide = <f32, 512, 4>, min_blocks = 2;
            top_k_f32_serial = <f32, 8, 0>, cpu_only = true;
        }
        for T in [f16, bf16], N = 8 {
            top_k_{T}_wide = <512, 2>, min_blocks = 2;
            top_k_{T}_serial = <8, 0>, cpu_only = true;
        }
    ),
)]
pub unsafe fn top_k_rows<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    #[shared(BLOCK.div_ceil(32))] shared: *mut f32x2,
    #[shared(Scratch::words::<BLOCK>())] scratch: *mut u64,
    args: TopKArgs<T>,
) {
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe {
        if VECTORS == 0 {
            serial(args);
        } else {
            wide::<T, N, BLOCK, VECTORS>(shared, Scratch::new::<BLOCK>(scratch), args);
        }
    }
}

/// As [`top_k_rows`](fn@top_k_rows), of rows that a block of `BLOCK` threads, or a cluster of up to 16, holds in shared memory.
///
/// Launched on a block for each row, or a cluster of them, with [`Fit::shared_bytes`] of dynamic shared memory.
///
/// # Safety
/// As there.
#[kernel(
    with(BLOCK = 256),
    max_threads = BLOCK,
    min_blocks = 2,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(BLOCK, 1).with_scratch(Scratch::bytes_of_cluster::<BLOCK>()),
    instances(
        top_k_f32_staged = <f32, 4>;
        top_k_f16_staged = <f16, 8>;
        top_k_bf16_staged = <bf16, 8>;
    ),
)]
pub unsafe fn top_k_staged<T: Element<N>, const N: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    args: TopKArgs<T>,
) {
    // SAFETY: the kernel's contract; each warp of the block has a pair.
    unsafe { in_shared::<T, N, BLOCK>(dynamic_shared_mem::<u32x4>(), shared, args) };
}
