//! What host code needs to launch the kernels.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelOf, KernelsOf, LaunchConfig};

use super::super::panels::ROWS;
use super::args::BackwardArgs;
use super::delta::{self, attention_delta};
use super::finish::{self, attention_finish};
use super::fused::{self, attention_gradients};
use super::separate::{self, attention_separate_gradients};
use super::serial::{self, attention_dkv_serial, attention_dq_serial};
use super::warpgroups::attention_warpgroup_gradients;

/// The tile of a kernel for all three gradients, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FusedShape {
    /// The largest number of elements of a row.
    pub head_size: u32,
    /// Keys of a tile.
    pub keys: u32,
    /// Queries of a tile.
    pub queries: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl FusedShape {
    /// Rows of the boxes of all maps.
    pub const BOX_ROWS: u32 = ROWS as u32;

    pub(super) const fn new(
        head_size: usize,
        keys: usize,
        queries: usize,
        [threads, stages, with]: [usize; 3],
    ) -> Self {
        Self {
            head_size: head_size as u32,
            keys: keys as u32,
            queries: queries as u32,
            threads: threads as u32,
            shared_bytes: fused::shared_bytes(head_size, keys, queries, stages, with) as u32,
        }
    }

    pub(super) const fn of_warpgroups(
        head_size: usize,
        tile: [u32; 2],
        threads: usize,
        shared_bytes: usize,
    ) -> Self {
        let [keys, queries] = tile;
        // The panels start at a multiple of 1024.
        let shared_bytes = (shared_bytes + 1024) as u32;
        Self { head_size: head_size as u32, keys, queries, threads: threads as u32, shared_bytes }
    }

    /// Returns the number of tiles for `keys` keys of all heads in a batch.
    pub fn tiles(&self, keys: u32, heads: u32, batch: u32) -> u64 {
        u64::from(keys.div_ceil(self.keys)) * u64::from(heads) * u64::from(batch)
    }

    /// Returns the numbers of sums over queries and over keys that [`BackwardKernels::SEPARATE`] adds up, for these tiles of
    /// keys and of queries.
    pub fn separate_sums(&self, of_keys: u64, of_queries: u64) -> [u64; 2] {
        [of_keys * u64::from(separate::blocks_of_keys(self.head_size)), of_queries]
    }

    /// Returns the elements of sums that each of its blocks needs if they share sums.
    pub fn elements_of_part(&self) -> usize {
        separate::elements_of_part(self.head_size)
    }

    /// Returns the launch for `blocks` blocks, which share the tiles.
    pub fn config(&self, blocks: u32) -> LaunchConfig {
        LaunchConfig::new(blocks, self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// An element type that has kernels.
pub trait BackwardKernels: Sized + 'static {
    /// The statistics of the queries, for [`FUSED`](Self::FUSED) and [`BY_WARPGROUPS`](Self::BY_WARPGROUPS).
    const DELTA: &'static KernelOf<BackwardArgs<Self>>;
    /// All three gradients, dQ as sums: the smaller head sizes first, and of one head size the fastest.
    const FUSED: &'static [KernelOf<BackwardArgs<Self>, FusedShape>];
    /// The same by `wgmma`, through maps: the smaller head size first.
    const BY_WARPGROUPS: &'static [KernelOf<BackwardArgs<Self>, FusedShape>];
    /// The gradients by `wgmma`, through maps, each in blocks of its own.
    const SEPARATE: &'static [KernelOf<BackwardArgs<Self>, FusedShape>];
    /// The gradient of Q from its sums.
    const FINISH: &'static KernelOf<BackwardArgs<Self>>;
    /// The gradient of Q, and the statistics of the queries, on a CPU.
    const SERIAL_QUERIES: &'static KernelOf<BackwardArgs<Self>>;
    /// The gradients of K and V on a CPU.
    const SERIAL_KEYS: &'static KernelOf<BackwardArgs<Self>>;
}

/// Returns the launch of [`BackwardKernels::DELTA`] for `rows` padded queries of all heads.
pub fn delta_config(rows: u32) -> LaunchConfig {
    LaunchConfig::new(rows.div_ceil(delta::BLOCK_ROWS).max(1), delta::THREADS)
}

/// Returns the launch of [`BackwardKernels::FINISH`] for `rows` padded queries of all heads.
pub fn finish_config(rows: u32) -> LaunchConfig {
    LaunchConfig::new(rows.div_ceil(finish::BLOCK_ROWS), finish::THREADS)
}

/// Returns the launch of [`BackwardKernels::SERIAL_QUERIES`] for the queries of all heads, or of
/// [`BackwardKernels::SERIAL_KEYS`] for the keys, and its number of blocks along x.
pub fn serial_config(length: u32, heads: u32, batch: u32) -> (LaunchConfig, u64) {
    let tiles = length.div_ceil(serial::ROWS as u32);
    let blocks = u64::from(tiles) * u64::from(heads) * u64::from(batch);
    (LaunchConfig::new(blocks as u32, 1).with_shared_bytes(serial::SHARED_BYTES as u32), blocks)
}

macro_rules! kernels {
    ($($ty:ident),*) => {$(
        impl BackwardKernels for $ty {
            const DELTA: &'static KernelOf<BackwardArgs<Self>> =
                &<attention_delta as KernelsOf<BackwardArgs<$ty>>>::INSTANCES[0];
            const FUSED: &'static [KernelOf<BackwardArgs<Self>, FusedShape>] =
                <attention_gradients as KernelsOf<BackwardArgs<$ty>>>::INSTANCES;
            const BY_WARPGROUPS: &'static [KernelOf<BackwardArgs<Self>, FusedShape>] =
                <attention_warpgroup_gradients as KernelsOf<BackwardArgs<$ty>>>::INSTANCES;
            const SEPARATE: &'static [KernelOf<BackwardArgs<Self>, FusedShape>] =
                <attention_separate_gradients as KernelsOf<BackwardArgs<$ty>>>::INSTANCES;
            const FINISH: &'static KernelOf<BackwardArgs<Self>> =
                &<attention_finish as KernelsOf<BackwardArgs<$ty>>>::INSTANCES[0];
            const SERIAL_QUERIES: &'static KernelOf<BackwardArgs<Self>> =
                &<attention_dq_serial as KernelsOf<BackwardArgs<$ty>>>::INSTANCES[0];
            const SERIAL_KEYS: &'static KernelOf<BackwardArgs<Self>> =
                &<attention_dkv_serial as KernelsOf<BackwardArgs<$ty>>>::INSTANCES[0];
        }
    )*};
}

kernels! { f16, bf16 }
