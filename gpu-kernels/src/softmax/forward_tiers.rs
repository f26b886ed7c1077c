//! The kernels of [`forward`](super::forward), by type and width.
//!
//! A thread holds at most 32 elements or a little more, so that 1024 threads of 64 registers fit a multiprocessor, and
//! a row has as few threads as that allows: up to 128 elements some lanes of a warp, up to 1024 a warp, then several.
//@ ptx(softmax_f32_16x2): ld.global.v4 == 2, st.global.v4 == 2, bar.sync == 0, shfl.sync.bfly == 8, .shared == 0
//@ ptx(softmax_f32_256x8): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 1, shfl.sync.bfly == 20
//@ ptx(softmax_bf16_32x4, softmax_f16_32x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 0, .shared == 0
//@ ptx(softmax_bf16_256x4, softmax_f16_256x4): ld.global.v4 == 4, st.global.v4 == 4, bar.sync == 1
//@ ptx(softmax_bf16_f32_256x4, softmax_f16_f32_256x4): ld.global.v4 == 4, st.global.v4 == 8, bar.sync == 1
//@ ptx(softmax_f32_cluster_1024x8, compute_90+): ld.global.v4 == 8, st.global.v4 == 8, bar.sync == 1, mapa == 1
//@ ptx(softmax_f32_256x8, softmax_bf16_256x4, compute_90+): cp.async.bulk.prefetch.L2.global == 1
//@ ptx(softmax_f32_reduce, softmax_bf16_reduce, softmax_f16_reduce): ld.global.v4 >= 2, bar.sync == 1
//@ ptx(softmax_f32_write, softmax_bf16_write, softmax_f16_write): ld.global.v4 >= 2, st.global.v4 >= 2, bar.sync == 1

use cuda_std::half::{bf16, f16};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::KernelMeta;
use cuda_std::mem::f32x2;
use cuda_std::{kernel, shared_array};

use super::forward::{Options, softmax};
use super::forward_split;
#[cfg(not(target_arch = "nvptx64"))]
use super::operation::{self, Arguments, Forward, Split};
use super::row::Matrix;
#[cfg(not(target_arch = "nvptx64"))]
use super::serial;
#[cfg(not(target_arch = "nvptx64"))]
use crate::element::Number as _;

/// The kernels from one type to another, of which 16 bytes of the first hold `$n`, and the table `$table` of them.
///
/// `rows`, `NAME BLOCK THREADS LANES VECTORS MIN_BLOCKS`: `THREADS` threads hold a row, `LANES` of each warp, with so many
/// vectors each; `clusters`, `NAME BLOCK VECTORS MIN_BLOCKS`: a cluster of blocks holds a row; `split REDUCE WRITE VECTORS`:
/// the pair of kernels for any width.
macro_rules! tiers {
    ($table:ident: $inp:ident to $out:ident, $n:literal;
        rows { $($name:ident $block:literal $threads:literal $lanes:literal $vectors:literal $min:literal;)* }
        clusters { $($cluster:ident $cluster_block:literal $cluster_vectors:literal $cluster_min:literal;)* }
        split $reduce:ident $write:ident $split_vectors:literal;
    ) => {
        $(
            tier!($name $inp $out $n $block $threads $lanes $vectors $min false 0, "the row's `cols` elements lie in \
                the registers of the row's threads", max_threads = $block, min_blocks = $min);
        )*
        $(
            tier!($cluster $inp $out $n $cluster_block $cluster_block 32 $cluster_vectors $cluster_min true 16,
                "a cluster of up to 16 blocks for each row", max_threads = $cluster_block, min_blocks = $cluster_min,
                min_arch = 90);
        )*

        #[doc = concat!("The (max, sum) of each of `parts` parts of each row of `inp`, `", stringify!($inp), "`; `pairs` ",
            "is `[rows, parts]`.\n\nLaunched on `rows * parts` blocks of 512 threads.\n\n# Safety\nThe launch is as ",
            "said; the matrix has its rows and `pairs` its elements, which nobody else uses.")]
        #[kernel(max_threads = 512, min_blocks = 2)]
        pub unsafe fn $reduce(
            pairs: *mut f32x2,
            inp: *const $inp,
            rows: u32,
            cols: u32,
            inp_stride: u64,
            parts: u32,
            scale: f32,
        ) {
            let shared = shared_array![f32x2; forward_split::BLOCK / 32];
            let inp = Matrix { data: inp, stride: inp_stride };
            // SAFETY: the kernel's contract; the block has a pair for each of its warps.
            unsafe {
                forward_split::reduce::<$inp, $out, $n, $split_vectors>(
                    shared, pairs, inp, [rows, cols], parts, Options { scale, flags: 0, ahead: 0 },
                );
            }
        }

        #[doc = concat!("The softmax of each row of `inp` by the pairs of its parts, as `", stringify!($out), "`.\n\n",
            "Launched on `rows * parts` blocks of 512 threads.\n\n# Safety\nThe launch is as said; the matrices have ",
            "their rows and `pairs` its elements; nobody else uses `out`, which may be `inp` with the same stride.")]
        #[kernel(max_threads = 512, min_blocks = 2)]
        pub unsafe fn $write(
            out: *mut $out,
            inp: *const $inp,
            pairs: *const f32x2,
            rows: u32,
            cols: u32,
            out_stride: u64,
            inp_stride: u64,
            parts: u32,
            scale: f32,
            flags: u32,
        ) {
            let shared = shared_array![f32x2; forward_split::BLOCK / 32];
            let out = Matrix { data: out, stride: out_stride };
            let inp = Matrix { data: inp, stride: inp_stride };
            // SAFETY: the kernel's contract; the block has a pair for each of its warps.
            unsafe {
                forward_split::write::<$inp, $out, $n, $split_vectors>(
                    shared, out, inp, pairs, [rows, cols], parts, Options { scale, flags, ahead: 0 },
                );
            }
        }

        #[doc = concat!("The kernels from `", stringify!($inp), "` to `", stringify!($out), "`.")]
        #[cfg(not(target_arch = "nvptx64"))]
        pub const $table: Forward = Forward {
            from: $inp::DTYPE,
            to: $out::DTYPE,
            tiers: &[
                $(entry!($name, $block, $threads, $n * $threads * $vectors, $min),)*
            ],
            clusters: &[
                $(entry!($cluster, $cluster_block, $cluster_block, $n * $cluster_block * $cluster_vectors, $cluster_min),)*
            ],
            serial: serial::$table,
            split: Split {
                reduce: $reduce::META,
                write: $write::META,
                launch_reduce: |on, config, pairs, a| {
                    // SAFETY: the caller of the function answers for the kernel's contract.
                    unsafe { $reduce::launch(on, config, pairs, a.inp, a.rows, a.cols, a.inp_stride, a.parts, a.scale) }
                },
                launch_write: |on, config, pairs, a| {
                    // SAFETY: as above.
                    unsafe {
                        $write::launch(
                            on, config, a.out, a.inp, pairs, a.rows, a.cols, a.out_stride, a.inp_stride, a.parts, a.scale,
                            a.flags,
                        )
                    }
                },
            },
        };
    };
}

