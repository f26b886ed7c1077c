//! Operations of [`ferrowarp`] on candle's tensors, with gradients: [`softmax`], [`rms_norm`], [`attention`] and
//! [`cross_entropy`], for `f32`, `f16` and `bf16` (attention: `f16` and `bf16`).
//!
//! ```
//! use candle_core::{Device, Tensor, Var};
//! use ferrowarp_candle::{Softmax, cross_entropy, rms_norm, softmax};
//!
//! # fn main() -> candle_core::Result<()> {
//! let device = Device::Cpu; // On a GPU: Device::new_cuda(0)?
//! let x = Var::new(&[[3f32, 4.0], [0.0, 1.0]], &device)?;
//! let weight = Var::new(&[1f32, 2.0], &device)?;
//! let logits = rms_norm(&x, &weight, 1e-6)?;
//! let targets = Tensor::new(&[1u32, 0], &device)?;
//! let gradients = cross_entropy(&logits, &targets)?.mean_all()?.backward()?;
//! assert_eq!(gradients.get(&weight).unwrap().dims(), [2]);
//!
//! let probabilities = softmax(&logits, Softmax::new())?;
//! assert_eq!(probabilities.dims(), [2, 2]);
//! # Ok(())
//! # }
//! ```
//!
//! On CUDA devices, with the feature `cuda`, the kernels work on candle's memory in the order of candle's stream. Nothing is copied and
//! nothing waits. The first call opens the GPU, and the first one of an operation loads its kernel: run it once before a capture. On the CPU,
//! ferrowarp's CPU device runs the same kernels. Errors are candle's, with ferrowarp's text.

mod memory;
mod operations;

use candle_core::{Result, Tensor};
pub use ferrowarp::attention::Causal;
pub use ferrowarp::{Attention, Softmax};

use operations::{AttentionOp, CrossEntropyOp, RmsNormOp, SoftmaxOp, saved};

/// Returns the softmax along the last axis, or its logarithm for [`Softmax::log`], in the shape and type of `x`.
///
/// # Errors
/// `x` is not `f32`, `f16` or `bf16`; its last axis has gaps, or its rows are not at equal distances; the options are out of range; the
/// device failed.
pub fn softmax(x: &Tensor, options: Softmax) -> Result<Tensor> {
    x.apply_op1(SoftmaxOp(options))
}

/// Returns `x / sqrt(mean(x^2) + epsilon) * weight` along the last axis, in the shape and type of `x`. `weight` is `[cols]`, of the same
/// type.
///
/// # Errors
/// As for [`softmax`]; the weight does not fit; `epsilon` is negative or not finite.
pub fn rms_norm(x: &Tensor, weight: &Tensor, epsilon: f32) -> Result<Tensor> {
    x.apply_op2(weight, RmsNormOp { epsilon, rstd: saved(&[x, weight]) })
}

/// Returns the loss of each row as `f32`, of the shape of `logits` without the last axis: `ln(sum(exp(x))) - x[target]`. `targets` are
/// `i64`, `u32` (below 2^31) or `u8`, of the same shape. A target of -100 gives the loss and the gradient 0; one that is no
/// column gives NaN.
///
/// # Errors
/// As for [`softmax`]; the targets have another shape, gaps, or another type.
pub fn cross_entropy(logits: &Tensor, targets: &Tensor) -> Result<Tensor> {
    logits.apply_op2(targets, CrossEntropyOp)
}

/// Returns `softmax(scale Q K^T + mask) V`, in the shape and type of `q`. Tensors are `[batch, length, heads, head size]`, with the first
/// three axes in any order in memory: pass `q.transpose(1, 2)?` of a tensor `[batch, heads, length, head size]`. `k` and `v` may have fewer
/// heads.
///
/// ```
/// use candle_core::{DType, Device, Tensor};
/// use ferrowarp_candle::{Attention, Causal, attention};
///
/// # fn main() -> candle_core::Result<()> {
/// let x = Tensor::randn(0f32, 1.0, (1, 3, 2, 8), &Device::Cpu)?.to_dtype(DType::BF16)?;
/// let y = attention(&x, &x, &x, Attention::new().causal(Causal::TopLeft))?;
/// assert_eq!(y.dims(), x.dims());
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// A tensor is not `f16` or `bf16`, does not have 4 axes, or has gaps along the last one; shapes or types differ; the options are out of
/// range; the device has no kernel for the head size, or failed. Gradients have the limits of
/// [`Attention::backward`](ferrowarp::Attention::backward).
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, options: Attention<'static>) -> Result<Tensor> {
    q.apply_op3(k, v, AttentionOp { options, log_sum_exp: saved(&[q, k, v]) })
}
