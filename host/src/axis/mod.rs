//! Operations along an axis of a matrix of `f32`, `f16` or `bf16`: sums, means, maxima and minima of rows or columns ([`Reduce`]),
//! cumulative sums of rows ([`CumulativeSum`]), the transpose ([`Transpose`]), copies and conversions ([`Cast`]) and fills ([`Fill`]).
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::{Error, Reduce, Reduction, Tensor};
//!
//! let device = Device::cpu(); // On a GPU: Device::open()?
//! let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! let sums: Tensor<f32> = Reduce::rows(Reduction::Sum).run(&device, &x)?;
//! let maxima = Reduce::columns(Reduction::Max).run(&device, &x)?;
//! assert_eq!(sums.to_vec()?, [6.0, 15.0]);
//! assert_eq!(maxima.to_vec()?, [4.0, 5.0, 6.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Rows may have any length and stride, and start at any element. Kernels read and write 16 bytes at a time. These go element
//! by element, which is slower: the ends of rows that do not start or end at multiples of 16 bytes, and if there are such rows,
//! a transpose, a copy, or a reduction of columns.
//!
//! # Accuracy
//! Sums are `f32`. A thread adds up runs of a few dozen terms, and then the sums of the runs, whose roundings it adds up on their
//! own; a cumulative sum on the CPU adds one element after the other, without that. A result is rounded once. For one device,
//! shape and alignment, results are the same bits in every run, because all sums have a fixed order.

mod cast;
mod choices;
mod reduce;
mod scan;
mod transpose;

pub use axis_kernels::CastTo;
pub use cast::{Cast, Fill};
#[doc(hidden)]
pub use choices::choices;
pub use reduce::{Reduce, Reduction};
pub use scan::CumulativeSum;
#[doc(hidden)]
pub use scan::ScanBy;
pub use transpose::Transpose;
