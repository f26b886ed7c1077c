//! What host code has to know of the kernels, and how a rung chooses among its own.

use cuda_std::launch::{Instance, LaunchConfig};

use super::Arguments;
use super::stages::{STAGES, stage_len};

/// A kernel.
pub type Kernel = Instance<Arguments, Tiles>;

/// Multiprocessors of the GPU that the choice is made for, an H200.
const MULTIPROCESSORS: u64 = 132;

/// One step of the lesson.
#[derive(Debug)]
pub struct Rung {
    /// The rung's name in the lesson.
    pub name: &'static str,
    /// What it does, in a line.
    pub idea: &'static str,
    /// Its kernels, one of which is launched.
    pub kernels: &'static [Kernel],
}

impl Rung {
    /// The kernel for a product `[m, n, k]`, with its grid: of those that can do it the one that should take the least time.
    pub fn choose(&self, shape: [usize; 3]) -> Option<(&'static Kernel, LaunchConfig)> {
        let fitting = self.kernels.iter().filter(|kernel| kernel.fits(shape));
        let with_splits = fitting.flat_map(|kernel| {
            [1, 2, 4, 8].into_iter().filter(|&splits| kernel.can_split(splits)).map(move |n| (kernel, n))
        });
        let best = with_splits.min_by_key(|&(kernel, splits)| kernel.cycles(shape, splits));
        best.map(|(kernel, splits)| (kernel, kernel.config(shape, splits)))
    }
}

/// The sums of a block.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// Rows and columns of the product that a block computes.
    pub tile: [u32; 2],
    /// Threads of a block along x and y.
    pub block: (u32, u32),
    /// How tiles lie in the grid.
    pub order: Order,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Whether all rows of B have to begin at a multiple of 16 bytes.
    pub needs_aligned: bool,
    /// Whether the blocks of a cluster share the terms of the sums.
    pub is_cluster: bool,
    /// Rows and columns of a thread's sums.
    pub sums: [u32; 2],
    /// Blocks that a multiprocessor has registers for.
    pub resident: u32,
}

/// How the tiles lie in the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Columns of tiles along x, rows along y.
    ColumnsFirst,
    /// Rows of tiles along x, columns along y.
    RowsFirst,
    /// A thread for each sum, all along x.
    Line,
}

impl Tiles {
    /// A block of `block` threads for each tile, of a rung with no other kernel.
    pub(super) const fn new(tile: [u32; 2], block: (u32, u32), order: Order) -> Self {
        Self {
            tile,
            block,
            order,
            shared_bytes: 0,
            needs_aligned: false,
            is_cluster: false,
            sums: [1, 1],
            resident: 1,
        }
    }

    /// A block, or a cluster of blocks, for each tile, whose operands are copied ahead. `sums` are the rows and columns of a
    /// thread, `width` is how many neighbours of B a copy has, and `resident` how many blocks a multiprocessor has registers for.
    pub(super) const fn with_copies(
        [rows, cols]: [usize; 2],
        [thread_rows, thread_cols]: [usize; 2],
        width: usize,
        is_cluster: bool,
        resident: u32,
    ) -> Self {
        let (buffers, sums) = (4 * STAGES * stage_len(rows, cols), 4 * rows * cols);
        let shared = if is_cluster && sums > buffers { sums } else { buffers };
        let threads = (rows / thread_rows) * (cols / thread_cols);
        Self {
            shared_bytes: shared as u32,
            needs_aligned: width == 4,
            is_cluster,
            sums: [thread_rows as u32, thread_cols as u32],
            resident,
            ..Self::new([rows as u32, cols as u32], (threads as u32, 1), Order::ColumnsFirst)
        }
    }

    /// Whether the kernel can do a product `[m, n, k]`.
    pub fn fits(&self, [_, n, _]: [usize; 3]) -> bool {
        !self.needs_aligned || n.is_multiple_of(4)
    }

    /// Whether so many blocks can share the terms of a tile's sums.
    pub fn can_split(&self, splits: u32) -> bool {
        if self.is_cluster { splits.is_power_of_two() && (2..=8).contains(&splits) } else { splits == 1 }
    }

    /// The grid for a product `[m, n, k]` whose sums are shared by so many blocks, which the kernel can do.
    pub fn config(&self, [m, n, _]: [usize; 3], splits: u32) -> LaunchConfig {
        let [rows, cols] = self.tile;
        let (down, across) = ((m as u32).div_ceil(rows), (n as u32).div_ceil(cols));
        let config = match self.order {
            Order::ColumnsFirst => LaunchConfig::new((across * splits, down), self.block),
            Order::RowsFirst => LaunchConfig::new((down, across), self.block),
            Order::Line => LaunchConfig::cover(m * n, self.block.0),
        };
        config.with_shared_bytes(self.shared_bytes).with_cluster(splits)
    }

    /// About how many cycles the product takes: those in which the busiest multiprocessor issues the instructions of its four
    /// warps at a time, in rounds of as many blocks as it has room for.
    pub fn cycles(&self, [m, n, k]: [usize; 3], splits: u32) -> u64 {
        /// Of a round, before the first and after the last multiply-add.
        const ENDS: u64 = 2000;
        /// Of a cluster's barriers and the exchange between them.
        const EXCHANGE: u64 = 1500;
        /// Sums of a multiprocessor with which it waits for as long as it issues.
        const HALF: u64 = 4096;
        /// Instructions of a thread for a term beside multiply-adds and loads of quads.
        const OTHERS: u64 = 7;
        let ([rows, cols], [tm, tn]) = (self.tile.map(u64::from), self.sums.map(u64::from));
        let blocks = (m as u64).div_ceil(rows) * (n as u64).div_ceil(cols) * u64::from(splits);
        let terms = (k as u64).div_ceil(u64::from(splits)).next_multiple_of(8);
        let instructions = tm * tn + (tm + tn) / 4 + OTHERS;
        let round = |blocks: u64| match blocks * rows * cols {
            0 => 0,
            sums => ENDS + (sums + HALF) * terms * instructions / (tm * tn * 128),
        };
        let (most, each) = (blocks.div_ceil(MULTIPROCESSORS), u64::from(self.resident));
        let exchange = if self.is_cluster { EXCHANGE } else { 0 };
        most / each * round(each) + round(most % each) + exchange
    }
}
