//! What host code must know about the kernels, and how a rung chooses one of its own.

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
    /// What it does, in one line.
    pub idea: &'static str,
    /// Its kernels, one of which is launched.
    pub kernels: &'static [Kernel],
}

impl Rung {
    /// Returns the kernel for a matmul of shape `[m, n, k]`, and its launch. Of the kernels that support the shape, this is
    /// the one with the shortest predicted time.
    pub fn choose(&self, shape: [usize; 3]) -> Option<(&'static Kernel, LaunchConfig)> {
        let fitting = self.kernels.iter().filter(|kernel| kernel.fits(shape));
        let with_splits = fitting
            .flat_map(|kernel| (1..=8).filter(|&splits| kernel.can_split(splits)).map(move |n| (kernel, n)));
        let best = with_splits.min_by_key(|&(kernel, splits)| kernel.estimate(shape, splits));
        best.map(|(kernel, splits)| (kernel, kernel.config(shape, splits)))
    }
}

/// The tile of a block, and the costs of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Tiles {
    /// Rows and columns of the product that a block computes.
    pub tile: [u32; 2],
    /// Threads of a block along x and y.
    pub block: (u32, u32),
    /// The order of the tiles in the grid.
    pub order: Order,
    /// Bytes of dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// Whether all rows of B must begin at a multiple of 16 bytes.
    pub needs_aligned: bool,
    /// Whether the blocks of a cluster share the terms of the sums.
    pub is_cluster: bool,
    /// Rows and columns of a thread's sums.
    pub sums: [u32; 2],
    /// Blocks that a multiprocessor has registers for.
    pub resident: u32,
    /// Cycles per term: first for a block that is alone on its multiprocessor, then for which one of its warps keeps one of
    /// the four schedulers busy.
    pub cycles: [u32; 2],
}

/// The order of the tiles in the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Columns of tiles along x, rows along y.
    ColumnsFirst,
    /// Rows of tiles along x, columns along y.
    RowsFirst,
    /// One thread per sum, all along x.
    Line,
}

impl Tiles {
    /// One block of `block` threads per tile, for a rung with a single kernel.
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
            cycles: [1, 1],
        }
    }

    /// One block, or cluster of blocks, per tile, with operands that are copied ahead. `sums` are the rows and columns of a
    /// thread, and `width` is the number of neighbours of B in a copy. The fields document `resident` and `cycles`.
    pub(super) const fn with_copies(
        [rows, cols]: [usize; 2],
        [thread_rows, thread_cols]: [usize; 2],
        width: usize,
        is_cluster: bool,
        resident: u32,
        cycles: [u32; 2],
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
            cycles,
            ..Self::new([rows as u32, cols as u32], (threads as u32, 1), Order::ColumnsFirst)
        }
    }

    /// Returns whether the kernel supports a matmul of shape `[m, n, k]`.
    pub fn fits(&self, [_, n, _]: [usize; 3]) -> bool {
        !self.needs_aligned || n.is_multiple_of(4)
    }

    /// Returns whether `splits` blocks can share the terms of a tile's accumulators.
    pub fn can_split(&self, splits: u32) -> bool {
        if self.is_cluster { (2..=8).contains(&splits) } else { splits == 1 }
    }

    /// Returns the launch for a matmul of shape `[m, n, k]`. `splits` blocks share the terms of each tile's accumulators;
    /// the kernel must support that.
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

    /// Estimates the cycles of the matmul, without the launch. It counts the multiprocessor with the most blocks, which run
    /// in rounds of the blocks that fit at once.
    ///
    /// A scheduler issues for one warp at a time. So a term of several blocks takes as long as the terms of the warps that
    /// share a scheduler, one after the other. Blocks of two warps keep only two of the four schedulers busy.
    fn estimate(&self, [m, n, k]: [usize; 3], splits: u32) -> u64 {
        /// Cycles of a thread for each of its accumulators, before the first and after the last multiply-add.
        const OF_A_SUM: u64 = 13;
        /// Sums that a multiprocessor stores per cycle, or sends to the others of a cluster.
        const STORED: u64 = 8;
        let ([rows, cols], [tm, tn]) = (self.tile.map(u64::from), self.sums.map(u64::from));
        let [alone, of_a_warp] = self.cycles.map(u64::from);
        let (splits, resident) = (u64::from(splits), u64::from(self.resident));
        let warps = u64::from(self.block.0 * self.block.1) / 32;
        let terms = (k as u64).div_ceil(8).div_ceil(splits) * 8;
        let passes = if self.is_cluster { 2 } else { 1 };
        let round = |blocks: u64| match blocks {
            0 => 0,
            _ => {
                let ends = OF_A_SUM * tm * tn + passes * blocks * rows * cols / STORED;
                ends + terms * alone.max((blocks * warps).div_ceil(4) * of_a_warp)
            }
        };
        let tiles = (m as u64).div_ceil(rows) * (n as u64).div_ceil(cols);
        let most = most_blocks(tiles, splits, resident);
        most / resident * round(resident) + round(most % resident)
    }
}

/// Returns the number of blocks on the multiprocessor that gets the most. There are `clusters` clusters of `splits` blocks,
/// and each multiprocessor has room for `resident` blocks at a time.
///
/// Single blocks and pairs spread evenly. Larger clusters do not: all blocks of a cluster run in one of the GPU's eight
/// graphics processing clusters. These get clusters in turns although one has fewer multiprocessors than the others, as the
/// times measured on an H200 show. If not all blocks fit at once, a cluster waits until each of its blocks has room.
fn most_blocks(clusters: u64, splits: u64, resident: u64) -> u64 {
    /// The parts of the GPU, the multiprocessors of the smallest part, and those of the parts that get one more cluster.
    const PARTS: u64 = 8;
    const SMALLEST: u64 = 15;
    const OTHERS: u64 = 16;
    let even = (clusters * splits).div_ceil(MULTIPROCESSORS);
    match splits {
        1 | 2 => even,
        _ if clusters * splits > resident * MULTIPROCESSORS => even + 1,
        // Two of seven never got a multiprocessor for each of their blocks.
        7 if clusters / PARTS == 2 => even.max(2),
        _ => {
            let least = (clusters / PARTS * splits).div_ceil(SMALLEST);
            least.max((clusters.div_ceil(PARTS) * splits).div_ceil(OTHERS))
        }
    }
}
