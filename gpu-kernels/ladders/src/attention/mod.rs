//! The ladder of attention, one idea per file, explained in `docs/attention-ladder.md`: its arguments, its list of rungs,
//! and what the rungs share.
//!
//! Every rung computes `out = softmax(scale Q K^T) V` of `bf16` for each head, without a mask. All tensors are dense, in the
//! order batch, length, heads, [`SIZE`]. The lengths are multiples of the rung's tiles.

pub mod r01_matrix;

pub mod r02_online;

pub mod r03_mma_sync;

pub mod r04_wgmma;

pub mod r05_specialised;

pub mod r06_overlap;

pub mod r07_persistent;

use cuda_std::KernelArgs;
use cuda_std::half::{bf16, f32_to_bf16x2};
#[cfg(not(target_arch = "nvptx64"))]
use cuda_std::launch::{KernelOf, KernelsOf, LaunchConfig, RawBuffer};
use cuda_std::mem::store_global;
use cuda_std::tensor::TensorMap;
use cuda_std::thread;
use cuda_std::wgmma::{Accumulator, Panel};

use attention_kernels::panels::{COLS, ROWS};
use attention_kernels::ring::WARPGROUP;

/// Elements of a row of Q, K, V and the result: the head size.
pub const SIZE: usize = 128;

/// Rows in shared memory, in the layout that `wgmma` reads: panels of 64 columns.
pub type Rows<const COUNT: usize> = [Panel<bf16, COUNT>; SIZE / COLS];

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

/// [`LadderArgs`] as the host passes it: with `RawBuffer`s instead of pointers.
#[cfg(not(target_arch = "nvptx64"))]
pub type LadderLaunch =
    LadderArgsHost<RawBuffer<bf16>, RawBuffer<bf16>, RawBuffer<bf16>, RawBuffer<bf16>, RawBuffer<f32>>;

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

/// A rung of the ladder.
#[cfg(not(target_arch = "nvptx64"))]
#[derive(Debug)]
pub struct Rung {
    /// Its name, which is its file's.
    pub name: &'static str,
    /// Its idea, in one line.
    pub idea: &'static str,
    /// Its kernels, in launch order.
    pub kernels: &'static [&'static KernelOf<LadderArgs, RungShape>],
    /// Whether it stores the matrix of queries and keys.
    pub has_matrix: bool,
}

#[cfg(not(target_arch = "nvptx64"))]
macro_rules! rungs {
    ($($name:literal, [$($kernel:path),*], $has_matrix:literal, $idea:literal;)*) => {
        /// The rungs, in order.
        pub const RUNGS: &[Rung] = &[$(Rung {
            name: $name,
            idea: $idea,
            kernels: &[$(&<$kernel as KernelsOf<LadderArgs>>::INSTANCES[0]),*],
            has_matrix: $has_matrix,
        }),*];
    };
}

#[cfg(not(target_arch = "nvptx64"))]
rungs! {
    "r01_matrix",
        [r01_matrix::attention_01_logits, r01_matrix::attention_01_softmax, r01_matrix::attention_01_values], true,
        "three kernels, with the matrix of queries and keys in global memory";
    "r02_online", [r02_online::attention_02_online], false,
        "tiles of queries and keys in shared memory, and an online softmax";
    "r03_mma_sync", [r03_mma_sync::attention_03_mma_sync], false,
        "tensor cores by mma.sync, fed by ldmatrix and cp.async";
    "r04_wgmma", [r04_wgmma::attention_04_wgmma], false,
        "wgmma reads shared memory that tensor copies fill";
    "r05_specialised", [r05_specialised::attention_05_specialised], false,
        "one warpgroup copies, and two multiply";
    "r06_overlap", [r06_overlap::attention_06_overlap], false,
        "the softmax runs under the multiplications of other keys";
    "r07_persistent", [r07_persistent::attention_07_persistent], false,
        "a block per multiprocessor, tensor copies store a tile under the next one, and warpgroups take turns";
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
