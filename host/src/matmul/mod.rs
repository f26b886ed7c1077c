//! Matrix multiplication for `f32`, `f16` and `bf16`, with the usual epilogues: a scale, a bias, a residual, ReLU or GeLU.
//!
//! ```
//! use ferrowarp::device::Device;
//! use ferrowarp::{Error, Matmul};
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0)?
//! let x = device.tensor(&[1.0f32, 2.0], [1, 2])?;
//! let weights = device.tensor(&[1.0f32, 0.0, 1.0, 1.0, 2.0, 2.0], [3, 2])?;
//! let bias = device.upload(&[0.0f32, 0.0, 10.0])?;
//! let linear = Matmul::new().bias(&bias);
//! let y = linear.run(&device, &x, weights.t())?;
//! assert_eq!(y.to_vec()?, [1.0, 3.0, 16.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! Operands are matrices, or batches of matrices with one to two axes in front. They may have any extents and alignment, gaps
//! between rows or columns, and may be transposed ([`TensorView::t`](crate::TensorView::t)): one of the last two axes has no gaps. An operand of
//! two axes is the same for the whole batch. [`KernelChoice`] picks the kernel by shape, type and device, and prints its choice
//! without a GPU.
//!
//! # Accuracy
//! Products of `f16` and `bf16` are exact, and sums are `f32`, without long chains of additions except in tensor cores.
//! [`Precision`] describes how `f32` is multiplied. The epilogue
//! is computed in `f32`, and a result is rounded once. For one device, shape and alignment, results have the same bits in
//! every run, because all sums have a fixed order.

mod align;
mod estimate;
mod kernel_choice;
mod launch;
mod maps;
mod operation;
#[cfg(feature = "ladders")]
mod rung;
mod stored;
mod three_products;
mod types;

pub use kernel_choice::{KernelChoice, Problem};
pub use operation::Matmul;
#[cfg(feature = "ladders")]
#[doc(hidden)]
pub use rung::run_rung;
pub use types::{Activation, Precision};
