//! Matrix multiplication for `f32`, `f16` and `bf16`, with the usual epilogues: a scale, a bias, a residual, ReLU or GeLU.
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::matmul::{MatmulError, Matrix, MatrixMut, matmul};
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0, &PtxModules::find()?)?
//! let a = device.upload(&[1.0f32, 2.0, 3.0, 4.0])?;
//! let b = device.upload(&[1.0f32, 0.0, 1.0, 1.0])?;
//! let mut out = device.alloc_zeroed::<f32>(4)?;
//! matmul(&device, MatrixMut::new(&mut out, 2, 2)?, Matrix::new(&a, 2, 2)?, Matrix::new(&b, 2, 2)?)?;
//! assert_eq!(out.to_vec()?, [3.0, 2.0, 7.0, 4.0]);
//! # Ok::<(), MatmulError>(())
//! ```
//!
//! [`Matmul`] adds the epilogue. Matrices may have any extents, strides and alignment, may be transposed, and may be
//! batches. [`KernelChoice`] picks the kernel by shape, type and device, and prints its choice without a GPU.
//!
//! # Accuracy
//! Products of `f16` and `bf16` are exact, and sums are `f32`, without long chains of additions except in tensor cores.
//! [`Precision`] describes how `f32` is multiplied. The epilogue
//! is computed in `f32`, and a result is rounded once. For one device, shape and alignment, results have the same bits in
//! every run, because all sums have a fixed order.

mod align;
mod error;
mod estimate;
mod kernel_choice;
mod launch;
mod maps;
mod matrix;
mod operation;
mod rung;
mod three_products;
mod types;

use bytemuck::Pod;

use crate::device::Queue;

pub use error::MatmulError;
pub use kernel_choice::{KernelChoice, Problem};
pub use matrix::{Matrix, MatrixMut};
pub use operation::Matmul;
#[doc(hidden)]
pub use rung::run_rung;
pub use types::{Activation, MatmulAs, Precision, Real};

/// Writes `A B` into `out`: `[m, k]` by `[k, n]` of `T`, as `[m, n]` of `O`. On a GPU the work is queued.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{MatmulError, Matrix, MatrixMut, matmul};
///
/// let device = Device::cpu();
/// let (row, col) = (device.upload(&[1.0f32, 2.0])?, device.upload(&[3.0f32, 4.0])?);
/// let mut out = device.alloc_zeroed::<f32>(4)?;
/// matmul(&device, MatrixMut::new(&mut out, 2, 2)?, Matrix::new(&col, 2, 1)?, Matrix::new(&row, 1, 2)?)?;
/// assert_eq!(out.to_vec()?, [3.0, 6.0, 4.0, 8.0]);
/// # Ok::<(), MatmulError>(())
/// ```
///
/// # Errors
/// Same as for [`Matmul::run`].
pub fn matmul<T: MatmulAs<O>, O: Pod>(
    queue: &impl Queue,
    out: MatrixMut<'_, O>,
    a: Matrix<'_, T>,
    b: Matrix<'_, T>,
) -> Result<(), MatmulError> {
    Matmul::new(out, a, b).run(queue)
}
