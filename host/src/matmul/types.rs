//! Options of a multiplication.

/// The operation in errors.
pub(super) const NAME: &str = "matmul";

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
/// use ferrowarp::matmul::{Activation, Matmul};
/// use ferrowarp::Error;
///
/// let device = Device::cpu();
/// let (a, b) = (device.tensor(&[-2.0f32], [1, 1])?, device.tensor(&[3.0f32], [1, 1])?);
/// assert_eq!(Matmul::new().activation(Activation::Relu).run(&device, &a, &b)?.to_vec()?, [0.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Activation {
    /// Nothing.
    #[default]
    None,
    /// Negative results become 0; NaN stays NaN.
    Relu,
    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`; every x below -5.6 counts as -5.6, which is off by 3e-9 at most.
    Gelu,
}
