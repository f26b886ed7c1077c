//! The types with kernels.

use bytemuck::Pod;
use cuda_std::half::{bf16, f16};
use cuda_std::tensor::TensorElement;
use gpu_kernels::matmul::operation::MatmulKernels;

/// `f32`, `f16` or `bf16`, multiplied with accumulators of `f32`.
///
/// ```
/// use ferrowarp::matmul::Real;
///
/// fn bytes<T: Real>(elements: usize) -> usize {
///     elements * size_of::<T>()
/// }
/// assert_eq!(bytes::<ferrowarp::bf16>(8), 16);
/// ```
pub trait Real: Pod + MatmulKernels + TensorElement {}

impl<T: Pod + MatmulKernels + TensorElement> Real for T {}

/// An operand type with results of type `O`: the same type, or `f32`. A result is rounded once.
///
/// ```
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{MatmulError, Matrix, MatrixMut, matmul};
///
/// let device = Device::cpu();
/// let a = device.upload(&[bf16::ONE; 3])?;
/// let mut out = device.alloc_zeroed::<f32>(1)?;
/// matmul(&device, MatrixMut::new(&mut out, 1, 1)?, Matrix::new(&a, 1, 3)?, Matrix::new(&a, 3, 1)?)?;
/// assert_eq!(out.to_vec()?, [3.0]);
/// # Ok::<(), MatmulError>(())
/// ```
pub trait MatmulAs<O: Pod>: Real {
    #[doc(hidden)]
    const IS_OUT_F32: bool;
}

impl MatmulAs<f32> for f32 {
    const IS_OUT_F32: bool = true;
}

macro_rules! of_16_bits {
    ($($ty:ident),*) => {$(
        impl MatmulAs<f32> for $ty {
            const IS_OUT_F32: bool = true;
        }

        impl MatmulAs<$ty> for $ty {
            const IS_OUT_F32: bool = false;
        }
    )*};
}

of_16_bits! { f16, bf16 }

/// How `f32` is multiplied on a GPU. A CPU always multiplies exactly and adds in `f32`.
///
/// ```
/// use ferrowarp::matmul::Precision;
///
/// assert_eq!(Precision::default(), Precision::F32);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// As three products of TF32 on tensor cores, with about the error of multiplying and adding in `f32`. Numbers that
    /// round to 2^128 as TF32 count as infinite. With up to 16 rows, `f32` arithmetic may be used instead.
    #[default]
    F32,
    /// As one product of TF32: operands are rounded to the nearest number of 11 bits.
    Tf32,
}

/// The function that is applied to a result at the end.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{Activation, Matmul, MatmulError, Matrix, MatrixMut};
///
/// let device = Device::cpu();
/// let (a, b) = (device.upload(&[-2.0f32])?, device.upload(&[3.0f32])?);
/// let mut out = device.alloc_zeroed::<f32>(1)?;
/// Matmul::new(MatrixMut::new(&mut out, 1, 1)?, Matrix::new(&a, 1, 1)?, Matrix::new(&b, 1, 1)?)
///     .activation(Activation::Relu)
///     .run(&device)?;
/// assert_eq!(out.to_vec()?, [0.0]);
/// # Ok::<(), MatmulError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// Negative results become 0; NaN stays NaN.
    Relu,
    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`.
    Gelu,
}
