//! Softmax and log-softmax along the last axis of a tensor, for `f32`, `f16` and `bf16`, with gradients, cross entropy
//! ([`CrossEntropy`]), the largest probabilities ([`TopK`]), and sampling of tokens ([`Sample`]).
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::{CrossEntropy, Error, Softmax};
//!
//! let device = Device::cpu(); // On a GPU: Device::open()?
//! let logits = device.tensor(&[0.0f32, 0.0, 1.0, f32::NEG_INFINITY], [2, 2])?;
//! let probabilities = Softmax::new().run(&device, &logits)?;
//! assert_eq!(probabilities.to_vec()?, [0.5, 0.5, 1.0, 0.0]);
//!
//! let targets = device.upload(&[1i64, 0])?;
//! let (losses, gradient) = CrossEntropy::new().forward(&device, &logits, &targets)?;
//! assert!((losses.to_vec()?[0] - 2f32.ln()).abs() < 1e-6);
//! assert_eq!(gradient.to_vec()?, [0.5, -0.5, 0.0, 0.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The axes before the last one are rows. Rows may have a stride, start at any element, and have any width up to 2^32 - 1. A
//! tensor may have more than 2^32 elements. Without rows or columns nothing is launched. Elements between the rows are neither
//! read nor written.
//!
//! # Hard rows
//!
//! | in a row | softmax | logarithm |
//! | --- | --- | --- |
//! | some -inf | 0 there | -inf there |
//! | -inf only | NaN throughout; 0 with [`Softmax::zero_masked`] | NaN; -inf with `zero_masked` |
//! | a NaN, or a +inf | NaN throughout | NaN throughout |
//! | one element, finite | 1 | 0 |
//! | `f32::MIN` only, as some masks fill a row | 1 / cols | -ln(cols) |
//! | a result under 2^-126 | as `f32` kept to the last subnormal; as `f16` or `bf16` it may be 0 | exact |
//!
//! A difference from the row's maximum of more than `f32::MAX`, before the scale, counts as infinite.
//!
//! # Accuracy
//!
//! Everything is computed in `f32` and rounded to the output type once. The maximum is subtracted before any multiplication,
//! so large logits lose no accuracy. The relative error of an `f32` probability of x is at most 2e-6, plus 2^-24 |x - max| if
//! the difference is not exact (it is for close values); with a scale s, plus 3 * 2^-24 s |x - max|. The absolute error of a
//! logarithm is at most 2e-6, plus 2^-21 of its magnitude, plus 2^-24 s |x - max| if the difference is not exact; near 0 its
//! relative error may be large. For one device, shape and alignment, results have the same bits in every run, because all
//! sums have a fixed order.

mod backward;
pub mod cross_entropy;
mod forward;
mod in_registers;
pub(crate) mod kernel_choice;
mod options;
mod row_kernel;
pub mod sample;
mod staged;
mod top_k;

pub use cross_entropy::CrossEntropy;
#[doc(hidden)]
pub use ferrowarp_device::DeviceProfile;
pub use kernel_choice::KernelChoice;
pub use options::{Softmax, SoftmaxAs};
pub use sample::Sample;
pub use top_k::TopK;
