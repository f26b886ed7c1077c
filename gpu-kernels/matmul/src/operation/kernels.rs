//! What host code needs to choose and to launch the kernels.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{Dim3, KernelOf, KernelsOf, LaunchConfig};

use super::super::args::MatmulArgs;
use super::super::copies::TileLayout;
use super::align::{self, AlignArgs, matmul_align, matmul_fold};
use super::few_rows::{self, matmul_few_rows};
use super::few_rows_f32::matmul_few_rows_f32;
use super::reduce::{self, matmul_reduce};
use super::serial::{SHARED_BYTES, TILE_COLS, TILE_ROWS, matmul_serial};
use super::split::{SIDE, SplitArgs, matmul_split};
use super::tensor_tiles::{matmul_tiles, sums_bytes};
use super::three_products::matmul_three_products;
use super::warpgroup_operand::is_swapped;
use super::warpgroup_tiles::matmul_warpgroups;
use super::warpgroup_work::{ROWS, terms};

/// The tile of a block, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileShape {
    /// Rows of the result.
    pub rows: u32,
    /// Columns of the result.
    pub cols: u32,
    /// Terms of a buffer: a split of k has whole buffers.
    pub terms: u32,
    /// Rows and columns of a warp's part.
    pub warp: [u32; 2],
    /// Threads of the block.
    pub threads: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Whether A is stored by rows.
    pub a_along_k: bool,
    /// Whether B is stored as its transpose.
    pub b_along_k: bool,
    /// Whether `f32` is multiplied as three products of TF32.
    pub is_three_products: bool,
    /// Whether the rows of the operands may start and end anywhere, and not only at multiples of 16 bytes.
    pub gathers: bool,
}

impl TileShape {
    pub(super) const fn new(
        [rows, cols, terms]: [usize; 3],
        [warp_rows, warp_cols]: [usize; 2],
        along_k: [usize; 2],
        [stages, bytes]: [usize; 2],
        [is_three_products, gathers]: [bool; 2],
    ) -> Self {
        let warps = rows / warp_rows * (cols / warp_cols);
        let a = TileLayout::new(along_k[0] == 1, rows, terms, bytes);
        let b = TileLayout::new(along_k[1] == 1, cols, terms, bytes);
        let stages_bytes = stages * (a.bytes() + b.bytes()) as usize;
        let sums_bytes = warps * sums_bytes(warp_rows, warp_cols);
        let shared_bytes = if sums_bytes > stages_bytes { sums_bytes } else { stages_bytes };
        Self {
            rows: rows as u32,
            cols: cols as u32,
            terms: terms as u32,
            warp: [warp_rows as u32, warp_cols as u32],
            threads: 32 * warps as u32,
            shared_bytes: shared_bytes as u32,
            a_along_k: along_k[0] == 1,
            b_along_k: along_k[1] == 1,
            is_three_products,
            gathers,
        }
    }

    /// Returns the launch for a result of `m` x `n`, `splits` splits of k, and a batch.
    pub fn config(&self, [m, n]: [u32; 2], splits: u32, batch: u32) -> LaunchConfig {
        let tiles = m.div_ceil(self.rows) * n.div_ceil(self.cols);
        overlapping((tiles, splits, batch), self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// The tile of a kernel for few rows, and its resources. The blocks of a cluster split k.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FewRowsShape {
    /// Rows of A that a tile has; it has [`Self::COLS`] columns of B.
    pub rows: u32,
    /// Terms of a stage, and the width of every box.
    pub terms: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Whether B is stored as its transpose.
    pub b_along_k: bool,
    /// Whether tensor cores multiply.
    pub has_tensor_cores: bool,
}

impl FewRowsShape {
    /// Columns of a tile.
    pub const COLS: u32 = ROWS as u32;
    /// The largest number of blocks of a cluster that every GPU with clusters supports.
    pub const MOST_IN_CLUSTER: u32 = 8;

    pub(super) const fn new(rows: usize, b_along_k: usize, bytes: usize, shared_bytes: usize) -> Self {
        let shared_bytes = shared_bytes as u32 + 1024;
        let (rows, terms, b_along_k) = (rows as u32, terms(bytes) as u32, b_along_k == 1);
        Self { rows, terms, shared_bytes, b_along_k, has_tensor_cores: true }
    }

    pub(super) const fn without_tensor_cores(self) -> Self {
        Self { has_tensor_cores: false, ..self }
    }

    /// Returns the rows of the boxes of A and of B.
    pub fn box_rows(&self) -> [u32; 2] {
        [self.rows, if self.b_along_k { Self::COLS } else { self.terms }]
    }

    /// Returns the launch for a result of `m` x `n`, `splits` splits of k, and a batch. With `folds`, the rows of B are folded, and
    /// the splits are the rows of a group.
    pub fn config(&self, [m, n]: [u32; 2], splits: u32, folds: bool, batch: u32) -> LaunchConfig {
        let tiles = m.div_ceil(self.rows) * n.div_ceil(if folds { Self::COLS - splits } else { Self::COLS });
        let config = overlapping((tiles * splits, 1, batch), few_rows::THREADS);
        config.with_cluster(splits).with_shared_bytes(self.shared_bytes)
    }
}

/// The tile of a `wgmma` kernel, and its resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpgroupShape {
    /// Rows of a tile.
    pub rows: u32,
    /// Columns of a tile.
    pub cols: u32,
    /// Terms of a stage: a split of k has whole stages. It is also the width of every box.
    pub terms: u32,
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// Whether A is stored by rows.
    pub a_along_k: bool,
    /// Whether B is stored as its transpose.
    pub b_along_k: bool,
    /// Whether the warpgroups of a block take turns with whole tiles. Otherwise each has half of every tile.
    pub alternates: bool,
}

impl WarpgroupShape {
    /// Rows of the boxes of the result.
    pub const OUT_BOX_ROWS: u32 = 64;

