//! Errors of matrix multiplications.

use cuda_std::launch::Residence;

use crate::device::DeviceError;

/// Why a matrix multiplication was refused or failed.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{MatmulError, Matrix};
///
/// let buffer = Device::cpu().alloc_zeroed::<f32>(5)?;
/// let error = Matrix::new(&buffer, 2, 3).map(|_| ()).unwrap_err();
/// assert!(matches!(error, MatmulError::ViewTooShort { rows: 2, cols: 3, len: 5, .. }));
/// # Ok::<(), MatmulError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MatmulError {
    /// The rows would overlap.
    #[error(
        "a matrix of {cols} columns cannot have a row every {stride} elements, because the rows would overlap; make the \
         stride at least {cols}"
    )]
    StrideTooSmall {
        /// Elements from one row to the next.
        stride: usize,
        /// Elements of a row.
        cols: usize,
    },
    /// The matrices of an output batch would overlap.
    #[error(
        "an output of {rows} x {cols} cannot have a matrix every {stride} elements, because the matrices would overlap; \
         make the batch stride at least {needed}"
    )]
    BatchOverlaps {
        /// Rows of a matrix.
        rows: usize,
        /// Columns of a matrix.
        cols: usize,
        /// Elements from one matrix to the next.
        stride: usize,
        /// The smallest stride.
        needed: usize,
    },
    /// The view ends before the last row does.
    #[error(
        "{batch} matrices of {rows} x {cols}, a row every {stride} elements and a matrix every {batch_stride}, do not fit a \
         view of {len} elements; they need (batch - 1) * batch stride + (rows - 1) * stride + cols"
    )]
    ViewTooShort {
        /// The number of matrices.
        batch: usize,
        /// Rows asked for.
        rows: usize,
        /// Elements of a row.
        cols: usize,
        /// Elements from one row to the next.
        stride: usize,
        /// Elements from one matrix to the next.
        batch_stride: usize,
        /// Elements of the view.
        len: usize,
    },
    /// The shapes do not match.
    #[error(
        "matmul of {} x {} by {} x {} failed: the {what} is {} x {}, and must be {} x {}",
        a[0], a[1], b[0], b[1], got[0], got[1], expected[0], expected[1]
    )]
    ShapesDiffer {
        /// Rows and columns of A.
        a: [usize; 2],
        /// Rows and columns of B.
        b: [usize; 2],
        /// The matrix with the wrong shape.
        what: &'static str,
        /// Its rows and columns.
        got: [usize; 2],
        /// Rows and columns that it must have.
        expected: [usize; 2],
    },
    /// The operands have different numbers of matrices.
    #[error("matmul of a batch of {expected} failed: the {what} has {got} matrices; give it {expected}")]
    BatchesDiffer {
        /// The operand with another number.
        what: &'static str,
        /// Its number of matrices.
        got: usize,
        /// The output's number of matrices.
        expected: usize,
    },
    /// The bias does not have one element per column.
    #[error("matmul with a bias of {len} elements failed: the output has {cols} columns, and each needs one")]
    BiasLength {
        /// Elements of the bias.
        len: usize,
        /// Columns of the output.
        cols: usize,
    },
    /// An extent is larger than the kernels can count.
    #[error("matmul with {what} = {value} failed: an extent is at most {most}; split the matrices")]
    TooLarge {
        /// Which extent.
        what: &'static str,
        /// The extent.
        value: usize,
        /// The largest one.
        most: usize,
    },
    /// The device has no kernel for this multiplication.
    #[error(
        "matmul on a GPU of compute capability {}.{} failed: the kernels need tensor cores of 8.0 or later; use a newer GPU \
         or `Device::cpu()`",
        capability / 10, capability % 10
    )]
    NoKernel {
        /// The capability, times ten.
        capability: u32,
    },
    /// A matrix lives in the memory of another device, or of the same device opened a second time.
    #[error(
        "matmul on {device} failed: the {what} belongs to another `Device`, in the memory of {at}; allocate it on the same \
         device or a clone of it"
    )]
    WrongDevice {
        /// Which matrix.
        what: &'static str,
        /// Where it lives.
        at: Residence,
        /// The device of the multiplication.
        device: Residence,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

crate::device::error::carries_device_errors! { MatmulError }
