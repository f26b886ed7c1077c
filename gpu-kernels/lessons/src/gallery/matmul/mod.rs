//! The matrix multiplication `C = A B` in f32, on CUDA cores: from three loops to tiles of registers. The matmul ladder
//! goes on with tensor cores and with copies that run ahead.
//!
//! All three matrices are row-major: `a` is `[m, k]`, `b` is `[k, n]`, `out` is `[m, n]`; every extent is at least 1. A
//! multiply-add counts as two operations, `2 m n k` in all. Every sum has a fixed order along k, so runs give the same bits.
//!
//! Without reuse each multiply-add needs two numbers of four bytes. The rungs differ in where the second use of a number
//! finds it: in a cache, in shared memory, or in a register.

mod column;
mod edges;
mod fragments;
mod naive;
mod one_dimension;
mod shared;
mod square;
mod vectors;

use cuda_std::thread;

pub use column::matmul_column;
pub use naive::{matmul_in_memory, matmul_naive, matmul_uncoalesced};
pub use one_dimension::matmul_1d;
pub use shared::matmul_shared;
pub use square::matmul_square;
pub use vectors::matmul_vec4;

lesson! {
    buffers(out: f32, a: f32, b: f32)
    values(m: u32, n: u32, k: u32)
    facts(Tiles)
    "uncoalesced" = matmul_uncoalesced[0]: "a thread for each sum, those of a warp in a column";
    "naive" = matmul_naive[0]: "those of a warp in a row";
    "in_memory" = matmul_in_memory[0]: "the same, and each term is added to the result in memory";
    "1d" = matmul_1d[0]: "row and column from one index, by division";
    "shared" = matmul_shared[0]: "a block's operands in shared memory, 32 x 32 at a time";
    "column" = matmul_column[0]: "a thread for eight sums of a column, in registers";
    "square" = matmul_square[0]: "a thread for eight by eight sums";
    "vec4" = matmul_vec4[0]: "16 bytes an access, A transposed in shared memory";
}

/// The tile of a block.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// Rows and columns of the result that a block computes.
    pub tile: [u32; 2],
    /// Threads of a block along x and y.
    pub block: (u32, u32),
    /// The order of the tiles in the grid.
    pub order: Order,
}

/// The order of the tiles in a grid.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Clone, Copy, Debug)]
pub enum Order {
    /// Columns of tiles along x, rows along y.
    ColumnsFirst,
    /// Rows of tiles along x, columns along y.
    RowsFirst,
    /// One thread per sum, all along x.
    Line,
}

#[cfg(not(target_arch = "nvptx64"))]
impl Tiles {
    const fn new(order: Order, tile: [u32; 2], block: (u32, u32)) -> Self {
        Self { tile, block, order }
    }

    /// Returns the launch for a result of `m` rows and `n` columns.
    pub fn config(self, m: usize, n: usize) -> cuda_std::launch::LaunchConfig {
        let (down, across) = ((m as u32).div_ceil(self.tile[0]), (n as u32).div_ceil(self.tile[1]));
        match self.order {
            Order::ColumnsFirst => cuda_std::launch::LaunchConfig::new((across, down), self.block),
            Order::RowsFirst => cuda_std::launch::LaunchConfig::new((down, across), self.block),
            Order::Line => cuda_std::launch::LaunchConfig::cover(m * n, self.block.0),
        }
    }
}

/// Returns the first row and column of the block's tile of `ROWS` x `COLS` sums, in a grid with an axis for each.
#[inline(always)]
fn tile_origin<const ROWS: usize, const COLS: usize>() -> (usize, usize) {
    (thread::block_idx_y() as usize * ROWS, thread::block_idx_x() as usize * COLS)
}