    pub(super) const fn new(
        [rows, cols]: [usize; 2],
        along_k: [usize; 2],
        bytes: usize,
        shared_bytes: usize,
    ) -> Self {
        let alternates = rows == 64;
        let [rows, cols] = if is_swapped(bytes, along_k[1]) { [cols, rows] } else { [rows, cols] };
        Self {
            rows: rows as u32,
            cols: cols as u32,
            terms: terms(bytes) as u32,
            // The stages start at a multiple of 1024.
            shared_bytes: shared_bytes as u32 + 1024,
            a_along_k: along_k[0] == 1,
            b_along_k: along_k[1] == 1,
            alternates,
        }
    }

    /// Returns the rows of the boxes of A and of B.
    pub fn box_rows(&self) -> [u32; 2] {
        let rows = |along_k: bool, side: u32| if along_k { side } else { self.terms };
        [rows(self.a_along_k, self.rows), rows(self.b_along_k, self.cols)]
    }

    /// Returns the number of units: the tiles of all matrices and splits.
    pub fn units(&self, [m, n]: [u32; 2], splits: u32, batch: u32) -> u64 {
        let tiles = u64::from(m.div_ceil(self.rows)) * u64::from(n.div_ceil(self.cols));
        tiles.saturating_mul(splits.into()).saturating_mul(batch.into())
    }

    /// Returns the launch for `units` units on a GPU with `multiprocessors` multiprocessors.
    pub fn config(&self, units: u64, multiprocessors: usize) -> LaunchConfig {
        let blocks = units.min(multiprocessors as u64).max(1) as u32;
        overlapping((blocks, 1, 1), 384).with_shared_bytes(self.shared_bytes)
    }
}

/// The launch of a kernel that calls [`begin`](super::super::args::begin).
fn overlapping(grid: (u32, u32, u32), block: impl Into<Dim3>) -> LaunchConfig {
    LaunchConfig::new(grid, block).with_programmatic_stream_serialization()
}

/// An operand type that has kernels.
pub trait MatmulKernels: Sized + 'static {
    /// Tensor-core kernels for every layout.
    const TILES: &'static [KernelOf<MatmulArgs<Self>, TileShape>];
    /// `wgmma` kernels for few rows, whose clusters split k; those of `f32` use TF32.
    const FEW_ROWS: &'static [KernelOf<MatmulArgs<Self>, FewRowsShape>];
    /// Kernels for few rows of `f32` without tensor cores, whose clusters split k.
    const FEW_ROWS_F32: &'static [KernelOf<MatmulArgs<Self>, FewRowsShape>];
    /// `wgmma` kernels for every layout; of `f32` as TF32, for those with the terms as neighbours in one operand at least.
    const WARPGROUPS: &'static [KernelOf<MatmulArgs<Self>, WarpgroupShape>];
    /// The kernel that adds up the sums of several splits.
    const REDUCE: &'static KernelOf<MatmulArgs<Self>>;
    /// The kernel for a CPU.
    const SERIAL: &'static KernelOf<MatmulArgs<Self>>;
}

