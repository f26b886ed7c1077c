//! Errors of norms.

use cuda_std::launch::Residence;

use crate::device::DeviceError;
use crate::rows::SoftmaxError;

/// Why a norm was refused or failed.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::norm::{Matrix, MatrixMut, Norm, NormError};
///
/// let device = Device::cpu();
/// let (inp, mut out) = (device.upload(&[1.0f32; 6])?, device.alloc_zeroed::<f32>(6)?);
/// let weight = device.upload(&[1.0f32; 2])?;
/// let norm = Norm::rms(MatrixMut::new(&mut out, 2, 3)?, Matrix::new(&inp, 2, 3)?).weight(&weight);
/// assert!(matches!(norm.run(&device), Err(NormError::Length { what: "weights", len: 2, expected: 3 })));
/// # Ok::<(), NormError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NormError {
    /// A matrix does not fit its view.
    #[error(transparent)]
    Matrix(#[from] SoftmaxError),
    /// The matrices have different shapes.
    #[error(
        "a norm of {} x {} failed: the {what} is {} x {}; all matrices need the same rows and columns",
        expected[0], expected[1], got[0], got[1]
    )]
    ShapesDiffer {
        /// The matrix with the other shape.
        what: &'static str,
        /// Its rows and columns.
        got: [usize; 2],
        /// Rows and columns that it must have.
        expected: [usize; 2],
    },
    /// A vector has another length.
    #[error("a norm failed: there are {len} {what}; pass {expected}")]
    Length {
        /// The contents of the vector.
        what: &'static str,
        /// Its elements.
        len: usize,
        /// Elements that it must have.
        expected: usize,
    },
    /// The epsilon is out of range.
    #[error("a norm with an epsilon of {epsilon} failed: epsilon must be at least 0 and finite")]
    Epsilon {
        /// The epsilon.
        epsilon: f32,
    },
    /// An extent is larger than the kernels can count.
    #[error("a norm with {value} {what} failed: at most {most} are possible; split the matrix")]
    TooLarge {
        /// Which extent.
        what: &'static str,
        /// The extent.
        value: usize,
        /// The largest one.
        most: usize,
    },
    /// An operand lives in the memory of another device, or of the same device opened a second time.
    #[error(
        "a norm on {device} failed: the {what} belong to another `Device`, in the memory of {at}; allocate them on the same device \
         or a clone of it"
    )]
    WrongDevice {
        /// Which operand.
        what: &'static str,
        /// Where it lives.
        at: Residence,
        /// The device of the norm.
        device: Residence,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

crate::device::error::carries_device_errors! { NormError }
