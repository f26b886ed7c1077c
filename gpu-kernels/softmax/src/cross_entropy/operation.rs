//! The kernels of cross entropy, by type.

use cuda_std::launch::KernelsOf;

use super::{
    CrossEntropyArgs, ShardGradientArgs, ShardPartArgs, cross_entropy_gradient, cross_entropy_part,
    cross_entropy_rows, cross_entropy_staged,
};
use crate::fit::{Fit, RowVariants, Variant};

/// The kernels of cross entropy for logits of type `T`.
#[derive(Debug)]
pub struct CrossEntropyKernels<T: 'static> {
    /// The kernels for whole rows.
    pub rows: RowVariants<CrossEntropyArgs<T>>,
    /// The kernels for rows whose columns are sharded over devices.
    pub shards: ShardKernels<T>,
}

/// The kernels of cross entropy of a shard: one block per part of a row.
#[derive(Debug)]
pub struct ShardKernels<T: 'static> {
    /// The kernel that computes the numbers of the parts.
    pub part: &'static Variant<ShardPartArgs<T>>,
    /// The kernel that computes the gradient.
    pub gradient: &'static Variant<ShardGradientArgs<T>>,
}

impl<T> CrossEntropyKernels<T>
where
    cross_entropy_rows: KernelsOf<CrossEntropyArgs<T>, Facts = Fit>,
    cross_entropy_staged: KernelsOf<CrossEntropyArgs<T>, Facts = Fit>,
    cross_entropy_part: KernelsOf<ShardPartArgs<T>, Facts = Fit>,
    cross_entropy_gradient: KernelsOf<ShardGradientArgs<T>, Facts = Fit>,
{
    pub(crate) const fn new() -> Self {
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
