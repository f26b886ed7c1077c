//! A token a row, drawn from the softmax of its logits by a temperature, after cuts to the most probable ones.
//!
//! The token is that of the largest `(x - max) * scale + noise` of those that the cuts leave (Gumbel-max: Gumbel, "Statistical theory of
//! extreme values", 1954), with a noise for each row, draw and column ([`Noise`]). So a token is drawn by comparisons, whatever
//! the order of a sum, the noise of a token is the same with every cut, and nearly equal candidates are the only ones
//! that rounding can exchange. An inverse of cumulative sums would need these in the order of the columns, and between two
//! tokens every rounding of all sums before them would count.
//!
//! - Without noise (flag [`GREEDY`]) the largest logit is taken, of equal ones the one in the smaller column.
//! - With `top_k` the `k` largest logits are left, by the order of [`top_k`](super::top_k), and no more where some are equal.
//! - With `top_p` below 1 of these, in that order, each is left before which the others sum up to less than `top_p` of all of their
//!   probabilities; so at least the first.
//!
//! With `top_k` the row's largest elements are selected first. Without it nothing is sorted for `top_p` either: the winner of all
//! tokens is right if those with larger logits sum up to less than `top_p`; if not, all tokens that it is not smaller than are
//! outside of the cut, and the winner of the others is next. One pass sums up and finds that.
//!
//! The log-probability of the token is that in `softmax(logits * scale)`, before the cuts. A row with NaN or +inf, or of -inf only, gives
//! [`NO_TOKEN`] and NaN.
//!
//! The block of a row of any width has 512 threads, of about 100 registers each, which leaves room for one block a multiprocessor: 64
//! registers, for two, would spill. Requires: a stride of at least `cols`.
//@ ptx(sample_f32_wide): ld.global.v4 >= 4, bar.sync >= 5, .local == 0
//@ ptx(sample_f16_wide, sample_bf16_wide): ld.global.v4 >= 2, bar.sync >= 5, .local == 0
//@ ptx(sample_f32_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, mapa >= 1, .local == 0
//@ ptx(sample_f16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, mapa >= 1, .local == 0
//@ ptx(sample_bf16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 1, mapa >= 1, .local == 0

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::{f32x2, u32x4};
use cuda_std::shared::dynamic_shared_mem;

mod args;
mod draw;
pub mod noise;
mod serial;

pub use args::SampleArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use args::{SampleArgsHost, SampleLaunch};
pub use noise::Noise;

use draw::{in_shared, quads, wide};
use serial::serial;

#[cfg(not(target_arch = "nvptx64"))]
use super::operation::Fit;
use super::top_k::select::Scratch;
use crate::element::Element;

/// What stands for a token where there is none.
pub const NO_TOKEN: u32 = u32::MAX;

/// A flag of the kernels: without noise.
pub const GREEDY: u32 = 1;

/// A token of each row of `logits`.
///
/// A block of `BLOCK` threads has a row of any width, and reads `VECTORS` vectors of `N` elements at a time; with `VECTORS` 0 a
/// thread has it. Launched on blocks of `BLOCK` threads, enough of them for `rows`.
///
/// # Safety
/// The launch is as said; `logits` is valid for `rows` rows of `cols` elements, and has some; `tokens` and, if not null,
/// `log_probabilities` have an element for each row, which nobody else uses; `top_k` is at most
/// [`MOST`](super::top_k::MOST).
#[kernel(
    max_threads = BLOCK,
    args,
    facts: Fit = Fit::of_any::<N>(BLOCK, if VECTORS == 0 { 1 } else { BLOCK }, VECTORS, true),
    instances(
        N = 4 {
            sample_f32_wide = <f32, 512, 4>, min_blocks = 1;
            sample_f32_serial = <f32, 8, 0>, cpu_only = true;
        }
        for T in [f16, bf16], N = 8 {
            sample_{T}_wide = <512, 2>, min_blocks = 1;
            sample_{T}_serial = <8, 0>, cpu_only = true;
        }
    ),
)]
pub unsafe fn sample_rows<T: Element<N>, const N: usize, const BLOCK: usize, const VECTORS: usize>(
    #[shared(BLOCK.div_ceil(32))] shared: *mut f32x2,
    #[shared(quads::<BLOCK>())] team: *mut u32x4,
    #[shared(Scratch::words::<BLOCK>())] scratch: *mut u64,
    args: SampleArgs<T>,
) {
    // SAFETY: the kernel's contract; each warp of the block has a pair, and the block its scratch.
    unsafe {
        if VECTORS == 0 {
            serial(args);
        } else {
            wide::<T, N, BLOCK, VECTORS>(shared, team, Scratch::new::<BLOCK>(scratch), args);
        }
    }
}

/// As [`sample_rows`](fn@sample_rows), of rows that a block of `BLOCK` threads, or a cluster of up to 16, holds in shared memory.
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
        sample_f32_staged = <f32, 4>;
        sample_f16_staged = <f16, 8>;
        sample_bf16_staged = <bf16, 8>;
    ),
)]
pub unsafe fn sample_staged<T: Element<N>, const N: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32x2,
    #[shared(quads::<BLOCK>())] team: *mut u32x4,
    args: SampleArgs<T>,
) {
    // SAFETY: the kernel's contract; each warp of the block has a pair.
    unsafe { in_shared::<T, N, BLOCK>(dynamic_shared_mem::<u32x4>(), shared, team, args) };
}
