//! The rows that a kernel takes, and its launch for them. The kernels state it, so nothing here names a kernel.

use cuda_std::launch::{KernelOf, LaunchConfig, Limits};

use super::stage;

/// Threads of a block, each with its own row: few, so that a few rows keep many cores busy.
pub(super) const SERIAL_BLOCK: u32 = 8;

/// Which rows a kernel takes.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// Threads of a block.
    pub block: u32,
    /// Threads that hold a row, or a block's part of it.
    pub threads: u32,
    /// Elements that these threads hold in vectors. Less than a vector lies before these, and less than one after.
    pub elements: u32,
    /// Rows that each thread holds a part of.
    pub rows: u32,
    /// Whether a cluster of blocks holds a row, with `elements` elements in each block.
    pub is_cluster: bool,
    /// What a block holds in shared memory, if the row is held there.
    pub staged: Option<Staged>,
}

/// Rows that a block, or a cluster, holds in shared memory.
#[derive(Clone, Copy, Debug)]
pub struct Staged {
    /// Elements of a vector.
    pub vector: u32,
    /// Matrices whose rows it holds.
    pub matrices: u32,
}

impl Fit {
    /// For rows of vectors of `N` elements; `threads` threads hold `vectors` vectors each.
    pub const fn of<const N: usize>(block: usize, threads: usize, vectors: usize, is_cluster: bool) -> Self {
        let elements = (N * threads * vectors) as u32;
        Self { elements, is_cluster, threads: threads as u32, ..Self::any_width(block) }
    }

    /// For rows of any width, one block per row.
    pub const fn any_width(block: usize) -> Self {
        let block = block as u32;
        Self { threads: block, ..Self::serial(block) }
    }

    /// For rows that a block or a cluster holds in shared memory, if the device has enough: a row of each of `matrices`
    /// matrices, in vectors of `N` elements.
    pub const fn staged<const N: usize>(block: usize, matrices: u32) -> Self {
        let staged = Some(Staged { vector: N as u32, matrices });
        Self { is_cluster: true, staged, ..Self::any_width(block) }
    }

    /// Sets the number of rows that each thread holds a part of.
    pub const fn with_rows(self, rows: usize) -> Self {
        Self { rows: rows as u32, ..self }
    }

    /// Returns the rows of a block, or of a cluster.
    pub const fn rows_at_once(&self) -> u32 {
        self.block / self.threads * self.rows
    }

    /// For rows of any width, one thread per row.
    pub const fn serial(block: u32) -> Self {
        Self { block, threads: 1, elements: u32::MAX, rows: 1, is_cluster: false, staged: None }
    }

    /// Like [`Self::of`], or for rows of any width, with one block or one thread per row.
    pub const fn of_any<const N: usize>(
        block: usize,
        threads: usize,
        vectors: usize,
        is_any_width: bool,
    ) -> Self {
        if is_any_width {
            Self { threads: threads as u32, ..Self::any_width(block) }
        } else {
            Self::of::<N>(block, threads, vectors, false)
        }
    }

    /// For rows that a warp holds, `vectors` vectors of `N` elements per lane; or any width, a block or a thread per row.
    pub const fn of_warps<const N: usize>(block: usize, threads: usize, vectors: usize) -> Self {
        match threads {
            1 => Self::serial(SERIAL_BLOCK),
            32 => Self::of::<N>(block, threads, vectors, false),
            // Wider rows are faster with more threads.
            64 => Self { elements: 4096, ..Self::any_width(block) },
            _ => Self::any_width(block),
        }
    }

    /// Returns whether a cluster shares a row and holds nothing of it, for any width.
    pub const fn streams(&self) -> bool {
        matches!(self.staged, Some(Staged { matrices: 0, .. }))
    }

    /// Returns the dynamic shared memory of a block that holds one of `blocks` parts of a row of `cols` columns.
    pub const fn shared_bytes(&self, cols: usize, blocks: u32) -> usize {
        match self.staged {
            Some(Staged { matrices: 0, .. }) => 0,
            Some(Staged { vector, matrices }) => {
                stage::shared_bytes(cols / vector as usize, blocks, matrices)
            }
            None => 0,
        }
    }
}

/// A variant of a kernel, with arguments `A`, for rows up to a width.
pub type Variant<A> = KernelOf<A, Fit>;

/// A kernel, and the number of blocks that hold a row together.
#[derive(Debug)]
pub struct Spread<A: 'static> {
    /// The kernel.
    pub variant: &'static Variant<A>,
    /// 1, or the blocks of a cluster.
    pub blocks: u32,
}

impl<A> Clone for Spread<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for Spread<A> {}

impl<A> Spread<A> {
    /// A kernel whose blocks hold one row or more each.
    pub const fn one(variant: &'static Variant<A>) -> Self {
        Self { variant, blocks: 1 }
    }

    /// Returns the variants that hold rows of `cols` columns in shared memory: the kernel with each number of blocks that a
    /// device with these limits supports, the fewest first.
    pub fn staged(variant: &'static Variant<A>, limits: &Limits, cols: usize) -> impl Iterator<Item = Self> {
        // Some clusters need no dynamic shared memory, so that limit alone does not rule out devices without clusters.
        let is_there = limits.runs(variant.meta);
        let most = limits.max_dynamic_shared_bytes;
        let max_cluster = limits.max_cluster.min(limits.max_grid.x);
        let sizes = [1, 2, 4, 8, 16].into_iter().filter(move |&blocks| blocks == 1 || blocks <= max_cluster);
        let all = sizes.map(move |blocks| Self { variant, blocks });
        all.filter(move |spread| is_there && spread.shared_bytes(cols) <= most as usize)
    }

    /// Returns the dynamic shared memory of a block, for rows of `cols` columns.
    pub fn shared_bytes(&self, cols: usize) -> usize {
        self.variant.shared_bytes(cols, self.blocks)
    }

    /// Returns the rows of a block, or of a cluster.
    pub fn rows_at_once(&self) -> u32 {
        self.variant.rows_at_once()
    }

    /// Returns the launch for `rows` rows of `cols` columns.
    pub fn config(&self, rows: u32, cols: usize) -> LaunchConfig {
        LaunchConfig::new(rows.div_ceil(self.rows_at_once()) * self.blocks, self.variant.block)
            .with_cluster(self.blocks)
            .with_shared_bytes(self.shared_bytes(cols) as u32)
    }
}

/// The kernels of an operation on rows.
#[derive(Debug)]
pub struct RowVariants<A: 'static> {
    /// The kernels for narrow rows first. The last two take any width: with a block per row, and for a CPU with a thread.
    pub variants: &'static [Variant<A>],
    /// The kernel whose blocks or clusters hold a row in shared memory, or whose clusters hold nothing of it.
    pub staged: Option<&'static Variant<A>>,
    /// The smallest number of columns for which it beats registers when there are many rows. For a cluster that holds
    /// nothing, the fewest columns of a block.
    pub staged_from: usize,
}
