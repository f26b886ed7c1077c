//! Backward of softmax and of log-softmax along rows.
//!
//! From the result `y` and the gradient `dy` at it comes `dx`, the gradient at the logits:
//! - softmax: `dx = y * (dy - sum(dy * y)) * scale`;
//! - log-softmax (flag [`LOG`]): `dx = (dy - exp(y) * sum(dy)) * scale`.
//!
//! `scale` is that of the forward pass. A row is held by 8 lanes up to 32 warps in registers, as it was read: both
//! matrices once, with one sum a warp after one barrier. A row too wide for that is read twice by a block. `dx` may
//! be `dy` or `y`. Sums have a fixed order. NaN and infinities go the way of the formula; a result of -inf among
//! logarithms has probability 0.
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

use cuda_std::half::{bf16, f16};
use cuda_std::{kernel, shared_array};

mod rows;
mod serial;

#[cfg(not(target_arch = "nvptx64"))]
mod launch;
#[cfg(not(target_arch = "nvptx64"))]
pub use launch::Arguments;

use rows::{Given, resident, wide};

#[cfg(not(target_arch = "nvptx64"))]
use super::operation::OfType;
use super::row::Matrix;
#[cfg(not(target_arch = "nvptx64"))]
use crate::element::Number as _;

/// A flag of the kernels: `y` is the logarithm of the softmax.
pub const LOG: u32 = 1;

/// A kernel with the arguments of all kernels here, which hands them to `$body`.
macro_rules! kernel {
    ($name:ident $ty:ident [$($bounds:tt)*], $doc:expr, |$given:ident| $body:expr) => {
        #[doc = concat!("Backward of softmax or log-softmax of rows of `", stringify!($ty), "`: ", $doc)]
        ///
        /// Strides are in elements; `flags` are [`LOG`] or 0; a block prefetches into L2 the rows of the one `ahead`
        /// blocks later, if that is not 0.
        ///
        /// # Safety
        /// The launch is as said; all pointers are valid for `rows` rows; nobody else uses `dx`, which may be `dy` or
        /// `y` with the same stride.
        #[kernel($($bounds)*)]
        pub unsafe fn $name(
            dx: *mut $ty,
            dy: *const $ty,
            y: *const $ty,
            rows: u32,
            cols: u32,
            dx_stride: u64,
            dy_stride: u64,
            y_stride: u64,
            scale: f32,
            flags: u32,
            ahead: u32,
        ) {
            let $given = Given {
                dx: Matrix { data: dx, stride: dx_stride },
                dy: Matrix { data: dy, stride: dy_stride },
                y: Matrix { data: y, stride: y_stride },
                shape: [rows, cols],
                scale,
                is_log: flags & LOG != 0,
                ahead,
            };
            // SAFETY: the kernel's contract.
            unsafe { $body }
        }
    };
}

/// The kernels for `$ty`, of which 16 bytes hold `$n`, and the table `$table` of them:
/// `NAME BLOCK THREADS LANES VECTORS MIN_BLOCKS`: rows that `THREADS` threads hold, `LANES` of each warp, with so many
/// vectors of both matrices each; rows of any width, `VECTORS` at a time.
macro_rules! kernels {
    ($table:ident: $ty:ident, $n:literal;
        rows { $($name:ident $block:literal $threads:literal $lanes:literal $vectors:literal $min:literal;)* }
        wide $wide:ident $wide_vectors:literal;
        serial $serial:ident;
    ) => {
        $(kernel! { $name $ty [max_threads = $block, min_blocks = $min], concat!("at most ", $n, " * ", $vectors,
            " columns for each of ", $threads, " threads.\n\nLaunched on blocks of ", $block,
            " threads, enough of them for `rows`."),
            |given| {
                let shared = shared_array![f32; $block / 32];
                resident::<$ty, $n, $block, $threads, $lanes, $vectors>(shared, given)
            }
        })*
        kernel! { $wide $ty [max_threads = 512, min_blocks = 2],
            "any number of columns, a block a row.\n\nLaunched on `rows` blocks of 512 threads.",
            |given| {
                let shared = shared_array![f32; 16];
                wide::<$ty, $n, $wide_vectors>(shared, given)
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
                $(launch::tier!($name, $block, $threads, $n * $threads * $vectors, $min),)*
                launch::tier!($wide, rows::WIDE_BLOCK, rows::WIDE_BLOCK, u32::MAX, 2),
                launch::tier!($serial, super::serial::BLOCK, 1, u32::MAX, 1),
            ],
        };
    };
}

kernels! { F32: f32, 4;
    rows {
        softmax_backward_f32_8x2 64 8 8 2 16;
        softmax_backward_f32_32x2 64 32 32 2 16;
        softmax_backward_f32_32x4 64 32 32 4 16;
        softmax_backward_f32_64x4 64 64 32 4 16;
        softmax_backward_f32_128x4 128 128 32 4 8;
        softmax_backward_f32_256x4 256 256 32 4 4;
        softmax_backward_f32_512x4 512 512 32 4 2;
        softmax_backward_f32_1024x4 1024 1024 32 4 1;
    }
    wide softmax_backward_f32_wide 4;
    serial softmax_backward_f32_serial;
}

kernels! { F16: f16, 8;
    rows {
        softmax_backward_f16_8x2 64 8 8 2 16;
        softmax_backward_f16_32x2 64 32 32 2 16;
        softmax_backward_f16_32x4 64 32 32 4 14;
        softmax_backward_f16_64x4 64 64 32 4 16;
        softmax_backward_f16_128x4 128 128 32 4 8;
        softmax_backward_f16_256x4 256 256 32 4 4;
        softmax_backward_f16_512x4 512 512 32 4 2;
        softmax_backward_f16_1024x4 1024 1024 32 4 1;
    }
    wide softmax_backward_f16_wide 2;
    serial softmax_backward_f16_serial;
}

kernels! { BF16: bf16, 8;
    rows {
        softmax_backward_bf16_8x2 64 8 8 2 16;
        softmax_backward_bf16_32x2 64 32 32 2 16;
        softmax_backward_bf16_32x4 64 32 32 4 14;
        softmax_backward_bf16_64x4 64 64 32 4 16;
        softmax_backward_bf16_128x4 128 128 32 4 8;
        softmax_backward_bf16_256x4 256 256 32 4 4;
        softmax_backward_bf16_512x4 512 512 32 4 2;
        softmax_backward_bf16_1024x4 1024 1024 32 4 1;
    }
    wide softmax_backward_bf16_wide 2;
    serial softmax_backward_bf16_serial;
}

/// All kernels, by the type of the matrices.
#[cfg(not(target_arch = "nvptx64"))]
pub const BACKWARD: &[OfType<Arguments>] = &[F32, F16, BF16];
