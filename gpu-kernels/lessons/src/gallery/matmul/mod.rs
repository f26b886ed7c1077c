//! The matrix multiplication `C = A B` in f32, on CUDA cores: from three loops to tiles of registers, fed by asynchronous
//! copies.
//!
//! All three matrices are row-major: `a` is `[m, k]`, `b` is `[k, n]`, `out` is `[m, n]`; every extent is at least 1. A
//! multiply-add counts as two operations, `2 m n k` in all. Every sum has a fixed order along k, so runs give the same bits.
//!
//! Without reuse each multiply-add needs two numbers of four bytes. The rungs differ in where the second use of a number
//! finds it: in a cache, in shared memory, or in a register.

pub mod naive;

pub mod one_dimension;

pub mod shared;

pub mod column;

pub mod square;

pub mod vectors;

pub mod warps;

pub mod copies;

pub mod tuned;

#[cfg(not(target_arch = "nvptx64"))]
mod choice;
mod edges;
mod fragments;
mod split;
mod stages;

#[cfg(not(target_arch = "nvptx64"))]
pub use choice::{Kernel, Rung, Tiles};

use cuda_std::thread;

/// The rungs.
#[cfg(not(target_arch = "nvptx64"))]
pub const RUNGS: &[Rung] = &[
    Rung {
        name: "uncoalesced",
        idea: "a thread for each sum, those of a warp in a column",
        kernels: naive::matmul_uncoalesced::INSTANCES,
    },
    Rung { name: "naive", idea: "those of a warp in a row", kernels: naive::matmul_naive::INSTANCES },
    Rung {
        name: "1d",
        idea: "row and column from one index, by division",
        kernels: one_dimension::matmul_1d::INSTANCES,
    },
    Rung {
        name: "shared",
        idea: "a block's operands in shared memory, 32 x 32 at a time",
        kernels: shared::matmul_shared::INSTANCES,
    },
    Rung {
        name: "column",
        idea: "a thread for eight sums of a column, in registers",
        kernels: column::matmul_column::INSTANCES,
    },
    Rung {
        name: "square",
        idea: "a thread for eight by eight sums",
        kernels: square::matmul_square::INSTANCES,
    },
    Rung {
        name: "vec4",
        idea: "16 bytes an access, A transposed in shared memory",
        kernels: vectors::matmul_vec4::INSTANCES,
    },
    Rung {
        name: "warp",
        idea: "the sums of a warp in a rectangle of 32 x 64",
        kernels: warps::matmul_warp::INSTANCES,
    },
    Rung { name: "async", idea: "copies run ahead of the sums, through four buffers", kernels: pair(0) },
    Rung { name: "tall", idea: "a thread for sixteen by eight sums, half as many threads", kernels: pair(1) },
    Rung { name: "large", idea: "tiles of 256 x 128", kernels: pair(2) },
    Rung {
        name: "tuned",
        idea: "tiles, and shares of the sums, that fill the GPU",
        kernels: tuned::matmul_async::INSTANCES,
    },
];

/// The two kernels of a size: for rows of B that all begin at a multiple of 16 bytes, and for any rows.
#[cfg(not(target_arch = "nvptx64"))]
const fn pair(size: usize) -> &'static [Kernel] {
    tuned::matmul_async::INSTANCES.split_at(2 * size).1.split_at(2).0
}

/// The arguments of the kernels.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Arguments {
    /// `[m, n]`, written.
    pub out: cuda_std::launch::RawBuffer<f32>,
    /// `[m, k]`.
    pub a: cuda_std::launch::RawBuffer<f32>,
    /// `[k, n]`.
    pub b: cuda_std::launch::RawBuffer<f32>,
    /// Rows of the product.
    pub m: u32,
    /// Columns of the product.
    pub n: u32,
    /// Terms of each sum.
    pub k: u32,
}

/// Returns the first row and column of the block's tile of `ROWS` x `COLS` sums, in a grid with an axis for each.
#[inline(always)]
fn tile_origin<const ROWS: usize, const COLS: usize>() -> (usize, usize) {
    (thread::block_idx_y() as usize * ROWS, thread::block_idx_x() as usize * COLS)
}
