//! What host code needs to choose and to launch the kernels.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelOf, KernelsOf, LaunchConfig};

use super::args::{CastArgs, FinishArgs, ReduceArgs, ScanArgs, TransposeArgs};
use super::cast::axis_cast;
use super::columns::axis_columns;
use super::finish::axis_finish;
use super::rows::axis_rows;
use super::scan::{self, axis_scan, axis_scan_clear, axis_scan_grid, axis_scan_serial};
use super::transpose::{axis_transpose, axis_transpose_serial};

/// The block of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReduceShape {
    /// Threads.
    pub block: u32,
    /// Elements of a vector, or results that a block combines.
    pub vector: u32,
}

impl ReduceShape {
    /// Returns the launch for `rows` rows, each in `parts` parts, with `1 << log_threads` threads for a row.
    pub fn rows(&self, rows: u32, parts: u32, log_threads: u32) -> LaunchConfig {
        LaunchConfig::new((rows.div_ceil(self.block >> log_threads), parts), self.block)
    }

    /// Returns the launch for `cols` columns, each in `parts` parts, with `1 << log_threads` vectors side by side.
    pub fn columns(&self, cols: u32, parts: u32, log_threads: u32) -> LaunchConfig {
        LaunchConfig::new((cols.div_ceil(self.vector << log_threads), parts), self.block)
    }

    /// Returns the launch that combines the parts of `outputs` results.
    pub fn finish(&self, outputs: u32) -> LaunchConfig {
        LaunchConfig::new(outputs.div_ceil(self.vector), self.block)
    }
}

/// The tile and the block of cumulative sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanShape {
    /// Elements of a tile.
    pub tile: u32,
    /// Elements of a tile that a warp has.
    pub of_warp: u32,
    /// Threads of a block.
    pub block: u32,
}

impl ScanShape {
    /// The largest number of blocks of a launch whose blocks wait for each other.
    pub const MOST_BLOCKS: u32 = scan::MOST_BLOCKS as u32;

    /// Returns the launch for `rows` rows of one tile each, with `1 << log_warps` warps for a row.
    pub fn rows(&self, rows: u32, log_warps: u32) -> LaunchConfig {
        LaunchConfig::new(rows.div_ceil((self.block / 32) >> log_warps), self.block)
    }
}

/// The tile and the block of a transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransposeShape {
    /// Rows and columns of a tile.
    pub tile: u32,
    /// Threads.
    pub block: u32,
}

impl TransposeShape {
    /// Returns the launch for a matrix of elements of `element_bytes`, or `None` if it would have too many blocks.
    pub fn config(&self, [rows, cols]: [u32; 2], element_bytes: usize) -> Option<LaunchConfig> {
        let blocks = rows.div_ceil(self.tile).checked_mul(cols.div_ceil(self.tile))?;
        let shared = if self.block == 1 { 0 } else { self.tile * self.tile * element_bytes as u32 };
        let is_possible = blocks <= i32::MAX as u32;
        is_possible.then(|| LaunchConfig::new(blocks, self.block).with_shared_bytes(shared))
    }
}

/// The block of a cast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CastShape {
    /// Elements that a thread moves at once.
    pub group: u32,
    /// Threads.
    pub block: u32,
}

impl CastShape {
    /// Returns the launch for `groups` groups: on a CPU with one thread a block, and at most 4096 blocks.
    pub fn config(&self, groups: u64, blocks: Blocks) -> LaunchConfig {
        let (block, most) = if blocks == Blocks::Serial { (1, 4096) } else { (self.block, i32::MAX as u64) };
        LaunchConfig::new(groups.div_ceil(u64::from(block)).min(most) as u32, block)
    }
}

/// The device whose kernels are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// The kernels of a GPU.
    Wide,
    /// The kernels of a CPU, whose blocks have one thread.
    Serial,
}

impl Blocks {
    fn index(self) -> usize {
        usize::from(self == Blocks::Serial)
    }
}

