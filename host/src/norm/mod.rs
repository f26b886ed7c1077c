//! RMSNorm and LayerNorm along the last axis of a tensor, for `f32`, `f16` and `bf16`, forward and backward, fused with the
//! addition of a residual.
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::{Error, Norm};
//!
//! let device = Device::cpu(); // On a GPU: Device::open()?
//! let x = device.tensor(&[3.0f32, 4.0], [1, 2])?;
//! let weight = device.upload(&[1.0f32, 2.0])?;
//! let norm = Norm::rms().weight(&weight);
//! let (out, saved) = norm.forward(&device, &x)?;
//! let rms = 12.5f32.sqrt(); // sqrt((3^2 + 4^2) / 2)
//! assert!(out.to_vec()?.iter().zip([3.0 / rms, 8.0 / rms]).all(|(got, want)| (got - want).abs() < 1e-5));
//!
//! let gradients = norm.backward(&device, &out, &x, &saved)?;
//! assert_eq!(gradients.weight.unwrap().shape().to_vec(), [2]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The axes before the last one are rows; they may have any number, stride and alignment. Rows whose starts and lengths are
//! multiples of 16 bytes are the fastest. On a GPU with compute capability 9.0, rows of up to 262,144 elements are read from
//! memory once.
//!
//! # Accuracy
//! Arithmetic is in `f32`. The variance of a LayerNorm is that of the differences to the mean, corrected by the roundings of
//! the mean: a row of equal elements gives the bias. A result is rounded once. For one device and shape, results, including the
//! gradients of weight and bias, have the same bits in every run.
//!
//! Squares are `f32` too, so a row with deviations of about 1e19 or more gives zeros, as its variance is infinite. From elements of
//! about 1e26 on, the rounding of the mean is that large, and a LayerNorm of equal elements may give NaN. With an
//! epsilon of 0, a row whose variance is 0 or too small for `f32` gives NaN or infinities.

mod backward;
mod forward;
mod options;

#[doc(hidden)]
pub use backward::Backward;
pub use backward::{GradientOutputs, Gradients, Statistics};
#[doc(hidden)]
pub use forward::Forward;
pub use forward::{Outputs, Saved};
pub use options::Norm;
