//! Operations along an axis of a matrix of `f32`, `f16` or `bf16`: sums, means, maxima and minima of rows or columns ([`Reduce`]),
//! cumulative sums of rows ([`CumulativeSum`]), and the transpose ([`Transpose`]).
//!
//! ```
//! use ferrowarp::axis::{AxisError, Matrix, Operation, Reduce};
//! use ferrowarp::device::Device;
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0, &PtxModules::find()?)?
//! let inp = device.upload(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let (mut sums, mut maxima) = (device.alloc_zeroed::<f32>(2)?, device.alloc_zeroed::<f32>(3)?);
//! Reduce::rows(Operation::Sum, &mut sums, Matrix::new(&inp, 2, 3)?).run(&device)?;
//! Reduce::columns(Operation::Max, &mut maxima, Matrix::new(&inp, 2, 3)?).run(&device)?;
//! assert_eq!(sums.to_vec()?, [6.0, 15.0]);
//! assert_eq!(maxima.to_vec()?, [4.0, 5.0, 6.0]);
//! # Ok::<(), AxisError>(())
//! ```
//!
//! Rows may have any length and stride, and start at any element. Reductions of rows always read 16 bytes at a time. The
//! other operations do so if every row starts at a multiple of 16 bytes and, except for the transpose, has a multiple of 16
//! bytes; otherwise they go element by element, which is slower.
//!
//! # Accuracy
//! Sums are `f32`. A thread adds up runs of a few dozen terms, and then the sums of the runs, whose roundings it adds up on their
//! own. A result is rounded once. For one device, shape and alignment, results are the same bits in every run, because all
//! sums have a fixed order.

mod error;
mod reduce;
mod scan;
mod transpose;

use bytemuck::Pod;
use cuda_std::launch::Limits;
use gpu_kernels::axis::{AxisKernels, Blocks};

pub use error::AxisError;
pub use reduce::{Operation, Output, Reduce};
pub use scan::CumulativeSum;
#[doc(hidden)]
pub use scan::ScanBy;
pub use transpose::Transpose;

pub use crate::rows::{Matrix, MatrixMut, SoftmaxError};

use crate::device::Device;

/// `f32`, `f16` or `bf16`.
///
/// ```
/// use ferrowarp::axis::Real;
///
/// fn bytes<T: Real>(elements: usize) -> usize {
///     elements * size_of::<T>()
/// }
/// assert_eq!(bytes::<ferrowarp::bf16>(8), 16);
/// ```
pub trait Real: Pod + AxisKernels {}

impl<T: Pod + AxisKernels> Real for T {}

/// The most rows, columns and elements from one row to the next.
const MOST: usize = i32::MAX as usize;

/// Converts a shape to 32 bits, or fails if the kernels cannot count it.
fn counted(operation: &'static str, [rows, cols]: [usize; 2]) -> Result<[u32; 2], AxisError> {
    for (what, value) in [("rows", rows), ("columns", cols)] {
        if value > MOST {
            return Err(AxisError::TooLarge { operation, what, value, most: MOST });
        }
    }
    Ok([rows as u32, cols as u32])
}

/// Refuses an operand on another device.
fn check_device(
    operation: &'static str,
    device: &Device,
    what: &'static str,
    at: &Device,
) -> Result<(), AxisError> {
    if device.is_in_order_with(at) {
        return Ok(());
    }
    let (at, device) = (at.residence(), device.residence());
    Err(AxisError::WrongDevice { operation, what, at, device })
}

/// The kinds of kernels that a device can run, the default first.
#[doc(hidden)]
pub fn choices(limits: &Limits) -> &'static [Blocks] {
    if limits.runs_cpu_only { &[Blocks::Serial, Blocks::Wide] } else { &[Blocks::Wide] }
}
