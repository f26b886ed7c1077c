//! Errors of operations on rows.

use cuda_std::launch::Residence;

use crate::device::DeviceError;

/// Why a softmax was refused or failed.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, SoftmaxError};
///
/// let buffer = Device::cpu().alloc_zeroed::<f32>(5)?;
/// let error = Matrix::new(&buffer, 2, 3).map(|_| ()).unwrap_err();
/// assert!(matches!(error, SoftmaxError::ViewTooShort { rows: 2, cols: 3, len: 5, .. }));
/// # Ok::<(), SoftmaxError>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SoftmaxError {
    /// The rows would overlap.
    #[error(
        "a matrix of {cols} columns cannot have a row every {stride} elements: the rows would overlap; make the stride \
         at least {cols}"
    )]
    StrideTooSmall {
        /// Elements from one row to the next.
        stride: usize,
        /// Elements of a row.
        cols: usize,
    },
    /// The view ends before the last row does.
    #[error(
        "a matrix of {rows} x {cols} with a row every {stride} elements does not fit a view of {len} elements; it \
         needs (rows - 1) * stride + cols"
    )]
    ViewTooShort {
        /// Rows asked for.
        rows: usize,
        /// Elements of a row.
        cols: usize,
        /// Elements from one row to the next.
        stride: usize,
        /// Elements of the view.
        len: usize,
    },
    /// The matrices, or a matrix and the choice of kernels, have different shapes.
    #[error(
        "softmax of {} x {} failed: the {what} is {} x {}; both need the same rows and columns",
        expected[0], expected[1], got[0], got[1]
    )]
    ShapesDiffer {
        /// The matrix with the other shape.
        what: &'static str,
        /// Its rows and columns.
        got: [usize; 2],
        /// Rows and columns that it should have.
        expected: [usize; 2],
    },
    /// A slice does not have the length of its shape.
    #[error("softmax of {} x {} failed: there are {len} {what}; make it rows * cols", shape[0], shape[1])]
    SliceLength {
        /// The contents of the slice.
        what: &'static str,
        /// Its elements.
        len: usize,
        /// Rows and columns asked for.
        shape: [usize; 2],
    },
    /// A vector does not have one element per row.
    #[error("{operation} of {rows} rows failed: there are {len} {what}; each row needs one")]
    LengthDiffers {
        /// The requested operation.
        operation: &'static str,
        /// The contents of the vector.
        what: &'static str,
        /// Its elements.
        len: usize,
        /// Rows of the logits.
        rows: usize,
    },
    /// The factor is out of range.
    #[error(
        "softmax with a scale of {scale} failed: the scale must be in (0, 2^127]; for a temperature t, pass 1 / t"
    )]
    Scale {
        /// The factor asked for.
        scale: f32,
    },
    /// `k` is out of range.
    #[error("top-k with k = {k} failed: k must be from 1 to 128; choose another k")]
    TopK {
        /// The number asked for.
        k: usize,
    },
    /// The temperature is out of range.
    #[error(
        "sampling at a temperature of {temperature} failed: it is 0, or from 2^-126 on and finite; for the largest logit \
         make it 0"
    )]
    Temperature {
        /// The temperature asked for.
        temperature: f32,
    },
    /// The `top_p` is out of range.
    #[error("sampling with a top-p of {p} failed: it must be over 0 and at most 1; 1 disables the cut")]
    TopP {
        /// The `top_p` asked for.
        p: f32,
    },
    /// The rows have more elements than the kernels can count.
    #[error("softmax of rows of {cols} elements failed: a row has at most 4294967295; split the rows")]
    TooWide {
        /// Elements of a row.
        cols: usize,
    },
    /// A matrix lives in the memory of another device, or of the same device opened a second time, which is not in order
    /// with this one.
    #[error(
        "softmax on {device} failed: the {what} belongs to another `Device`, in the memory of {at}; allocate it on \
         the same device or a clone of it"
    )]
    WrongDevice {
        /// Which matrix.
        what: &'static str,
        /// Where it lives.
        at: Residence,
        /// The device of the softmax.
        device: Residence,
    },
    /// The device failed, or refused the launch.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

crate::device::error::carries_device_errors! { SoftmaxError }
