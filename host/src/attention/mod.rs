//! Attention for `f16` and `bf16`: `softmax(scale Q K^T + mask) V` for each head, and its gradients, with memory
//! proportional to the length.
//!
//! ```
//! use ferrowarp::attention::{Attention, Causal};
//! use ferrowarp::device::Device;
//! use ferrowarp::{Error, bf16};
//!
//! let device = Device::cpu(); // On a GPU: Device::cuda(0)?
//! // One sequence of two positions, one head of two elements.
//! let tensor = |numbers: [f32; 4]| device.tensor(&numbers.map(bf16::from_f32), [1, 2, 1, 2]);
//! let (q, k) = (tensor([1.0, 0.0, 0.0, 1.0])?, tensor([0.0; 4])?);
//! let v = tensor([1.0, 2.0, 3.0, 4.0])?;
//! let out = Attention::new().causal(Causal::TopLeft).run(&device, &q, &k, &v)?;
//! // The first position sees only itself, the second one weights both values equally.
//! assert_eq!(out.to_vec()?, [1.0, 2.0, 2.0, 3.0].map(bf16::from_f32));
//! # Ok::<(), Error>(())
//! ```
//!
//! Tensors are `[batch, length, heads, head size]`. The first three axes may be in any order in memory, with gaps, and those of
//! operands repeated. K and V may have fewer heads than Q (grouped-query attention). Any length is allowed.
//! Head sizes are 1 to 256. A GPU needs compute capability 8.0. Many queries are fast with head sizes that are multiples of 8 and rows
//! that start at multiples of 16 bytes; on 9.0 the best head sizes are 64, 80, 96, 112, 128, 192 and 256. Few queries with many keys
//! (decoding) run at the speed of reading K and V. [`KernelChoice`] picks the kernel, and prints its choice without a GPU.
//!
//! # Masks
//! [`Causal`] hides the keys after a query. A [sliding window](Attention::sliding_window) also hides keys far before it.
//! Keys that no query of a tile sees are neither read nor computed.
//!
//! # Gradients
//! [`backward`](Attention::backward) computes the gradients of Q, K and V from the log-sum-exp, and recomputes the weights. It has the
//! same limits. Rows that do not start at multiples of 16 bytes are slow. On 9.0, head sizes up to 128 that are multiples of 8 are the
//! fastest. Other gradients take an `f32` for each element of Q. Each sum has a fixed order, so gradients also have the same bits in
//! every run.
//!
//! # A KV cache
//! The keys and values of a cache may be in [pages](Attention::pages), and each batch entry may have [a length of its
//! own](Attention::lengths).
//!
//! # Masked rows
//! A query that sees no key, or whose visible logits are all -inf, gets zeros, and -inf as its log-sum-exp. Values of keys that a
//! mask hides must be finite: a GPU multiplies them by a weight of 0. Keys and values after the length of a batch entry are not read.
//!
//! # Accuracy
//! Logits, exponentials and sums are `f32`. On a GPU the weights are rounded to the type of the tensors before they multiply
//! the values. A result is rounded once. For one device and shape, results have the same bits in every run.

mod backward;
mod backward_by;
mod backward_work;
mod kernel_choice;
mod maps;
mod operation;
mod outputs;
#[cfg(feature = "ladders")]
mod rung;
mod stored;
mod types;

#[doc(hidden)]
pub use backward::BackwardInputs;
#[doc(hidden)]
pub use backward_by::BackwardBy;
pub use kernel_choice::{KernelChoice, Problem};
pub use operation::Attention;
pub use outputs::{GradientOutputs, Gradients, Outputs};
#[cfg(feature = "ladders")]
#[doc(hidden)]
pub use rung::run_rung;
pub use types::{Causal, Element16};
