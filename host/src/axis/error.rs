//! Errors of operations along an axis.

use cuda_std::launch::Residence;

use crate::device::DeviceError;
use crate::rows::SoftmaxError;

/// Why an operation along an axis was refused or failed.
///
/// ```
/// use ferrowarp::axis::{AxisError, Matrix, Operation, Reduce};
/// use ferrowarp::device::Device;
///
/// let device = Device::cpu();
/// let (inp, mut out) = (device.upload(&[1.0f32; 6])?, device.alloc_zeroed::<f32>(3)?);
/// let reduce = Reduce::rows(Operation::Sum, &mut out, Matrix::new(&inp, 2, 3)?);
/// assert!(matches!(reduce.run(&device), Err(AxisError::Length { len: 3, expected: 2, .. })));
/// # Ok::<(), AxisError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AxisError {
    /// A matrix does not fit its view.
    #[error(transparent)]
    Matrix(#[from] SoftmaxError),
    /// The output has another shape.
    #[error(
        "{operation} failed: the output is {} x {}; pass one of {} x {}",
        got[0], got[1], expected[0], expected[1]
    )]
    ShapesDiffer {
        /// The operation.
        operation: &'static str,
        /// Rows and columns of the output.
        got: [usize; 2],
        /// Rows and columns that it must have.
        expected: [usize; 2],
    },
    /// The output has another length.
    #[error("{operation} failed: the output has {len} elements; pass one of {expected}")]
    Length {
        /// The operation.
        operation: &'static str,
        /// Elements of the output.
        len: usize,
        /// Elements that it must have.
        expected: usize,
    },
    /// An extent is larger than the kernels can count.
    #[error("{operation} with {value} {what} failed: at most {most} are possible; split the matrix")]
    TooLarge {
        /// The operation.
        operation: &'static str,
        /// Which extent.
        what: &'static str,
        /// The extent.
        value: usize,
        /// The largest one.
        most: usize,
    },
    /// An operand lives in the memory of another device, or of the same device opened a second time.
    #[error(
        "{operation} on {device} failed: the {what} belongs to another `Device`, in the memory of {at}; allocate it on the same device or \
         a clone of it"
    )]
    WrongDevice {
        /// The operation.
        operation: &'static str,
        /// Which operand.
        what: &'static str,
        /// Where it lives.
        at: Residence,
        /// Where the operation was to run.
        device: Residence,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

crate::device::error::carries_device_errors! { AxisError }
