//! The rows and columns that a kernel can take, and its launches.

use cuda_std::launch::LaunchConfig;

use super::row::{log_threads, padded};

/// The rows that a kernel can hold in registers or in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsShape {
    /// The largest number of columns of a block.
    pub cols: u32,
    /// Threads of a block.
    pub block: u32,
    /// Rows that a block has at a time, if it has the largest number of columns.
    rows: u32,
    /// Whether as many threads hold a row as it needs, and a block has the more rows.
    is_narrow: bool,
    /// Blocks that a multiprocessor has registers for, where blocks take rows in turns.
    pub blocks: u32,
    /// The largest number of blocks of a cluster that share a row.
    pub most: u32,
    /// Elements of a vector, if rows without gaps start at any of them; otherwise 1.
    pub vector: u32,
    /// Bytes of dynamic shared memory, at most.
    pub shared: u32,
    /// If the shared memory holds the row: from how many columns on the kernel is the fastest. Otherwise 0.
    pub in_shared_from: u32,
    /// Whether the kernel requires the flag `ALIGNED`.
    pub is_whole: bool,
    /// Whether the kernel is the fastest if each block has its own multiprocessor.
    pub is_for_few: bool,
}

impl RowsShape {
    pub(super) const fn new(cols: usize, block: usize, threads: usize) -> Self {
        let (cols, block, rows) = (cols as u32, block as u32, (block / threads) as u32);
        Self {
            cols,
            block,
            rows,
            is_narrow: false,
            blocks: 1,
            most: 1,
            vector: 1,
            shared: 0,
            in_shared_from: 0,
            is_whole: false,
            is_for_few: false,
        }
    }

    /// Sets whether only as many threads hold a row as it needs.
    pub(super) const fn narrow(self, is_narrow: bool) -> Self {
        Self { is_narrow, ..self }
    }

    /// Returns the number of rows of `cols` columns that a block has at a time.
    pub fn rows(&self, cols: u32) -> u32 {
        let log = log_threads(cols, self.cols * self.rows / self.block);
        if self.is_narrow { self.block >> log } else { self.rows }
    }

    /// Sets that a block holds its vectors of `n` elements in shared memory, which is fastest from `least` columns on.
    pub(super) const fn in_shared(self, n: usize, least: u32) -> Self {
        Self { shared: self.cols * (16 / n as u32), in_shared_from: least, is_whole: true, ..self }
    }

    /// Sets [`Self::is_whole`] and [`Self::is_for_few`].
    pub(super) const fn of_rows(self, is_whole: bool, is_for_few: bool) -> Self {
        Self { is_whole, is_for_few, ..self }
    }

    /// Gives each thread shared memory for the weights of its vectors of `n` elements. With `is_shifted`, rows without gaps
    /// start at any element of a vector, and at the end each group of threads has a sum for each column there.
    pub(super) const fn with_weights(self, n: usize, is_shifted: bool) -> Self {
        let vector = n as u32;
        let weights = self.cols * self.rows * (16 / vector);
        if !is_shifted {
            return Self { shared: weights, ..self };
        }
        let sums = 4 * padded((self.cols * self.rows) as usize) as u32;
        let shared = if weights > sums { weights } else { sums };
        Self { cols: self.cols - (vector - 1), vector, shared, ..self }
    }

    /// Returns whether the kernel takes only rows without gaps that start at any element of a vector.
    pub fn is_shifted(&self) -> bool {
        self.vector > 1
    }

    /// Sets the largest number of blocks of a cluster.
    pub(super) const fn in_clusters(self, most: usize) -> Self {
        Self { most: most as u32, ..self }
    }

    /// Sets the number of blocks per multiprocessor.
    pub(super) const fn with_blocks(self, blocks: usize) -> Self {
        Self { blocks: blocks as u32, ..self }
    }

