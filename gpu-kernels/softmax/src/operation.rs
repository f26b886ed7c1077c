//! The kernels that the softmax operation launches, by type and width.

use cuda_std::half::{bf16, f16};
use cuda_std::launch::KernelsOf;

use super::backward::{BackwardArgs, softmax_backward, softmax_backward_staged};
use super::forward::ForwardArgs;
use super::forward_kernels::{narrow, reduce, softmax, staged, write};
use super::serial::softmax_serial;
use common_kernels::element::Number;

pub use super::fit::{Fit, RowVariants, Spread, Staged, Variant};

/// The pair of kernels for any width.
#[derive(Debug)]
pub struct Split<I: 'static, O: 'static> {
    /// The kernel that reduces the parts.
    pub reduce: &'static Variant<ForwardArgs<I, O>>,
    /// The kernel that writes.
    pub write: &'static Variant<ForwardArgs<I, O>>,
}

/// The forward kernels from one type to another.
#[derive(Debug)]
pub struct ForwardKernels<I: 'static, O: 'static> {
    /// Kernels whose blocks hold one row or more, those for narrow rows first.
    pub variants: &'static [Variant<ForwardArgs<I, O>>],
    /// Kernels whose rows, of up to `elements` elements, are held by a few lanes; those for narrow rows first.
    pub narrow: &'static [Variant<ForwardArgs<I, O>>],
    /// Kernels whose clusters hold a row; `elements` counts one block. Those for narrow rows first.
    pub clusters: &'static [Variant<ForwardArgs<I, O>>],
    /// The kernel whose blocks or clusters hold a row in shared memory.
    pub staged: &'static Variant<ForwardArgs<I, O>>,
    /// The kernel with one thread per row, of any width: only for a CPU.
    pub serial: &'static Variant<ForwardArgs<I, O>>,
    /// The pair of kernels for all other rows.
    pub split: Split<I, O>,
}

impl<I, O> ForwardKernels<I, O>
where
    softmax: KernelsOf<ForwardArgs<I, O>, Facts = Fit>,
    softmax_serial: KernelsOf<ForwardArgs<I, O>, Facts = Fit>,
    narrow: KernelsOf<ForwardArgs<I, O>, Facts = Fit>,
    staged: KernelsOf<ForwardArgs<I, O>, Facts = Fit>,
    reduce: KernelsOf<ForwardArgs<I, O>, Facts = Fit>,
    write: KernelsOf<ForwardArgs<I, O>, Facts = Fit>,
{
    const fn new() -> Self {
        let all = <softmax as KernelsOf<_>>::INSTANCES;
        let mut blocks = 0;
        while blocks < all.len() && !all[blocks].facts.is_cluster {
            blocks += 1;
        }
        let (variants, clusters) = all.split_at(blocks);
        let serial = &<softmax_serial as KernelsOf<_>>::INSTANCES[0];
        let narrow = <narrow as KernelsOf<_>>::INSTANCES;
        let staged = &<staged as KernelsOf<_>>::INSTANCES[0];
        let (reduce, write) =
            (&<reduce as KernelsOf<_>>::INSTANCES[0], &<write as KernelsOf<_>>::INSTANCES[0]);
        Self { variants, narrow, clusters, staged, serial, split: Split { reduce, write } }
    }
}

/// An input type that has forward kernels with results of type `O`.
///
/// # Safety
/// The kernels keep their contracts.
#[diagnostic::on_unimplemented(
    message = "there is no softmax of `{Self}` as `{O}`",
    note = "f32, f16 and bf16 (of `cuda_std::half`) are given as themselves, f32 also as f16 or bf16, and those as f32"
)]
pub unsafe trait ForwardTo<O: 'static>: Number {
    /// The kernels.
    const FORWARD: &'static ForwardKernels<Self, O>;
}

/// A matrix type that has kernels for each operation on rows whose feature is on.
///
/// # Safety
/// Same as for [`ForwardTo`].
pub unsafe trait RowKernels: ForwardTo<Self> {
    /// The kernels of the gradient.
    const BACKWARD: &'static RowVariants<BackwardArgs<Self>>;
    /// The kernels of cross entropy.
    const CROSS_ENTROPY: &'static super::cross_entropy::CrossEntropyKernels<Self>;
    /// The kernels of the largest probabilities and of sampling.
    const SAMPLING: &'static super::sample::SamplingKernels<Self>;
}

macro_rules! kernels {
    ($($ty:ident as [$($out:ident),*];)*) => {$(
        // SAFETY: kernels of this crate, of these types.
        unsafe impl ForwardTo<$ty> for $ty {
            const FORWARD: &'static ForwardKernels<$ty, $ty> = &ForwardKernels::new();
        }
        $(
            // SAFETY: kernels of this crate, of these types.
            unsafe impl ForwardTo<$out> for $ty {
                const FORWARD: &'static ForwardKernels<$ty, $out> = &ForwardKernels::new();
            }
        )*
        // SAFETY: kernels of this crate, of this type.
        unsafe impl RowKernels for $ty {
            const BACKWARD: &'static RowVariants<BackwardArgs<$ty>> = &RowVariants {
                variants: softmax_backward::INSTANCES,
                staged: Some(&<softmax_backward_staged as KernelsOf<BackwardArgs<$ty>>>::INSTANCES[0]),
                staged_from: if size_of::<$ty>() == 4 { 16_384 } else { 12_288 },
            };
            const CROSS_ENTROPY: &'static super::cross_entropy::CrossEntropyKernels<$ty> =
                &super::cross_entropy::CrossEntropyKernels::new();
            const SAMPLING: &'static super::sample::SamplingKernels<$ty> = &super::sample::SamplingKernels::new();
        }
    )*};
}

kernels! {
    f32 as [f16, bf16];
    f16 as [f32];
    bf16 as [f32];
}
