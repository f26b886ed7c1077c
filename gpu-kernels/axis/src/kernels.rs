//! What host code needs to choose and to launch the kernels.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelOf, KernelsOf};

use super::args::{CastArgs, FinishArgs, ReduceArgs, ScanArgs, TransposeArgs};
use super::cast::axis_cast;
use super::columns::axis_columns;
use super::finish::axis_finish;
use super::rows::axis_rows;
use super::scan::{axis_scan, axis_scan_clear, axis_scan_grid, axis_scan_serial, axis_scan_short};
use super::shapes::{Blocks, CastShape, ReduceShape, ScanShape, TransposeShape};
use super::transpose::{axis_transpose, axis_transpose_any, axis_transpose_serial, axis_transpose_staged};

/// An element type that has kernels.
pub trait AxisKernels: Sized + 'static {
    /// Cumulative sums of short rows, a few lanes per row, with several vectors for each thread and with one: for rows that all
    /// start at multiples of 16 bytes, and the same two for others.
    const SCAN_SHORT: &'static [KernelOf<ScanArgs<Self>, ScanShape>];
    /// Cumulative sums of rows, a block per row, likewise; then a cluster per row, for both alignments.
    const SCAN: &'static [KernelOf<ScanArgs<Self>, ScanShape>];
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
            const SCAN_SHORT: &'static [KernelOf<ScanArgs<Self>, ScanShape>] =
                <axis_scan_short as KernelsOf<ScanArgs<$ty>>>::INSTANCES;
            const SCAN: &'static [KernelOf<ScanArgs<Self>, ScanShape>] =
                <axis_scan as KernelsOf<ScanArgs<$ty>>>::INSTANCES;
            const SCAN_GRID: &'static KernelOf<ScanArgs<Self>, ScanShape> =
                &<axis_scan_grid as KernelsOf<ScanArgs<$ty>>>::INSTANCES[0];
            const SCAN_SERIAL: &'static KernelOf<ScanArgs<Self>> =
                &<axis_scan_serial as KernelsOf<ScanArgs<$ty>>>::INSTANCES[0];

            fn rows(blocks: Blocks) -> &'static KernelOf<ReduceArgs<Self>, ReduceShape> {
                &<axis_rows as KernelsOf<ReduceArgs<$ty>>>::INSTANCES[blocks as usize]
            }

            fn columns(blocks: Blocks) -> &'static KernelOf<ReduceArgs<Self>, ReduceShape> {
                &<axis_columns as KernelsOf<ReduceArgs<$ty>>>::INSTANCES[blocks as usize]
            }

            fn finish(blocks: Blocks) -> &'static KernelOf<FinishArgs<Self>, ReduceShape> {
                &<axis_finish as KernelsOf<FinishArgs<$ty>>>::INSTANCES[usize::from(blocks == Blocks::Serial)]
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
    /// Elements of a vector.
    const VECTOR: u32 = 16 / size_of::<Self>() as u32;
    /// The kernels for matrices of aligned vectors, from the one with the largest tile.
    const SQUARES: &'static [KernelOf<TransposeArgs<Self>, TransposeShape>];
    /// The kernels for any matrix with whole tiles.
    const STAGED: &'static [KernelOf<TransposeArgs<Self>, TransposeShape>];
    /// The kernels for any matrix, from the one with the largest tile.
    const ANY: &'static [KernelOf<TransposeArgs<Self>, TransposeShape>];
    /// The kernel of a CPU.
    const SERIAL: &'static KernelOf<TransposeArgs<Self>, TransposeShape>;
}

macro_rules! transposes {
    ($($ty:ident $staged:expr),*) => {$(
        impl TransposeKernels for $ty {
            const SQUARES: &'static [KernelOf<TransposeArgs<Self>, TransposeShape>] =
                <axis_transpose as KernelsOf<TransposeArgs<$ty>>>::INSTANCES;
            const STAGED: &'static [KernelOf<TransposeArgs<Self>, TransposeShape>] = $staged;
            const ANY: &'static [KernelOf<TransposeArgs<Self>, TransposeShape>] =
                <axis_transpose_any as KernelsOf<TransposeArgs<$ty>>>::INSTANCES;
            const SERIAL: &'static KernelOf<TransposeArgs<Self>, TransposeShape> =
                &<axis_transpose_serial as KernelsOf<TransposeArgs<$ty>>>::INSTANCES[0];
        }
    )*};
}

transposes! { u32 &[], u16 <axis_transpose_staged as KernelsOf<TransposeArgs<u16>>>::INSTANCES }