    /// Returns whether the kernel holds rows of `cols` columns, in clusters of at most `max_cluster` blocks. A cluster that
    /// holds them in registers has at least two blocks.
    pub fn holds(&self, cols: usize, max_cluster: u32) -> bool {
        let (cols, of_block) = (cols as u64, u64::from(self.cols));
        let is_for_clusters = self.most > 1 && self.in_shared_from == 0;
        // The last vector that a row shares ends in the next row.
        let ends_in_next = cols + 1 >= u64::from(self.vector);
        ends_in_next
            && cols <= of_block * u64::from(self.most.min(max_cluster))
            && (cols > of_block || !is_for_clusters)
    }

    /// Returns the number of blocks of a cluster that share a row of `cols` columns.
    fn cluster(&self, cols: u32) -> u32 {
        cols.div_ceil(self.cols).max(1).next_power_of_two()
    }

    /// Returns the launch for a matrix.
    pub fn config(&self, [rows, cols]: [u32; 2]) -> LaunchConfig {
        let cluster = self.cluster(cols);
        // Blocks have equal numbers of vectors, except the last.
        let shared = if self.in_shared_from > 0 {
            (cols * (self.shared / self.cols) / 16).div_ceil(cluster) * 16
        } else {
            0
        };
        LaunchConfig::new(rows.div_ceil(self.rows(cols)) * cluster, self.block)
            .with_cluster(cluster)
            .with_shared_bytes(shared)
    }

    /// Returns the number of blocks, or clusters, that take the rows in turns on `multiprocessors` multiprocessors. Larger
    /// clusters do not all fit at the same time, so there are four times as many.
    pub fn parts(&self, [rows, cols]: [u32; 2], multiprocessors: u32) -> u32 {
        let cluster = self.cluster(cols);
        let at_once = self.blocks * multiprocessors / cluster * if cluster > 2 { 4 } else { 1 };
        // All rows of a thread start at the same element of a vector.
        let at_a_time = self.rows(cols);
        let step = (self.vector >> (at_a_time * cols).trailing_zeros()).max(1);
        rows.div_ceil(at_a_time).clamp(1, (at_once - at_once % step).max(step))
    }

    /// Returns the launch for `parts` parts of rows of `cols` columns.
    pub fn config_of_parts(&self, parts: u32, cols: u32) -> LaunchConfig {
        let cluster = self.cluster(cols);
        LaunchConfig::new(parts * cluster, self.block).with_cluster(cluster).with_shared_bytes(self.shared)
    }
}

/// The columns of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnsShape {
    /// Columns.
    pub cols: u32,
    /// Threads.
    pub block: u32,
}

impl ColumnsShape {
    pub(super) const fn new(cols: usize, block: usize) -> Self {
        Self { cols: cols as u32, block: block as u32 }
    }

    /// Returns the launch for `cols` columns and `parts` parts of the rows.
    pub fn config(&self, cols: u32, parts: u32) -> LaunchConfig {
        LaunchConfig::new((cols.div_ceil(self.cols), parts), self.block)
    }
}

/// The rows and columns of a block of a small matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FewShape {
    /// Threads.
    pub block: u32,
    /// Vectors of a thread.
    pub vectors: u32,
    /// Elements of a vector.
    pub n: u32,
    /// Vectors side by side of a block that has columns.
    pub lanes: u32,
}

impl FewShape {
    /// Returns the launch for a matrix: with few rows a block has one. If `has_columns`, there are blocks for the columns too.
    pub fn config(&self, [rows, cols]: [u32; 2], has_columns: bool, multiprocessors: u32) -> LaunchConfig {
        let mut at_once = 1;
        let most = self.block / cols.div_ceil(self.vectors * self.n).next_power_of_two().min(self.block);
        while at_once < most && rows.div_ceil(at_once) > multiprocessors {
            at_once *= 2;
        }
        let of_columns = if has_columns { cols.div_ceil(self.lanes * self.n) } else { 0 };
        LaunchConfig::new(of_columns + rows.div_ceil(at_once), self.block)
    }
}
