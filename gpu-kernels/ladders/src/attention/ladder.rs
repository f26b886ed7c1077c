//! What the rungs of the ladder share: their arguments, and the store of a tile.

use cuda_std::KernelArgs;
use cuda_std::half::{bf16, f32_to_bf16x2};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::LaunchConfig;
use cuda_std::mem::store_global;
use cuda_std::tensor::TensorMap;
use cuda_std::thread;
use cuda_std::wgmma::Accumulator;

use attention_kernels::panels::ROWS;
use common_kernels::ring::WARPGROUP;

/// Elements of a row of Q, K, V and the result: the head size.
pub const SIZE: usize = 128;

/// The arguments of a rung. The boxes of the maps have 64 columns of one head and one batch entry. The boxes of Q and of the
/// result have 64 positions; those of K and V have the rung's tile.
#[derive(Clone, Copy, Debug, KernelArgs)]
#[repr(C)]
pub struct LadderArgs {
    /// Q, for tensor copies.
    pub q_map: TensorMap,
    /// K, for tensor copies.
    pub k_map: TensorMap,
    /// V, for tensor copies.
    pub v_map: TensorMap,
    /// The result, for tensor copies.
    pub out_map: TensorMap,
    /// `[batch, queries, heads, SIZE]`, written.
    pub out: *mut bf16,
    /// `[batch, queries, heads, SIZE]`.
    pub q: *const bf16,
    /// `[batch, keys, heads, SIZE]`.
    pub k: *const bf16,
    /// `[batch, keys, heads, SIZE]`.
    pub v: *const bf16,
    /// `[batch, heads, queries, keys]`, for the rung that stores it. Otherwise null.
    pub matrix: *mut f32,
    /// Entries of the batch.
    pub batch: u32,
    /// Heads of each tensor.
    pub heads: u32,
    /// Positions of Q.
    pub queries: u32,
    /// Positions of K and V.
    pub keys: u32,
    /// The factor of Q K^T.
    pub scale: f32,
}

/// Queries of one head that are computed together.
#[derive(Clone, Copy, Debug)]
pub struct Tile {
    /// The first query.
    pub query: u32,
    /// The head.
    pub head: u32,
    /// The batch entry.
    pub batch: u32,
}

impl LadderArgs {
    /// Returns the number of tiles with `rows` queries.
    #[inline(always)]
    pub fn tiles(&self, rows: u32) -> u32 {
        self.queries / rows * self.heads * self.batch
    }

    /// Returns tile `number` of tiles with `rows` queries. The tiles of a head are consecutive.
    #[inline(always)]
    pub fn tile(&self, number: u32, rows: u32) -> Tile {
        let of_head = self.queries / rows;
        // SAFETY: there is a tile, so there are queries and heads. It keeps a panic out of the kernel.
        unsafe { core::hint::assert_unchecked(of_head != 0 && self.heads != 0) };
        let (query, head) = (number % of_head * rows, number / of_head);
        Tile { query, head: head % self.heads, batch: head / self.heads }
    }

    /// Returns the elements from one position to the next.
    #[inline(always)]
    pub fn stride(&self) -> usize {
        self.heads as usize * SIZE
    }

    /// Returns the offset of the tile's first query in Q and in the result.
    #[inline(always)]
    pub fn first_query(&self, tile: Tile) -> usize {
        let position = u64::from(tile.batch) * u64::from(self.queries) + u64::from(tile.query);
        position as usize * self.stride() + tile.head as usize * SIZE
    }

    /// Returns the offset of the first key of the tile's head in K and V.
    #[inline(always)]
    pub fn first_key(&self, tile: Tile) -> usize {
        let position = u64::from(tile.batch) * u64::from(self.keys);
        position as usize * self.stride() + tile.head as usize * SIZE
    }

    /// Returns the factor of the exponents, for powers of two.
    #[inline(always)]
    pub fn factor(&self) -> f32 {
        self.scale * core::f32::consts::LOG2_E
    }
}

/// What host code needs to launch a kernel of a rung.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RungShape {
    /// Queries of a block's tile. The queries are a multiple of it.
    pub queries: u32,
    /// Keys of a tile: positions of the boxes of K and V. The keys are a multiple of it.
    pub keys: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Whether the grid has at most one block per multiprocessor; each computes a share of the tiles.
    pub is_persistent: bool,
}

impl RungShape {
    /// Positions of the boxes of Q and of the result.
    pub const BOX_QUERIES: u32 = ROWS as u32;

    pub(super) const fn new([queries, keys]: [usize; 2], threads: u32, shared_bytes: usize) -> Self {
        let shared_bytes = shared_bytes as u32;
        Self { queries: queries as u32, keys: keys as u32, threads, shared_bytes, is_persistent: false }
    }

    pub(super) const fn persistent(self) -> Self {
        Self { is_persistent: true, ..self }
    }
}

#[cfg(not(target_arch = "nvptx64"))]
impl RungShape {
    /// Returns the launch for `tiles` tiles.
    pub fn config(&self, tiles: u32, multiprocessors: u32) -> LaunchConfig {
        let blocks = if self.is_persistent { tiles.min(multiprocessors).max(1) } else { tiles };
        LaunchConfig::new(blocks, self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// Rounds and writes a warpgroup's 64 rows of the result, from row `first` of the tile on.
///
/// # Safety
/// All threads of the warpgroup call this. The arguments are a rung's, and no other thread writes these rows.
#[inline(always)]
#[cfg_attr(not(target_arch = "nvptx64"), track_caller)]
pub unsafe fn store_rows(args: &LadderArgs, tile: Tile, first: u32, rows: &Accumulator<{ SIZE / 2 }>) {
    let thread = thread::thread_idx_x() % WARPGROUP;
    let to = args.out.wrapping_add(args.first_query(tile) + first as usize * args.stride());
    let mut i = 0;
    while i < SIZE / 2 {
        let (row, col) = Accumulator::<{ SIZE / 2 }>::position(thread, i);
        let pair = f32_to_bf16x2([rows.0[i], rows.0[i + 1]]);
        // SAFETY: two neighbours in the result, which only this thread writes.
        unsafe { store_global(to.add(row * args.stride() + col).cast(), pair) };
        i += 2;
    }
}
