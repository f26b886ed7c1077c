//! Cross entropy of softmax along rows: loss, log-sum-exp, hit and gradient in one pass over the logits.
//!
//! A row of up to 16 columns is held by one thread, a longer one by 8 lanes up to 32 warps, read once and kept in
//! registers as exponentials, as the softmax does; one of more than 32768 columns by a block that reads it a second
//! time for the gradient.
//!
//! What comes out, for a row with maximum `max` and `sum` of `exp(x - max)`:
//! - `loss = ln(sum) - (x[target] - max)`, which keeps its digits where the logits are large;
//! - `lse = max + ln(sum)`;
//! - `correct`: 1 if the largest logit, of equal ones the first, is the target's, else and where the loss is NaN 0;
//! - `d_logits = (exp(x - max) / sum - one_hot(target)) * d_scale * d_loss[row]`.
//!
//! All but the loss may be left out, by a null pointer. A row whose target is `ignore_index` has loss, hit and
//! gradient 0 whatever its logits are, and without log-sum-exp is not even read. A target that is no column gives NaN
//! for loss and gradient, so that the mistake shows, and is never used as an index. A row with NaN or +inf, or of -inf
//! only, gives NaN; a target of -inf among finite logits has the loss +inf. Every sum has a fixed order.
//!
//! Requires: strides of at least `cols`; `d_logits` is other memory than `logits` or the very same, at the same stride.
//@ ptx(cross_entropy_f32_1x16, cross_entropy_f16_1x16): ex2.approx == 16, bar == 0, shfl == 0, .shared == 0
//@ ptx(cross_entropy_bf16_1x16): ex2.approx == 16, bar == 0, shfl == 0, .shared == 0
//@ ptx(cross_entropy_f32_8x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 9, bar == 0
//@ ptx(cross_entropy_f16_8x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 9, bar == 0
//@ ptx(cross_entropy_bf16_8x2): ld.global.v4 == 2, st.global.v4 == 2, shfl.sync.bfly == 9, bar == 0
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
//@ ptx(cross_entropy_f32_wide): ld.global.v4 >= 8, st.global.v4 >= 4, bar.sync == 2
//@ ptx(cross_entropy_f16_wide, cross_entropy_bf16_wide): ld.global.v4 >= 8, st.global.v4 >= 4, bar.sync == 2

use cuda_std::half::{bf16, f16};
use cuda_std::mem::f32x2;
use cuda_std::{kernel, shared_array};

mod arguments;
mod hits;
mod narrow;
mod resident;
mod serial;
mod wide;

#[cfg(not(target_arch = "nvptx64"))]
mod launch;
#[cfg(not(target_arch = "nvptx64"))]
pub use launch::Arguments;

use arguments::Given;
use narrow::narrow;
use resident::resident;
use wide::wide;

#[cfg(not(target_arch = "nvptx64"))]
use super::operation::OfType;
use super::row::Matrix;
#[cfg(not(target_arch = "nvptx64"))]
use crate::element::Number as _;

/// A value of a kernel's `target_bytes`: the targets are `i64`.
pub const I64: u32 = 8;
/// A value of a kernel's `target_bytes`: the targets are `i32`, or `u32` below 2^31.
pub const I32: u32 = 4;
/// A value of a kernel's `target_bytes`: the targets are `u8`.
pub const U8: u32 = 1;

/// A kernel with the arguments of all kernels here, which hands them to `$body`.
macro_rules! kernel {
    ($name:ident $ty:ident [$($bounds:tt)*], $doc:expr, |$given:ident| $body:expr) => {
        #[doc = concat!("Cross entropy of rows of `", stringify!($ty), "`: ", $doc)]
        ///
        /// Strides are in elements; `target_bytes` is [`I64`], [`I32`] or [`U8`]; a block prefetches into L2 the rows
        /// of the one `ahead` blocks later, if that is not 0.
        ///
        /// # Safety
        /// The launch is as said. `loss`, `lse`, `correct`, `targets` and `d_loss` have an element for each row; `lse`,
        /// `correct`, `d_logits` and `d_loss` may be null. `logits` and `d_logits` are valid for `rows` rows. Nobody
        /// else uses what is written; `d_logits` may be `logits` with the same stride.
        #[kernel($($bounds)*)]
        pub unsafe fn $name(
            loss: *mut f32,
            lse: *mut f32,
            correct: *mut u32,
            d_logits: *mut $ty,
            logits: *const $ty,
            targets: *const u8,
            d_loss: *const f32,
            rows: u32,
            cols: u32,
            d_stride: u64,
            stride: u64,
            target_bytes: u32,
            ignore_index: i64,
            d_scale: f32,
            ahead: u32,
        ) {
            let d_logits = Matrix { data: d_logits, stride: d_stride };
            let (logits, shape) = (Matrix { data: logits, stride }, [rows, cols]);
            #[rustfmt::skip]
            let $given = Given {
                loss, lse, correct, d_logits, logits, targets, target_bytes, ignore_index, d_loss, d_scale, shape,
                ahead,
            };
            // SAFETY: the kernel's contract.
            unsafe { $body }
        }
    };
}

