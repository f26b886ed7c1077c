//! Attention for `f16` and `bf16`: `softmax(scale Q K^T + mask) V` for each head, and its gradients, with memory
//! proportional to the length.
//!
//! ```
//! use ferrowarp::attention::{Attention, AttentionError, Causal, Tensor, TensorMut};
//! use ferrowarp::bf16;
//! use ferrowarp::device::Device;
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0, &PtxModules::find()?)?
//! let numbers = |numbers: &[f32]| device.upload(&numbers.iter().map(|&x| bf16::from_f32(x)).collect::<Vec<_>>());
//! // One sequence of two positions, one head of two elements.
//! let shape = [1, 2, 1, 2];
//! let (q, k) = (numbers(&[1.0, 0.0, 0.0, 1.0])?, numbers(&[0.0, 0.0, 0.0, 0.0])?);
//! let v = numbers(&[1.0, 2.0, 3.0, 4.0])?;
//! let mut out = device.alloc_zeroed::<bf16>(4)?;
//! Attention::new(
//!     TensorMut::new(&mut out, shape)?,
//!     Tensor::new(&q, shape)?,
//!     Tensor::new(&k, shape)?,
//!     Tensor::new(&v, shape)?,
//! )
//! .causal(Causal::TopLeft)
//! .run(&device)?;
//! // The first position sees only itself, the second one weights both values equally.
//! let out: Vec<f32> = out.to_vec()?.into_iter().map(bf16::to_f32).collect();
//! assert_eq!(out, [1.0, 2.0, 2.0, 3.0]);
//! # Ok::<(), AttentionError>(())
//! ```
//!
//! Tensors are `[batch, length, heads, head size]`. The first three dimensions may be in any order in memory, through
//! [strides](Tensor::with_strides). K and V may have fewer heads than Q (grouped-query attention). Any length is allowed.
//! Head sizes are 1 to 256. A GPU needs compute capability 8.0. On 9.0, many queries with a head size of 64 or 128 and rows
//! that start at multiples of 16 bytes are the fastest. Few queries with many keys (decoding) run at the speed of reading K
//! and V. [`KernelChoice`] picks the kernel, and prints its choice without a GPU.
//!
//! # Masks
//! [`Causal`] hides the keys after a query. A [sliding window](Attention::sliding_window) also hides keys far before it.
//! Keys that no query of a tile sees are neither read nor computed.
//!
//! # Gradients
//! [`Backward`] computes the gradients of Q, K and V from the log-sum-exp, and recomputes the weights. It needs head sizes
//! up to 128 that are multiples of 8, and rows that start at multiples of 16 bytes; a GPU needs compute capability 9.0. Each
//! sum has a fixed order, so gradients also have the same bits in every run.
//!
//! # A KV cache
//! The keys and values of a cache may be in [pages](Attention::pages), and each batch entry may have [a length of its
//! own](Attention::lengths).
//!
//! # Masked rows
//! A query that sees no key gets zeros, and -inf as its log-sum-exp. Values of keys that a mask hides must be finite: a GPU multiplies
//! them by a weight of 0. Keys and values after the length of a batch entry are not read.
//!
//! # Accuracy
//! Logits, exponentials and sums are `f32`. On a GPU the weights are rounded to the type of the tensors before they multiply
//! the values. A result is rounded once. For one device and shape, results have the same bits in every run.

mod backward;
mod error;
mod kernel_choice;
mod maps;
mod operation;
#[cfg(feature = "ladders")]
mod rung;
mod tensor;
mod types;

#[doc(hidden)]
pub use backward::BackwardBy;
pub use backward::{Backward, Forward, Gradients};
pub use error::AttentionError;
pub use kernel_choice::{KernelChoice, Problem};
pub use operation::Attention;
#[cfg(feature = "ladders")]
#[doc(hidden)]
pub use rung::run_rung;
pub use tensor::{Tensor, TensorMut};
pub use types::{Causal, Real};
