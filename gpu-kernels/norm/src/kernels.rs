//! What host code needs to choose and to launch the kernels.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::{KernelOf, KernelsOf, LaunchConfig};

use super::args::{NormArgs, NormBackwardArgs};
use super::backward::norm_backward_rows;
use super::columns::{SumPartsArgs, norm_columns, norm_sum_parts};
use super::few::norm_backward_few;
use super::forward::norm_rows;
use super::in_shared::norm_in_shared;
use super::shapes::{ColumnsShape, FewShape, RowsShape};
use super::wide::{norm_backward_wide, norm_wide};

/// The blocks of the kernels with one block per row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    /// Blocks of a GPU.
    Wide,
    /// Blocks of a CPU, of one thread.
    Serial,
}

impl Blocks {
    /// Returns the launch for `rows` rows.
    pub fn config(self, rows: u32) -> LaunchConfig {
        LaunchConfig::new(rows, if self == Blocks::Wide { 1024 } else { 1 })
    }

    fn index(self) -> usize {
        usize::from(self == Blocks::Serial)
    }
}

/// An element type that has kernels.
pub trait NormKernels: Sized + 'static {
    /// The forward kernels whose threads hold a row in registers, narrow rows first.
    const ROWS: &'static [KernelOf<NormArgs<Self>, RowsShape>];
    /// The forward kernels whose blocks hold a long row in shared memory, in the order of preference. They take aligned rows.
    const IN_SHARED: &'static [KernelOf<NormArgs<Self>, RowsShape>];
    /// The backward kernels: first those of shifted rows, then the others, each narrow rows first.
    const BACKWARD_ROWS: &'static [KernelOf<NormBackwardArgs<Self>, RowsShape>];
    /// The backward kernels for small matrices: of aligned rows, and of any.
    const BACKWARD_FEW: &'static [KernelOf<NormBackwardArgs<Self>, FewShape>];
    /// The kernel that adds up parts.
    const SUM_PARTS: &'static KernelOf<SumPartsArgs<Self>, ColumnsShape>;
    /// Returns the forward kernel for rows of any length.
    fn wide(blocks: Blocks) -> &'static KernelOf<NormArgs<Self>>;
    /// Returns the kernel that computes the gradient of the input, for rows of any length.
    fn backward_wide(blocks: Blocks) -> &'static KernelOf<NormBackwardArgs<Self>>;
    /// Returns the kernel that computes the gradients of weight and bias, for rows of any length.
    fn columns(blocks: Blocks) -> &'static KernelOf<NormBackwardArgs<Self>, ColumnsShape>;
}

macro_rules! kernels {
    ($($ty:ident),*) => {$(
        impl NormKernels for $ty {
            const ROWS: &'static [KernelOf<NormArgs<Self>, RowsShape>] =
                <norm_rows as KernelsOf<NormArgs<$ty>>>::INSTANCES;
            const IN_SHARED: &'static [KernelOf<NormArgs<Self>, RowsShape>] =
                <norm_in_shared as KernelsOf<NormArgs<$ty>>>::INSTANCES;
            const BACKWARD_ROWS: &'static [KernelOf<NormBackwardArgs<Self>, RowsShape>] =
                <norm_backward_rows as KernelsOf<NormBackwardArgs<$ty>>>::INSTANCES;
            const BACKWARD_FEW: &'static [KernelOf<NormBackwardArgs<Self>, FewShape>] =
                <norm_backward_few as KernelsOf<NormBackwardArgs<$ty>>>::INSTANCES;
            const SUM_PARTS: &'static KernelOf<SumPartsArgs<Self>, ColumnsShape> =
                &<norm_sum_parts as KernelsOf<SumPartsArgs<$ty>>>::INSTANCES[0];

            fn wide(blocks: Blocks) -> &'static KernelOf<NormArgs<Self>> {
                &<norm_wide as KernelsOf<NormArgs<$ty>>>::INSTANCES[blocks.index()]
            }

            fn backward_wide(blocks: Blocks) -> &'static KernelOf<NormBackwardArgs<Self>> {
                &<norm_backward_wide as KernelsOf<NormBackwardArgs<$ty>>>::INSTANCES[blocks.index()]
            }

            fn columns(blocks: Blocks) -> &'static KernelOf<NormBackwardArgs<Self>, ColumnsShape> {
                &<norm_columns as KernelsOf<NormBackwardArgs<$ty>>>::INSTANCES[blocks.index()]
            }
        }
    )*};
}

kernels! { f32, f16, bf16 }
