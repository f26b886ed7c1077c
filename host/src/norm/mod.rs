//! RMSNorm and LayerNorm along the rows of a matrix, forward and backward, for `f32`, `f16` and `bf16`.
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::norm::{Matrix, MatrixMut, Norm, NormError};
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0, &PtxModules::find()?)?
//! let inp = device.upload(&[1.0f32, 3.0, 4.0, 0.0])?;
//! let weight = device.upload(&[1.0f32, 2.0])?;
//! let mut out = device.alloc_zeroed::<f32>(4)?;
//! Norm::layer(MatrixMut::new(&mut out, 2, 2)?, Matrix::new(&inp, 2, 2)?)
//!     .weight(&weight)
//!     .epsilon(0.0)
//!     .run(&device)?;
//! assert_eq!(out.to_vec()?, [-1.0, 2.0, 1.0, -2.0]);
//! # Ok::<(), NormError>(())
//! ```
//!
//! Rows may have any length and stride. They are read and written 16 bytes at a time if every row starts at a multiple of 16
//! bytes and has a multiple of 16 bytes; otherwise element by element, which is slower. Gradients of up to 8185 columns are
//! also read and written 16 bytes at a time if the rows have no gaps between them, every matrix starts at a multiple of 16
//! bytes, and no matrix is written in place. On a GPU a row of up to 16384 elements (backward: 8192) is read once.
//!
//! # Accuracy
//! Sums are `f32`. The variance is computed from the differences to the mean, which also correct the mean: a row of equal
//! elements gives the bias. A result is rounded once. For one device and shape, results, including the gradients of weight and
//! bias, have the same bits in every run.
//!
//! Squares are `f32` too, so a row with deviations of about 1e19 or more gives zeros, as its variance is infinite. With an
//! epsilon of 0, a row whose variance is 0 gives NaN.

mod backward;
mod error;
mod forward;

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;
use gpu_kernels::norm::NormKernels;

pub use backward::NormBackward;
pub use error::NormError;
pub use forward::Norm;

pub use crate::rows::{Matrix, MatrixMut, SoftmaxError};

use crate::device::{BufferView, Device};
use crate::rows::{is_aligned, written};

/// `f32`, `f16` or `bf16`.
///
/// ```
/// use ferrowarp::norm::Real;
///
/// fn bytes<T: Real>(elements: usize) -> usize {
///     elements * size_of::<T>()
/// }
/// assert_eq!(bytes::<ferrowarp::bf16>(8), 16);
/// ```
pub trait Real: Pod + NormKernels {}

impl<T: Pod + NormKernels> Real for T {}

/// The most rows, columns and elements from one row to the next.
const MOST: usize = i32::MAX as usize;

/// Converts a shape to 32 bits, or fails if the kernels cannot count it.
fn counted([rows, cols]: [usize; 2]) -> Result<[u32; 2], NormError> {
    for (what, value) in [("rows", rows), ("columns", cols)] {
        if value > MOST {
            return Err(NormError::TooLarge { what, value, most: MOST });
        }
    }
    Ok([rows as u32, cols as u32])
}

fn check_device(device: &Device, what: &'static str, at: &Device) -> Result<(), NormError> {
    if device.is_in_order_with(at) {
        return Ok(());
    }
    let (at, device) = (at.residence(), device.residence());
    Err(NormError::WrongDevice { what, at, device })
}

/// Refuses a vector of another length or on another device.
fn check_vector(
    device: &Device,
    what: &'static str,
    [len, expected]: [usize; 2],
    at: &Device,
) -> Result<(), NormError> {
    if len != expected {
        return Err(NormError::Length { what, len, expected });
    }
    check_device(device, what, at)
}

/// Refuses a matrix of another shape or on another device.
fn check_matrix(
    device: &Device,
    what: &'static str,
    [got, expected]: [[usize; 2]; 2],
    at: &Device,
) -> Result<(), NormError> {
    if got != expected {
        return Err(NormError::ShapesDiffer { what, got, expected });
    }
    check_device(device, what, at)
}

/// The elements of a view as a launch argument; null for `None`.
fn read<T: Pod>(view: Option<BufferView<'_, T>>) -> RawBuffer<T> {
    view.map_or(RawBuffer::NULL, RawBuffer::read)
}