/// One kernel of [`tiers`]; `$more` are the elements of shared memory besides one for each warp.
macro_rules! tier {
    ($name:ident $inp:ident $out:ident $n:literal $block:literal $threads:literal $lanes:literal $vectors:literal
        $min:literal $is_cluster:literal $more:literal, $what:literal, $($bounds:tt)*) => {
        #[doc = concat!("Softmax or log-softmax along rows of `", stringify!($inp), "`, as `", stringify!($out), "`: ",
            $what, ", ", $n, " * ", $vectors, " for each of ", $threads, " threads.\n\nLaunched on blocks of ", $block,
            " threads, enough of them for `rows`. Strides are in elements; `flags` are those of ",
            "[`forward`](super::forward).\n\n# Safety\nThe launch is as said; all pointers are valid for `rows` rows; nobody else ",
            "uses `out`, which may be `inp` with the same stride.")]
        #[kernel($($bounds)*)]
        pub unsafe fn $name(
            out: *mut $out,
            inp: *const $inp,
            rows: u32,
            cols: u32,
            out_stride: u64,
            inp_stride: u64,
            scale: f32,
            flags: u32,
            ahead: u32,
        ) {
            let shared = shared_array![f32x2; $block / 32 + $more];
            let out = Matrix { data: out, stride: out_stride };
            let inp = Matrix { data: inp, stride: inp_stride };
            // SAFETY: the kernel's contract; the block has a pair for each of its warps, and for the cluster's blocks.
            unsafe {
                softmax::<$inp, $out, $n, $block, $threads, $lanes, $vectors, $is_cluster>(
                    shared, out, inp, [rows, cols], Options { scale, flags, ahead },
                );
            }
        }
    };
}

/// An entry of a table, without the arguments.
#[cfg(not(target_arch = "nvptx64"))]
macro_rules! entry {
    ($($entry:tt)*) => {
        operation::tier!($($entry)*, |a: Arguments| (
            a.out, a.inp, a.rows, a.cols, a.out_stride, a.inp_stride, a.scale, a.flags, a.ahead
        ))
    };
}

tiers! { F32_TO_F32: f32 to f32, 4;
    rows {
        softmax_f32_8x1 64 8 8 1 21;
        softmax_f32_8x2 64 8 8 2 21;
        softmax_f32_16x2 64 16 16 2 21;
        softmax_f32_32x2 64 32 32 2 21;
        softmax_f32_32x4 64 32 32 4 18;
        softmax_f32_32x6 64 32 32 6 16;
        softmax_f32_64x4 64 64 32 4 16;
        softmax_f32_64x6 64 64 32 6 16;
        softmax_f32_64x8 64 64 32 8 16;
        softmax_f32_128x6 128 128 32 6 8;
        softmax_f32_128x7 128 128 32 7 8;
        softmax_f32_256x6 256 256 32 6 4;
        softmax_f32_256x8 256 256 32 8 4;
        softmax_f32_320x8 320 320 32 8 3;
        softmax_f32_512x8 512 512 32 8 2;
        softmax_f32_1024x6 1024 1024 32 6 1;
        softmax_f32_1024x8 1024 1024 32 8 1;
    }
    clusters {
        softmax_f32_cluster_1024x8 1024 8 1;
    }
    split softmax_f32_reduce softmax_f32_write 4;
}

