//! Where results are written.

use bytemuck::Pod;

use ferrowarp_device::tensor::{Tensor, TensorViewMut};

/// The outputs of attention: the result, and the log-sum-exp if it is wanted. A tensor alone is the result.
///
/// ```
/// use ferrowarp::attention::{Attention, Outputs};
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Tensor, f16};
///
/// let device = Device::cpu();
/// // 3 queries of 4 heads, which share one head of 2 keys.
/// let q = device.tensor(&[f16::ONE; 3 * 4 * 8], [1, 3, 4, 8])?;
/// let (k, v) = (Tensor::zeros(&device, [1, 2, 1, 8])?, Tensor::zeros(&device, [1, 2, 1, 8])?);
/// let mut out = Tensor::zeros(&device, [1, 3, 4, 8])?;
/// let mut log_sum_exp = Tensor::zeros(&device, [1, 4, 3])?;
/// Attention::new().run_into(&device, Outputs::new(&mut out).log_sum_exp(&mut log_sum_exp), &q, &k, &v)?;
/// assert!(log_sum_exp.to_vec()?.iter().all(|x| (x - 2f32.ln()).abs() < 1e-6));
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before attention runs"]
pub struct Outputs<'a, T: Pod> {
    pub(super) out: TensorViewMut<'a, T>,
    pub(super) log_sum_exp: Option<TensorViewMut<'a, f32>>,
}

impl<'a, T: Pod> Outputs<'a, T> {
    /// The result alone, in the shape of the queries.
    pub fn new(out: impl Into<TensorViewMut<'a, T>>) -> Self {
        Self { out: out.into(), log_sum_exp: None }
    }

    /// Also the natural logarithm of the sum of `exp(scale * logit)` over the keys that a query sees, `[batch, heads, queries]`
    /// without gaps. It is -inf for a query that sees no key.
    pub fn log_sum_exp(self, log_sum_exp: impl Into<TensorViewMut<'a, f32>>) -> Self {
        Self { log_sum_exp: Some(log_sum_exp.into()), ..self }
    }
}

impl<'a, T: Pod, V: Into<TensorViewMut<'a, T>>> From<V> for Outputs<'a, T> {
    fn from(out: V) -> Self {
        Self::new(out)
    }
}

/// The gradients of attention, which [`backward`](super::Attention::backward) returns.
///
/// ```
/// use ferrowarp::attention::{Attention, Gradients};
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Tensor, bf16};
///
/// let x = Tensor::<bf16>::zeros(&Device::cpu(), [1, 3, 2, 8])?;
/// let (out, log_sum_exp) = Attention::new().forward(x.device(), &x, &x, &x)?;
/// let gradients = Attention::new().backward(x.device(), &x, &x, &x, &x, (&out, &log_sum_exp))?;
/// let Gradients { q, k, v } = gradients;
/// assert_eq!([q.shape(), k.shape(), v.shape()], [x.shape(); 3]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
pub struct Gradients<T> {
    /// The gradient of the queries, in their shape.
    pub q: Tensor<T>,
    /// The gradient of the keys, in their shape.
    pub k: Tensor<T>,
    /// The gradient of the values, in their shape.
    pub v: Tensor<T>,
}

/// Where gradients are written.
///
/// ```
/// use ferrowarp::attention::{Attention, GradientOutputs};
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Tensor, bf16};
///
/// let device = Device::cpu();
/// let zeros = || Tensor::<bf16>::zeros(&device, [1, 2, 1, 8]);
/// let (x, mut dq, mut dk, mut dv) = (zeros()?, zeros()?, zeros()?, zeros()?);
/// let (out, log_sum_exp) = Attention::new().forward(&device, &x, &x, &x)?;
/// let to = GradientOutputs::new(&mut dq, &mut dk, &mut dv);
/// Attention::new().backward_into(&device, to, &x, &x, &x, &x, (&out, &log_sum_exp))?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Debug)]
#[must_use = "nothing is written before the gradients are computed"]
pub struct GradientOutputs<'a, T: Pod> {
    pub(super) q: TensorViewMut<'a, T>,
    pub(super) k: TensorViewMut<'a, T>,
    pub(super) v: TensorViewMut<'a, T>,
}

impl<'a, T: Pod> GradientOutputs<'a, T> {
    /// The gradients of the queries, keys and values, each in their shape.
    pub fn new(
        q: impl Into<TensorViewMut<'a, T>>,
        k: impl Into<TensorViewMut<'a, T>>,
        v: impl Into<TensorViewMut<'a, T>>,
    ) -> Self {
        Self { q: q.into(), k: k.into(), v: v.into() }
    }
}
