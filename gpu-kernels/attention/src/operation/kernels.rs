//! What host code needs to choose and to launch the kernels.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelOf, KernelsOf, LaunchConfig};

use super::super::args::AttentionArgs;
use super::combine::{self, attention_combine};
use super::key_splits::{self, attention_splits};
use super::row_tiles::{self, attention_rows};
use super::serial::{self, attention_serial};
use super::warpgroups::{self, attention_warpgroups};

/// The tile of a `wgmma` kernel, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupShape {
    /// The largest number of elements of a row.
    pub head_size: u32,
    /// Keys of a tile: rows of the boxes of K and V.
    pub keys: u32,
    /// Queries of a tile.
    pub queries: u32,
    /// Whether it takes pages, and lengths of the batch entries.
    pub is_ragged: bool,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl WarpgroupShape {
    /// Rows of the boxes of Q and of the result.
    pub const BOX_QUERIES: u32 = 64;
    /// Columns of all boxes.
    pub const BOX_COLS: u32 = 64;

    pub(super) const fn new(
        head_size: usize,
        keys: usize,
        consumers: usize,
        is_ragged: bool,
        threads: usize,
    ) -> Self {
        // 1024 spare bytes: the panels start at an address that is a multiple of 1024.
        let shared_bytes = (warpgroups::shared_bytes(head_size, keys, consumers, is_ragged) + 1024) as u32;
        let queries = Self::BOX_QUERIES * consumers as u32;
        Self {
            head_size: head_size as u32,
            keys: keys as u32,
            queries,
            is_ragged,
            threads: threads as u32,
            shared_bytes,
        }
    }

    /// Returns whether a block can compute several tiles.
    pub fn has_many_tiles(&self) -> bool {
        warpgroups::has_many_tiles(self.head_size as usize, self.is_ragged)
    }

    /// Returns the number of tiles for the queries of all heads in a batch.
    pub fn tiles(&self, queries: u32, heads: u32, batch: u32) -> u64 {
        (u64::from(queries.div_ceil(self.queries)) * u64::from(heads)).saturating_mul(batch.into())
    }

    /// Returns the launch for `blocks` blocks, which share the tiles, or have one each unless [`Self::has_many_tiles`].
    pub fn config(&self, blocks: u32) -> LaunchConfig {
        LaunchConfig::new(blocks, self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// The tile of a kernel that splits the keys, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitShape {
    /// The largest number of elements of a row.
    pub head_size: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl SplitShape {
    /// Rows of a tile: queries of the heads that share a head of K and V.
    pub const ROWS: u32 = key_splits::ROWS as u32;
    /// Keys of a tile. A split has whole tiles.
    pub const KEYS: u32 = key_splits::KEYS as u32;
    /// The largest number of splits.
    pub const MOST_SPLITS: u32 = combine::MOST_SPLITS;

    pub(super) const fn new(head_size: usize, warps: usize) -> Self {
        Self {
            head_size: head_size as u32,
            threads: 32 * warps as u32,
            shared_bytes: key_splits::shared_bytes(head_size, warps) as u32,
        }
    }

    /// Returns the number of tiles for `queries` queries of `heads` heads, which share `key_heads` heads of K and V evenly.
    pub fn tiles(queries: u32, heads: u32, key_heads: u32, batch: u32) -> u64 {
        tiles_of_rows(Self::ROWS, queries, heads, key_heads, batch)
    }

    /// Returns the launch for `blocks` blocks: one per split of each tile.
    pub fn config(&self, blocks: u32) -> LaunchConfig {
        LaunchConfig::new(blocks, self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// The tile of a kernel for many queries by `mma.sync`, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowShape {
    /// The largest number of elements of a row.
    pub head_size: u32,
    /// Rows of a tile: queries of the heads that share a head of K and V.
    pub rows: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Whether K and V are in pages.
    pub is_paged: bool,
}

impl RowShape {
    pub(super) const fn new(
        head_size: usize,
        rows: usize,
        keys: usize,
        threads: usize,
        is_paged: bool,
    ) -> Self {
        Self {
            is_paged,
            head_size: head_size as u32,
            rows: rows as u32,
            threads: threads as u32,
            shared_bytes: row_tiles::shared_bytes(head_size, rows, keys, threads / 32) as u32,
        }
    }

    /// Returns the number of tiles for `queries` queries of `heads` heads, which share `key_heads` heads of K and V evenly.
    pub fn tiles(&self, queries: u32, heads: u32, key_heads: u32, batch: u32) -> u64 {
        tiles_of_rows(self.rows, queries, heads, key_heads, batch)
    }

    /// Returns the launch for `blocks` blocks: one per tile.
    pub fn config(&self, blocks: u32) -> LaunchConfig {
        LaunchConfig::new(blocks, self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// Returns the number of tiles of `rows` rows: queries of the heads that share a head of K and V.
fn tiles_of_rows(rows: u32, queries: u32, heads: u32, key_heads: u32, batch: u32) -> u64 {
    let all = u64::from(queries) * u64::from(heads / key_heads.max(1));
    all.div_ceil(rows.into()).saturating_mul(key_heads.into()).saturating_mul(batch.into())
}

/// An element type that has kernels.
pub trait AttentionKernels: Sized + 'static {
    /// The `wgmma` kernels.
    const WARPGROUPS: &'static [KernelOf<AttentionArgs<Self>, WarpgroupShape>];
    /// The kernels for many queries by `mma.sync`.
    const ROWS: &'static [KernelOf<AttentionArgs<Self>, RowShape>];
    /// The kernels that split the keys.
    const SPLITS: &'static [KernelOf<AttentionArgs<Self>, SplitShape>];
    /// The kernel that adds up the partial results of the splits.
    const COMBINE: &'static KernelOf<AttentionArgs<Self>>;
    /// The kernel for a CPU.
    const SERIAL: &'static KernelOf<AttentionArgs<Self>>;
}

/// Returns the launch of [`AttentionKernels::SERIAL`], and its number of blocks along x.
pub fn serial_config(queries: u32, heads: u32, batch: u32) -> (LaunchConfig, u64) {
    let tiles = queries.div_ceil(serial::ROWS as u32);
    let blocks = u64::from(tiles) * u64::from(heads) * u64::from(batch);
    let config = LaunchConfig::new(blocks as u32, 1).with_shared_bytes(serial::SHARED_BYTES as u32);
    (config, blocks)
}

/// Returns the launch of [`AttentionKernels::COMBINE`] for `rows` rows: the queries of all heads in the batch. The launch
/// begins while the previous one ends.
pub fn combine_config(rows: u32) -> LaunchConfig {
    LaunchConfig::new(rows, combine::THREADS).with_programmatic_stream_serialization()
}

macro_rules! kernels {
    ($($ty:ident),*) => {$(
        impl AttentionKernels for $ty {
            const WARPGROUPS: &'static [KernelOf<AttentionArgs<Self>, WarpgroupShape>] =
                <attention_warpgroups as KernelsOf<AttentionArgs<$ty>>>::INSTANCES;
            const ROWS: &'static [KernelOf<AttentionArgs<Self>, RowShape>] =
                <attention_rows as KernelsOf<AttentionArgs<$ty>>>::INSTANCES;
            const SPLITS: &'static [KernelOf<AttentionArgs<Self>, SplitShape>] =
                <attention_splits as KernelsOf<AttentionArgs<$ty>>>::INSTANCES;
            const COMBINE: &'static KernelOf<AttentionArgs<Self>> =
                &<attention_combine as KernelsOf<AttentionArgs<$ty>>>::INSTANCES[0];
            const SERIAL: &'static KernelOf<AttentionArgs<Self>> =
                &<attention_serial as KernelsOf<AttentionArgs<$ty>>>::INSTANCES[0];
        }
    )*};
}

kernels! { f16, bf16 }
