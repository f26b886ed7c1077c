//! The element types of operations.

use std::any::TypeId;

use axis_kernels::{AxisKernels, CastTo};
use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::tensor::TensorElement;
use matmul_kernels::operation::MatmulKernels;
use norm_kernels::NormKernels;
use softmax_kernels::operation::{ForwardTo, RowKernels};

/// The element type of an operation: `f32`, `f16` or `bf16`. Arithmetic is in `f32`, and a result is rounded once.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Element, Error, Norm, Softmax, Tensor, TensorView};
///
/// fn probabilities<T: Element>(logits: TensorView<'_, T>) -> Result<Tensor<T>, Error> {
///     let normed = Norm::rms().run(logits.device(), logits)?;
///     Softmax::new().run(logits.device(), &normed)
/// }
/// let device = Device::cpu();
/// let logits = device.tensor(&[1.0f32; 4], [2, 2])?;
/// assert_eq!(probabilities(logits.view())?.to_vec()?, [0.5; 4]);
/// # Ok::<(), Error>(())
/// ```
pub trait Element:
    Pod
    + std::fmt::Debug
    + TensorElement
    + AxisKernels
    + CastTo<Self>
    + CastTo<f32>
    + CastTo<f16>
    + CastTo<bf16>
    + MatmulKernels
    + NormKernels
    + RowKernels
    + ForwardTo<Self>
    + sealed::Sealed
{
}

/// An element type with results of type `O`: the same type, or `f32`.
///
/// ```
/// use ferrowarp::{ElementAs, bf16, f16};
///
/// fn check<T: ElementAs<O>, O: ferrowarp::Element>() {}
/// check::<bf16, bf16>();
/// check::<bf16, f32>();
/// check::<f32, f32>();
/// ```
pub trait ElementAs<O: Element>: Element {}

/// Whether the elements are `f32`.
pub(crate) fn is_f32<T: 'static>() -> bool {
    TypeId::of::<T>() == TypeId::of::<f32>()
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($ty:ident),*) => {$(
        impl sealed::Sealed for $ty {}
        impl Element for $ty {}
    )*};
}

elements! { f32, f16, bf16 }

impl<T: Element> ElementAs<T> for T {}
impl ElementAs<f32> for f16 {}
impl ElementAs<f32> for bf16 {}