/// An element type that has kernels.
pub trait AxisKernels: Sized + 'static {
    /// Cumulative sums of rows of one tile.
    const SCAN: &'static KernelOf<ScanArgs<Self>, ScanShape>;
    /// Cumulative sums of rows of any length; the blocks wait for each other.
    const SCAN_GRID: &'static KernelOf<ScanArgs<Self>, ScanShape>;
    /// Cumulative sums of rows of any length, one thread per row.
    const SCAN_SERIAL: &'static KernelOf<ScanArgs<Self>>;
    /// Returns the kernel that reduces rows.
    fn rows(blocks: Blocks) -> &'static KernelOf<ReduceArgs<Self>, ReduceShape>;
    /// Returns the kernel that reduces columns.
    fn columns(blocks: Blocks) -> &'static KernelOf<ReduceArgs<Self>, ReduceShape>;
    /// Returns the kernel that combines parts.
    fn finish(blocks: Blocks) -> &'static KernelOf<FinishArgs<Self>, ReduceShape>;
}

macro_rules! kernels {
    ($($ty:ident),*) => {$(
        impl AxisKernels for $ty {
            const SCAN: &'static KernelOf<ScanArgs<Self>, ScanShape> =
                &<axis_scan as KernelsOf<ScanArgs<$ty>>>::INSTANCES[0];
            const SCAN_GRID: &'static KernelOf<ScanArgs<Self>, ScanShape> =
                &<axis_scan_grid as KernelsOf<ScanArgs<$ty>>>::INSTANCES[0];
            const SCAN_SERIAL: &'static KernelOf<ScanArgs<Self>> =
                &<axis_scan_serial as KernelsOf<ScanArgs<$ty>>>::INSTANCES[0];

            fn rows(blocks: Blocks) -> &'static KernelOf<ReduceArgs<Self>, ReduceShape> {
                &<axis_rows as KernelsOf<ReduceArgs<$ty>>>::INSTANCES[blocks.index()]
            }

            fn columns(blocks: Blocks) -> &'static KernelOf<ReduceArgs<Self>, ReduceShape> {
                &<axis_columns as KernelsOf<ReduceArgs<$ty>>>::INSTANCES[blocks.index()]
            }

            fn finish(blocks: Blocks) -> &'static KernelOf<FinishArgs<Self>, ReduceShape> {
                &<axis_finish as KernelsOf<FinishArgs<$ty>>>::INSTANCES[blocks.index()]
            }
        }
    )*};
}

kernels! { f32, f16, bf16 }

/// An element type whose elements can be converted to `O`.
pub trait CastTo<O: 'static>: Sized + 'static {
    /// The kernel.
    const CAST: &'static KernelOf<CastArgs<Self, O>, CastShape>;
}

macro_rules! casts {
    ($($inp:ident to $($out:ident),*;)*) => {$($(
        impl CastTo<$out> for $inp {
            const CAST: &'static KernelOf<CastArgs<Self, $out>, CastShape> =
                &<axis_cast as KernelsOf<CastArgs<$inp, $out>>>::INSTANCES[0];
        }
    )*)*};
}

casts! { f32 to f32, f16, bf16; f16 to f32, f16, bf16; bf16 to f32, f16, bf16; }

/// An element that is moved unchanged: `u16` or `u32`.
pub trait TransposeKernels: Sized + 'static {
    /// Returns the kernel that transposes.
    fn transpose(blocks: Blocks) -> &'static KernelOf<TransposeArgs<Self>, TransposeShape>;
}

macro_rules! transposes {
    ($($ty:ident),*) => {$(
        impl TransposeKernels for $ty {
            fn transpose(blocks: Blocks) -> &'static KernelOf<TransposeArgs<Self>, TransposeShape> {
                match blocks {
                    Blocks::Wide => &<axis_transpose as KernelsOf<TransposeArgs<$ty>>>::INSTANCES[0],
                    Blocks::Serial => &<axis_transpose_serial as KernelsOf<TransposeArgs<$ty>>>::INSTANCES[0],
                }
            }
        }
    )*};
}

transposes! { u32, u16 }
