//! What host code chooses the kernels by.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelMeta, KernelOf, KernelsOf, LaunchConfig};

use super::super::args::MatmulArgs;
use super::reduce::{self, matmul_reduce};
use super::serial::{SHARED_BYTES, TILE_COLS, TILE_ROWS, matmul_serial};
use super::tensor_tiles::matmul_tiles;

/// The part of the result that a block computes, and what it needs for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TileShape {
    /// Rows of the result.
    pub rows: u32,
    /// Columns of the result.
    pub cols: u32,
    /// Terms of a buffer: a split of k has whole buffers.
    pub terms: u32,
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
}

impl TileShape {
    pub(super) const fn new(
        [rows, cols, terms]: [usize; 3],
        along_k: [usize; 2],
        shared_bytes: usize,
        threads: usize,
        is_three_products: bool,
    ) -> Self {
        assert!(rows * super::tensor_tiles::sums_pitch(cols) * 4 <= shared_bytes, "the sums fit the buffers");
        Self {
            rows: rows as u32,
            cols: cols as u32,
            terms: terms as u32,
            threads: threads as u32,
            shared_bytes: shared_bytes as u32,
            a_along_k: along_k[0] == 1,
            b_along_k: along_k[1] == 1,
            is_three_products,
        }
    }

    /// The grid for a result of `m` x `n`, so many splits of k, and a batch.
    pub fn config(&self, [m, n]: [u32; 2], splits: u32, batch: u32) -> LaunchConfig {
        let tiles = m.div_ceil(self.rows) * n.div_ceil(self.cols);
        LaunchConfig::new((tiles, splits, batch), self.threads).with_shared_bytes(self.shared_bytes)
    }
}

/// A type that there are kernels for.
pub trait MatmulKernels: Sized + 'static {
    /// Kernels of tensor cores for every layout.
    const TILES: &'static [KernelOf<MatmulArgs<Self>, TileShape>];
    /// The kernel that adds up the sums of several splits.
    const REDUCE: &'static KernelOf<MatmulArgs<Self>>;
    /// The kernel for a CPU.
    const SERIAL: &'static KernelOf<MatmulArgs<Self>>;
}

/// The grid of [`MatmulKernels::REDUCE`].
pub fn reduce_config([m, n]: [u32; 2], batch: u32) -> LaunchConfig {
    let threads = u64::from(m) * u64::from(n.div_ceil(4));
    LaunchConfig::new((threads.div_ceil(reduce::THREADS.into()) as u32, 1, batch), reduce::THREADS)
}

/// The grid of [`MatmulKernels::SERIAL`].
pub fn serial_config([m, n]: [u32; 2], batch: u32) -> LaunchConfig {
    let tiles = (m.div_ceil(TILE_ROWS as u32), n.div_ceil(TILE_COLS as u32), batch);
    LaunchConfig::new(tiles, 1).with_shared_bytes(SHARED_BYTES as u32)
}

macro_rules! kernels {
    ($($ty:ident),*) => {$(
        impl MatmulKernels for $ty {
            const TILES: &'static [KernelOf<MatmulArgs<Self>, TileShape>] =
                <matmul_tiles as KernelsOf<MatmulArgs<$ty>>>::INSTANCES;
            const REDUCE: &'static KernelOf<MatmulArgs<Self>> =
                &<matmul_reduce as KernelsOf<MatmulArgs<$ty>>>::INSTANCES[0];
            const SERIAL: &'static KernelOf<MatmulArgs<Self>> =
                &<matmul_serial as KernelsOf<MatmulArgs<$ty>>>::INSTANCES[0];
        }
    )*};
}

kernels! { f32, f16, bf16 }

/// All of them.
pub const KERNELS: [&[&KernelMeta]; 3] =
    [matmul_tiles::KERNELS, matmul_reduce::KERNELS, matmul_serial::KERNELS];
