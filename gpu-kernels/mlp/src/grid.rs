//! Grid and block of the naive kernels, and the tiles of fused multiplications. `head/host.rs`, `short` and
//! `resident/host.rs` have those of their own kernels.

use cuda_std::launch::LaunchConfig;

use super::batch::THREADS_PER_SAMPLE;
use super::product::Shape;

/// Threads of a block in kernels with one thread per row.
const ROW_BLOCK: u32 = 32;

/// Threads of a block, along x and y, in kernels with one thread per element.
const ELEMENT_BLOCK: (u32, u32) = (32, 8);

/// Threads of a block in kernels with [`THREADS_PER_SAMPLE`] threads per sample.
const SAMPLE_BLOCK: u32 = 128;

/// Returns the launch with one thread per element of an output `[rows, cols]`.
pub fn per_element(rows: u32, cols: u32) -> LaunchConfig {
    let (x, y) = ELEMENT_BLOCK;
    LaunchConfig::new((cols.div_ceil(x), rows.div_ceil(y)), (x, y))
}

/// Returns the launch with one thread per row.
pub fn per_row(rows: u32) -> LaunchConfig {
    LaunchConfig::cover(rows as usize, ROW_BLOCK)
}

/// Returns the launch with the threads of each of `rows` samples.
pub fn per_sample(rows: u32) -> LaunchConfig {
    let samples = SAMPLE_BLOCK / THREADS_PER_SAMPLE;
    LaunchConfig::new((1, rows.div_ceil(samples)), (THREADS_PER_SAMPLE, samples))
}

/// The tiles of a multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiles {
    /// Rows of tiles.
    pub rows: u32,
    /// Tiles in all.
    pub count: u32,
}

impl Shape {
    /// Returns the tiles of a multiplication with `rows` x `cols` outputs, where `workers` blocks run at a time. If a block
    /// computes any number of rows, there are a few blocks per worker, so that no worker waits long for the last one.
    pub fn tiles(&self, rows: u32, cols: u32, workers: u32) -> Tiles {
        self.tiles_of(rows, cols.div_ceil(self.cols), workers)
    }

    /// Returns the tiles of the gradients of parameters, whose A operand is transposed. A block that computes any number of
    /// rows computes whole rows.
    pub fn update_tiles(&self, rows: u32, cols: u32, workers: u32) -> Tiles {
        self.tiles_of(rows, if self.rows == 0 { 1 } else { cols.div_ceil(self.cols) }, workers)
    }

    fn tiles_of(&self, rows: u32, across: u32, workers: u32) -> Tiles {
        const BLOCKS_PER_WORKER: u32 = 8;
        const LEAST_ROWS: u32 = 6;
        let rows = match self.rows {
            0 => {
                workers.saturating_mul(BLOCKS_PER_WORKER).div_ceil(across).clamp(1, rows.div_ceil(LEAST_ROWS))
            }
            of_tile => rows.div_ceil(of_tile),
        };
        Tiles { rows, count: rows * across }
    }
}