/// Returns the launch of [`MatmulKernels::REDUCE`].
pub fn reduce_config([m, n]: [u32; 2], batch: u32) -> LaunchConfig {
    let threads = u64::from(m) * u64::from(n.div_ceil(4));
    overlapping((threads.div_ceil(reduce::THREADS.into()) as u32, 1, batch), reduce::THREADS)
}

/// Returns the launch of [`MatmulKernels::SERIAL`].
pub fn serial_config([m, n]: [u32; 2], batch: u32) -> LaunchConfig {
    let tiles = (m.div_ceil(TILE_ROWS as u32), n.div_ceil(TILE_COLS as u32), batch);
    LaunchConfig::new(tiles, 1).with_shared_bytes(SHARED_BYTES as u32)
}

/// The kernel that splits the numbers of an operand for [`THREE_PRODUCTS`].
pub const SPLIT: &KernelOf<SplitArgs> = &<matmul_split as KernelsOf<SplitArgs>>::INSTANCES[0];

/// The kernel that copies an operand of `f32` so that the terms are neighbours.
pub const TRANSPOSE: &KernelOf<SplitArgs> = &<matmul_split as KernelsOf<SplitArgs>>::INSTANCES[1];

/// The `wgmma` kernel that multiplies what [`SPLIT`] has split.
pub const THREE_PRODUCTS: &KernelOf<MatmulArgs<f32>, WarpgroupShape> =
    &<matmul_three_products as KernelsOf<MatmulArgs<f32>>>::INSTANCES[0];

/// The kernels that copy operands to aligned rows, of elements of 2 and of 4 bytes.
pub const ALIGN: &[KernelOf<AlignArgs>] = <matmul_align as KernelsOf<AlignArgs>>::INSTANCES;

/// The kernels that copy A for folded rows of B, of elements of 2 and of 4 bytes.
pub const FOLD: &[KernelOf<AlignArgs>] = <matmul_fold as KernelsOf<AlignArgs>>::INSTANCES;

/// Returns the launch of [`ALIGN`] and of [`FOLD`], for copies with this number of columns, on a GPU with `multiprocessors` multiprocessors.
pub fn align_config(
    [rows, cols]: [u32; 2],
    bytes: usize,
    batch: u32,
    multiprocessors: usize,
) -> LaunchConfig {
    let chunks = u64::from(rows) * (u64::from(cols) * bytes as u64).div_ceil(16);
    let blocks = chunks.div_ceil(align::THREADS.into());
    let most = 8 * multiprocessors as u64;
    overlapping((blocks.clamp(1, most) as u32, 1, batch), align::THREADS)
}

/// Returns the launch of [`SPLIT`] and of [`TRANSPOSE`].
pub fn split_config(rows: u32, terms: u32, batch: u32) -> LaunchConfig {
    overlapping((terms.div_ceil(SIDE), rows.div_ceil(SIDE), batch), (SIDE, 8))
}

macro_rules! kernels {
    ($($ty:ident: $few_rows_f32:expr;)*) => {$(
        impl MatmulKernels for $ty {
            const TILES: &'static [KernelOf<MatmulArgs<Self>, TileShape>] =
                <matmul_tiles as KernelsOf<MatmulArgs<$ty>>>::INSTANCES;
            const FEW_ROWS: &'static [KernelOf<MatmulArgs<Self>, FewRowsShape>] =
                <matmul_few_rows as KernelsOf<MatmulArgs<$ty>>>::INSTANCES;
            const FEW_ROWS_F32: &'static [KernelOf<MatmulArgs<Self>, FewRowsShape>] = $few_rows_f32;
            const WARPGROUPS: &'static [KernelOf<MatmulArgs<Self>, WarpgroupShape>] =
                <matmul_warpgroups as KernelsOf<MatmulArgs<$ty>>>::INSTANCES;
            const REDUCE: &'static KernelOf<MatmulArgs<Self>> =
                &<matmul_reduce as KernelsOf<MatmulArgs<$ty>>>::INSTANCES[0];
            const SERIAL: &'static KernelOf<MatmulArgs<Self>> =
                &<matmul_serial as KernelsOf<MatmulArgs<$ty>>>::INSTANCES[0];
        }
    )*};
}

kernels! {
    f32: <matmul_few_rows_f32 as KernelsOf<MatmulArgs<f32>>>::INSTANCES;
    f16: &[];
    bf16: &[];
}
