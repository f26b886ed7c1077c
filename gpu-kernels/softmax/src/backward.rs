//! The backward pass of softmax and of log-softmax along rows.
//!
//! Computes `dx`, the gradient of the logits, from the result `y` and its gradient `dy`:
//! - softmax: `dx = y * (dy - sum(dy * y)) * scale`;
//! - log-softmax (flag [`LOG`]): `dx = (dy - exp(y) * sum(dy)) * scale`.
//!
//! `scale` is the factor of the forward pass. 8 lanes up to 32 warps hold a row in registers, unconverted. They read both
//! matrices once, and exchange one sum per warp after one barrier. If the row is too wide for that, a block or a cluster
//! holds it in shared memory, or a block reads it twice. `dx` may be `dy` or `y`. Sums have a fixed order. NaN and
//! infinities follow from the formula; a logarithm of -inf has probability 0.
//!
//! Requires: a block of the kernel's threads; strides of at least `cols`.
//@ ptx(softmax_backward_f32_8x2): ld.global.v4 == 4, st.global.v4 == 2, shfl.sync.bfly == 3, bar == 0
//@ ptx(softmax_backward_f16_8x2): ld.global.v4 == 4, st.global.v4 == 2, shfl.sync.bfly == 3, bar == 0
//@ ptx(softmax_backward_bf16_8x2): ld.global.v4 == 4, st.global.v4 == 2, shfl.sync.bfly == 3, bar == 0
//@ ptx(softmax_backward_f32_32x2): ld.global.v4 == 4, st.global.v4 == 2, shfl.sync.bfly == 5, bar == 0
//@ ptx(softmax_backward_f16_32x2): ld.global.v4 == 4, st.global.v4 == 2, shfl.sync.bfly == 5, bar == 0
//@ ptx(softmax_backward_bf16_32x2): ld.global.v4 == 4, st.global.v4 == 2, shfl.sync.bfly == 5, bar == 0
//@ ptx(softmax_backward_f32_32x4): ld.global.v4 == 8, st.global.v4 == 4, shfl.sync.bfly == 5, bar == 0
//@ ptx(softmax_backward_f16_32x4): ld.global.v4 == 8, st.global.v4 == 4, shfl.sync.bfly == 5, bar == 0
//@ ptx(softmax_backward_bf16_32x4): ld.global.v4 == 8, st.global.v4 == 4, shfl.sync.bfly == 5, bar == 0
//@ ptx(softmax_backward_f32_64x4, softmax_backward_f32_128x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_f32_256x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_f32_512x4, softmax_backward_f32_1024x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_f16_64x4, softmax_backward_f16_128x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_f16_256x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_f16_512x4, softmax_backward_f16_1024x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_bf16_64x4, softmax_backward_bf16_128x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_bf16_256x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_bf16_512x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_bf16_1024x4): ld.global.v4 == 8, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_backward_f32_wide): ld.global.v4 >= 16, st.global.v4 >= 4, bar.sync == 1
//@ ptx(softmax_backward_f16_wide, softmax_backward_bf16_wide): ld.global.v4 >= 8, st.global.v4 >= 2, bar.sync == 1
//@ ptx(softmax_backward_f32_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 2, st.async >= 1
//@ ptx(softmax_backward_f16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 2, st.async >= 1
//@ ptx(softmax_backward_bf16_staged, compute_90+): cp.async.bulk.shared::cluster.global >= 2, st.async >= 1

use cuda_std::half::{bf16, f16};
use cuda_std::kernel;
use cuda_std::mem::u32x4;
use cuda_std::shared::dynamic_shared_mem;

mod in_shared;
mod rows;
mod serial;

pub use rows::BackwardArgs;
#[cfg(not(target_arch = "nvptx64"))]
pub use rows::BackwardArgsHost;

use rows::{in_registers, wide};
use serial::serial;

#[cfg(not(target_arch = "nvptx64"))]
use super::fit::Fit;
use super::row::begin;
use common_kernels::element::Element;

/// A flag of the kernels: `y` is the logarithm of the softmax.
pub const LOG: u32 = 1;