tiers! { F16_TO_F16: f16 to f16, 8;
    rows {
        softmax_f16_8x1 64 8 8 1 16;
        softmax_f16_8x2 64 8 8 2 16;
        softmax_f16_32x1 64 32 32 1 16;
        softmax_f16_32x2 64 32 32 2 16;
        softmax_f16_32x3 64 32 32 3 16;
        softmax_f16_32x4 64 32 32 4 16;
        softmax_f16_64x3 64 64 32 3 16;
        softmax_f16_64x4 64 64 32 4 16;
        softmax_f16_96x4 96 96 32 4 10;
        softmax_f16_128x4 128 128 32 4 8;
        softmax_f16_160x4 160 160 32 4 6;
        softmax_f16_192x4 192 192 32 4 5;
        softmax_f16_256x4 256 256 32 4 4;
        softmax_f16_320x4 320 320 32 4 3;
        softmax_f16_320x5 320 320 32 5 3;
        softmax_f16_512x4 512 512 32 4 2;
        softmax_f16_768x4 768 768 32 4 1;
        softmax_f16_1024x4 1024 1024 32 4 1;
    }
    clusters {
        softmax_f16_cluster_256x4 256 4 4;
        softmax_f16_cluster_512x4 512 4 2;
        softmax_f16_cluster_1024x4 1024 4 1;
    }
    split softmax_f16_reduce softmax_f16_write 2;
}

tiers! { BF16_TO_BF16: bf16 to bf16, 8;
    rows {
        softmax_bf16_8x1 64 8 8 1 16;
        softmax_bf16_8x2 64 8 8 2 16;
        softmax_bf16_32x1 64 32 32 1 16;
        softmax_bf16_32x2 64 32 32 2 16;
        softmax_bf16_32x3 64 32 32 3 16;
        softmax_bf16_32x4 64 32 32 4 16;
        softmax_bf16_64x3 64 64 32 3 16;
        softmax_bf16_64x4 64 64 32 4 16;
        softmax_bf16_96x4 96 96 32 4 10;
        softmax_bf16_128x4 128 128 32 4 8;
        softmax_bf16_160x4 160 160 32 4 6;
        softmax_bf16_192x4 192 192 32 4 5;
        softmax_bf16_256x4 256 256 32 4 4;
        softmax_bf16_320x4 320 320 32 4 3;
        softmax_bf16_320x5 320 320 32 5 3;
        softmax_bf16_512x4 512 512 32 4 2;
        softmax_bf16_768x4 768 768 32 4 1;
        softmax_bf16_1024x4 1024 1024 32 4 1;
    }
    clusters {
        softmax_bf16_cluster_256x4 256 4 4;
        softmax_bf16_cluster_512x4 512 4 2;
        softmax_bf16_cluster_1024x4 1024 4 1;
    }
    split softmax_bf16_reduce softmax_bf16_write 2;
}

tiers! { F16_TO_F32: f16 to f32, 8;
    rows {
        softmax_f16_f32_8x2 64 8 8 2 14;
        softmax_f16_f32_32x2 64 32 32 2 14;
        softmax_f16_f32_32x4 64 32 32 4 14;
        softmax_f16_f32_64x4 64 64 32 4 16;
        softmax_f16_f32_128x4 128 128 32 4 8;
        softmax_f16_f32_256x4 256 256 32 4 4;
        softmax_f16_f32_512x4 512 512 32 4 2;
        softmax_f16_f32_1024x4 1024 1024 32 4 1;
    }
    clusters {
        softmax_f16_f32_cluster_1024x4 1024 4 1;
    }
    split softmax_f16_f32_reduce softmax_f16_f32_write 2;
}

tiers! { BF16_TO_F32: bf16 to f32, 8;
    rows {
        softmax_bf16_f32_8x2 64 8 8 2 14;
        softmax_bf16_f32_32x2 64 32 32 2 14;
        softmax_bf16_f32_32x4 64 32 32 4 14;
        softmax_bf16_f32_64x4 64 64 32 4 16;
        softmax_bf16_f32_128x4 128 128 32 4 8;
        softmax_bf16_f32_256x4 256 256 32 4 4;
        softmax_bf16_f32_512x4 512 512 32 4 2;
        softmax_bf16_f32_1024x4 1024 1024 32 4 1;
    }
    clusters {
        softmax_bf16_f32_cluster_1024x4 1024 4 1;
    }
    split softmax_bf16_f32_reduce softmax_bf16_f32_write 2;
}