/// The kernels for `$ty`, of which 16 bytes hold `$n`, and the table `$table` of them: rows of one thread;
/// `NAME BLOCK THREADS LANES VECTORS MIN_BLOCKS`: rows that `THREADS` threads hold, `LANES` of each warp, with so many
/// vectors each; rows of any width, `VECTORS` at a time.
macro_rules! kernels {
    ($table:ident: $ty:ident, $n:literal;
        narrow $narrow:ident;
        rows { $($name:ident $block:literal $threads:literal $lanes:literal $vectors:literal $min:literal;)* }
        wide $wide:ident $wide_vectors:literal;
        serial $serial:ident;
    ) => {
        kernel! { $narrow $ty [max_threads = 64, min_blocks = 20],
            "at most 16 columns, one thread a row.\n\nLaunched on at least `rows` threads in blocks of 64.",
            |given| narrow::<$ty>(given)
        }
        $(kernel! { $name $ty [max_threads = $block, min_blocks = $min], concat!("at most ", $n, " * ", $vectors,
            " columns for each of ", $threads, " threads.\n\nLaunched on blocks of ", $block,
            " threads, enough of them for `rows`."),
            |given| {
                let (shared, first_shared) = (shared_array![f32x2; $block / 32], shared_array![u32; $block / 32]);
                resident::<$ty, $n, $block, $threads, $lanes, $vectors>(shared, first_shared, given)
            }
        })*
        kernel! { $wide $ty [max_threads = 512, min_blocks = 2],
            "any number of columns, a block a row.\n\nLaunched on `rows` blocks of 512 threads.",
            |given| {
                let (shared, first_shared) = (shared_array![f32x2; 16], shared_array![u32; 16]);
                wide::<$ty, $n, $wide_vectors>(shared, first_shared, given)
            }
        }
        kernel! { $serial $ty [],
            "any number of columns, a thread a row.\n\nLaunched on at least `rows` threads.",
            |given| serial::serial::<$ty>(given)
        }

        #[cfg(not(target_arch = "nvptx64"))]
        const $table: OfType<Arguments> = OfType {
            dtype: $ty::DTYPE,
            tiers: &[
                launch::tier!($narrow, narrow::BLOCK, 1, narrow::MOST, 20),
                $(launch::tier!($name, $block, $threads, $n * $threads * $vectors, $min),)*
                launch::tier!($wide, wide::BLOCK, wide::BLOCK, u32::MAX, 2),
                launch::tier!($serial, super::serial::BLOCK, 1, u32::MAX, 1),
            ],
        };
    };
}

kernels! { F32: f32, 4;
    narrow cross_entropy_f32_1x16;
    rows {
        cross_entropy_f32_8x2 64 8 8 2 18;
        cross_entropy_f32_32x2 64 32 32 2 21;
        cross_entropy_f32_32x4 64 32 32 4 18;
        cross_entropy_f32_32x8 64 32 32 8 14;
        cross_entropy_f32_64x8 64 64 32 8 16;
        cross_entropy_f32_128x8 128 128 32 8 8;
        cross_entropy_f32_256x8 256 256 32 8 4;
        cross_entropy_f32_512x8 512 512 32 8 2;
        cross_entropy_f32_1024x8 1024 1024 32 8 1;
    }
    wide cross_entropy_f32_wide 4;
    serial cross_entropy_f32_serial;
}

kernels! { F16: f16, 8;
    narrow cross_entropy_f16_1x16;
    rows {
        cross_entropy_f16_8x2 64 8 8 2 18;
        cross_entropy_f16_32x2 64 32 32 2 18;
        cross_entropy_f16_32x4 64 32 32 4 16;
        cross_entropy_f16_64x4 64 64 32 4 16;
        cross_entropy_f16_128x4 128 128 32 4 8;
        cross_entropy_f16_256x4 256 256 32 4 4;
        cross_entropy_f16_512x4 512 512 32 4 2;
        cross_entropy_f16_1024x4 1024 1024 32 4 1;
    }
    wide cross_entropy_f16_wide 4;
    serial cross_entropy_f16_serial;
}

kernels! { BF16: bf16, 8;
    narrow cross_entropy_bf16_1x16;
    rows {
        cross_entropy_bf16_8x2 64 8 8 2 18;
        cross_entropy_bf16_32x2 64 32 32 2 18;
        cross_entropy_bf16_32x4 64 32 32 4 16;
        cross_entropy_bf16_64x4 64 64 32 4 16;
        cross_entropy_bf16_128x4 128 128 32 4 8;
        cross_entropy_bf16_256x4 256 256 32 4 4;
        cross_entropy_bf16_512x4 512 512 32 4 2;
        cross_entropy_bf16_1024x4 1024 1024 32 4 1;
    }
    wide cross_entropy_bf16_wide 4;
    serial cross_entropy_bf16_serial;
}

/// All kernels, by the type of the logits.
#[cfg(not(target_arch = "nvptx64"))]
pub const CROSS_ENTROPY: &[OfType<Arguments>] = &[F32, F16, BF16];
