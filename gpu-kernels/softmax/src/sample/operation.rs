//! The kernels of sampling, by type.

use cuda_std::launch::KernelsOf;

use super::{SampleArgs, sample_cluster, sample_rows, sample_top_k_cluster, sample_top_k_rows};
use crate::fit::{Fit, RowVariants};
use crate::top_k::{TopKArgs, top_k_cluster, top_k_rows};

/// The kernels of the largest probabilities and of sampling, for logits of type `T`.
#[derive(Debug)]
pub struct SamplingKernels<T: 'static> {
    /// The kernels of the largest probabilities.
    pub top_k: RowVariants<TopKArgs<T>>,
    /// The kernels that sample tokens from all logits.
    pub sample: RowVariants<SampleArgs<T>>,
    /// The kernels that sample tokens from the largest logits.
    pub sample_top_k: RowVariants<SampleArgs<T>>,
}

impl<T> SamplingKernels<T>
where
    top_k_rows: KernelsOf<TopKArgs<T>, Facts = Fit>,
    top_k_cluster: KernelsOf<TopKArgs<T>, Facts = Fit>,
    sample_rows: KernelsOf<SampleArgs<T>, Facts = Fit>,
    sample_cluster: KernelsOf<SampleArgs<T>, Facts = Fit>,
    sample_top_k_rows: KernelsOf<SampleArgs<T>, Facts = Fit>,
    sample_top_k_cluster: KernelsOf<SampleArgs<T>, Facts = Fit>,
{
    pub(crate) const fn new() -> Self {
        Self {
            top_k: RowVariants {
                variants: <top_k_rows as KernelsOf<_>>::INSTANCES,
                staged: Some(&<top_k_cluster as KernelsOf<_>>::INSTANCES[0]),
                staged_from: 16_384,
            },
            sample: RowVariants {
                variants: <sample_rows as KernelsOf<_>>::INSTANCES,
                staged: Some(&<sample_cluster as KernelsOf<_>>::INSTANCES[0]),
                staged_from: 4096,
            },
            sample_top_k: RowVariants {
                variants: <sample_top_k_rows as KernelsOf<_>>::INSTANCES,
                staged: Some(&<sample_top_k_cluster as KernelsOf<_>>::INSTANCES[0]),
                staged_from: 16_384,
            },
        }
    }
}
