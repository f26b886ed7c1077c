//! The kernels that cross entropy launches, by type.

use cuda_std::launch::KernelsOf;

use super::{
    CrossEntropyArgs, ShardGradientArgs, ShardPartArgs, cross_entropy_gradient, cross_entropy_part,
    cross_entropy_rows, cross_entropy_staged,
};
use crate::softmax::operation::{Fit, RowVariants, Variant};

/// The kernels of cross entropy of logits of type `T`.
#[derive(Debug)]
pub struct CrossEntropyKernels<T: 'static> {
    /// Those of whole rows.
    pub rows: RowVariants<CrossEntropyArgs<T>>,
    /// Those of rows whose columns are divided among devices.
    pub shards: ShardKernels<T>,
}

/// The kernels of cross entropy of a shard: a block for each part of a row.
#[derive(Debug)]
pub struct ShardKernels<T: 'static> {
    /// The numbers of the parts.
    pub part: &'static Variant<ShardPartArgs<T>>,
    /// The gradient.
    pub gradient: &'static Variant<ShardGradientArgs<T>>,
}

impl<T> CrossEntropyKernels<T>
where
    cross_entropy_rows: KernelsOf<CrossEntropyArgs<T>, Facts = Fit>,
    cross_entropy_staged: KernelsOf<CrossEntropyArgs<T>, Facts = Fit>,
    cross_entropy_part: KernelsOf<ShardPartArgs<T>, Facts = Fit>,
    cross_entropy_gradient: KernelsOf<ShardGradientArgs<T>, Facts = Fit>,
{
    pub(in crate::softmax) const fn new() -> Self {
        Self {
            rows: RowVariants {
                variants: <cross_entropy_rows as KernelsOf<_>>::INSTANCES,
                staged: Some(&<cross_entropy_staged as KernelsOf<_>>::INSTANCES[0]),
                staged_from: 32_768,
            },
            shards: ShardKernels {
                part: &<cross_entropy_part as KernelsOf<_>>::INSTANCES[0],
                gradient: &<cross_entropy_gradient as KernelsOf<_>>::INSTANCES[0],
            },
        }
    }
}