/// Computes the gradient of the logits of softmax or log-softmax, along rows.
///
/// `THREADS` threads hold a row, `LANES` of each warp, `VECTORS` vectors of `N` elements of both matrices each. With `WIDE`
/// rows may have any width: a block reads `VECTORS` vectors at a time, or one thread reads all. Launched with blocks of
/// `BLOCK` threads, enough for `rows`.
///
/// # Safety
/// The launch is as described; `cols` is at most what the threads of a row hold; all pointers are valid for `rows`
/// rows; no other code uses `dx`, which may be `dy` or `y` with the same stride.
#[kernel(
    with(BLOCK = max(THREADS, 64), LANES = min(THREADS, 32)),
    max_threads = BLOCK,
    min_blocks = 1024 / BLOCK,
    args,
    facts: Fit = Fit::of_any::<N>(BLOCK, THREADS, VECTORS, WIDE),
    instances(
        T = f32, N = 4, WIDE = false {
            softmax_backward_f32_8x2 = <8, 2>;
            softmax_backward_f32_32x2 = <32, 2>;
            softmax_backward_f32_32x4 = <32, 4>;
            softmax_backward_f32_64x4 = <64, 4>;
            softmax_backward_f32_128x4 = <128, 4>;
            softmax_backward_f32_256x4 = <256, 4>;
            softmax_backward_f32_512x4 = <512, 4>;
            softmax_backward_f32_1024x4 = <1024, 4>;
            softmax_backward_f32_wide = <512, 4>, WIDE = true;
            softmax_backward_f32_serial = <1, 1>, WIDE = true, cpu_only = true;
        }
        for T in [f16, bf16], N = 8, WIDE = false {
            softmax_backward_{T}_8x2 = <8, 2>;
            softmax_backward_{T}_32x2 = <32, 2>;
            softmax_backward_{T}_32x4 = <32, 4>, min_blocks = 14;
            softmax_backward_{T}_64x4 = <64, 4>;
            softmax_backward_{T}_128x4 = <128, 4>;
            softmax_backward_{T}_256x4 = <256, 4>;
            softmax_backward_{T}_512x4 = <512, 4>;
            softmax_backward_{T}_1024x4 = <1024, 4>;
            softmax_backward_{T}_wide = <512, 2>, WIDE = true;
            softmax_backward_{T}_serial = <1, 1>, WIDE = true, cpu_only = true;
        }
    ),
)]
pub unsafe fn softmax_backward<
    T: Element<N>,
    const N: usize,
    const THREADS: usize,
    const VECTORS: usize,
    const WIDE: bool,
    const BLOCK: usize,
    const LANES: u32,
>(
    #[shared(BLOCK / 32)] shared: *mut f32,
    args: BackwardArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has an element.
    unsafe {
        if THREADS == 1 {
            serial(args);
        } else if WIDE {
            wide::<T, N, BLOCK, VECTORS>(shared, args);
        } else {
            in_registers::<T, N, BLOCK, THREADS, LANES, VECTORS>(shared, args);
        }
    }
}

/// Like [`softmax_backward`](fn@softmax_backward), for rows that a block of `BLOCK` threads, or a cluster of up to 16
/// blocks, holds in shared memory.
///
/// Launched with one block or one cluster per row, and with [`Fit::shared_bytes`] of dynamic shared memory.
///
/// # Safety
/// Same as for [`softmax_backward`](fn@softmax_backward).
#[kernel(
    with(BLOCK = 256),
    max_threads = BLOCK,
    min_blocks = 3,
    min_arch = 90,
    args,
    facts: Fit = Fit::staged::<N>(BLOCK, 2),
    instances(
        N = 4 {
            softmax_backward_f32_staged = <f32>;
        }
        N = 8 {
            softmax_backward_f16_staged = <f16>;
            softmax_backward_bf16_staged = <bf16>;
        }
    ),
)]
pub unsafe fn softmax_backward_staged<T: Element<N>, const N: usize, const BLOCK: usize>(
    #[shared(BLOCK / 32)] shared: *mut f32,
    args: BackwardArgs<T>,
) {
    begin();
    // SAFETY: the kernel's contract; each warp of the block has an element.
    unsafe { in_shared::gradient::<T, N, BLOCK>(dynamic_shared_mem::<u32x4>(), shared, args) };
}
