//! The operations as candle's custom operations.

use std::sync::OnceLock;

#[cfg(feature = "cuda")]
use candle_core::CudaStorage;
use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, DType, Layout, Result, Shape, Storage, Tensor, bail,
};
use ferrowarp::attention::{self, Element16};
use ferrowarp::norm::{self, Statistics};
use ferrowarp::softmax::cross_entropy::{self, Class};
use ferrowarp::{Attention, CrossEntropy, Element, Norm, Softmax, bf16, f16};

use crate::memory::{Memory, Number, Operand, Output, View, optional, ours};

/// Runs generic code for the type of a tensor's elements.
macro_rules! of_type {
    ($what:literal, $x:expr, [$($variant:ident: $ty:ty),*], $T:ident => $run:expr) => {
        match $x.dtype() {
            $(DType::$variant => { type $T = $ty; $run })*
            other => bail!(
                "{} are {other:?}; convert them to one of [{}] with `to_dtype`", $what, stringify!($($variant),*)
            ),
        }
    };
}

/// Makes a custom operation of candle's from a type with `forward` and `backward`.
macro_rules! custom_op {
    ($op:ident: $custom:ident, $name:literal, $($storage:ident $layout:ident $tensor:ident),*) => {
        impl $custom for $op {
            fn name(&self) -> &'static str {
                $name
            }

            fn cpu_fwd(&self, $($storage: &CpuStorage, $layout: &Layout),*) -> Result<(CpuStorage, Shape)> {
                let operands = [$(Operand { memory: Memory::Cpu($storage), layout: $layout }),*];
                let (Storage::Cpu(storage), shape) = self.forward(operands)? else { bail!("the result is not on the CPU") };
                Ok((storage, shape))
            }

            #[cfg(feature = "cuda")]
            fn cuda_fwd(&self, $($storage: &CudaStorage, $layout: &Layout),*) -> Result<(CudaStorage, Shape)> {
                let operands = [$(Operand { memory: Memory::Cuda($storage), layout: $layout }),*];
                let (Storage::Cuda(storage), shape) = self.forward(operands)? else { bail!("the result is not on a GPU") };
                Ok((storage, shape))
            }

            #[allow(unused_parens, reason = "one gradient is no tuple")]
            fn bwd(&self, $($tensor: &Tensor,)* result: &Tensor, gradient: &Tensor) -> Result<($(custom_op!(@gradient $tensor)),*)> {
                // What candle adds up may have any strides.
                let [$($tensor),*] = self.backward([$($tensor),*], result, &gradient.contiguous()?)?;
                Ok(($($tensor),*))
            }
        }
    };
    (@gradient $tensor:ident) => { Option<Tensor> };
}

custom_op! { SoftmaxOp: CustomOp1, "ferrowarp softmax", s l x }
custom_op! { RmsNormOp: CustomOp2, "ferrowarp RMSNorm", s1 l1 x, s2 l2 weight }
custom_op! { CrossEntropyOp: CustomOp2, "ferrowarp cross entropy", s1 l1 logits, s2 l2 targets }
custom_op! { AttentionOp: CustomOp3, "ferrowarp attention", s1 l1 q, s2 l2 k, s3 l3 v }

/// A tensor as a matrix: the extents and the strides.
fn rows(x: &Operand<'_>) -> Result<([usize; 2], [usize; 2])> {
    let (dims, strides) = (x.layout.dims(), x.layout.stride());
    let (Some((&cols, leading)), Some(&last)) = (dims.split_last(), strides.last()) else {
        bail!("a scalar has no last axis; reshape it to a vector")
    };
    let (mut count, mut stride, mut are_even) = (1, cols, true);
    for (&extent, &next) in leading.iter().zip(strides).rev().filter(|(extent, _)| **extent != 1) {
        are_even &= count == 1 || next == stride * count;
        stride = if count == 1 { next } else { stride };
        count *= extent;
    }
    let is_dense = (cols <= 1 || last == 1) && (count <= 1 || stride >= cols);
    if !(are_even && is_dense || dims.contains(&0)) {
        bail!(
            "rows of shape {dims:?} with strides {strides:?} have gaps or unequal distances; call `contiguous` first"
        )
    }
    Ok(([count, cols], [stride, if cols > 1 { last } else { 1 }]))
}

pub struct SoftmaxOp(pub Softmax);

impl SoftmaxOp {
    fn forward(&self, [x]: [Operand<'_>; 1]) -> Result<(Storage, Shape)> {
        let storage =
            of_type!("the logits", x, [F32: f32, F16: f16, BF16: bf16], T => self.run::<T>(x)?.storage());
        Ok((storage, x.layout.shape().clone()))
    }

    fn run<T: Element + Number>(&self, x: Operand<'_>) -> Result<Output<T>> {
        let (queue, (shape, strides)) = (x.queue()?, rows(&x)?);
        let mut out = x.output(shape[0] * shape[1])?;
        {
            let (to, from) = (out.view(&queue, shape)?, x.view::<T, 2>(&queue, shape, strides)?);
            self.0.run_into(&queue.stream, to.view, from.view).map_err(ours)?;
        }
        Ok(out)
    }

    fn backward(&self, _: [&Tensor; 1], y: &Tensor, dy: &Tensor) -> Result<[Option<Tensor>; 1]> {
        Operand::with([y, dy], |[y, dy]| {
            Ok([Some(of_type!("the logits", y, [F32: f32, F16: f16, BF16: bf16], T => {
                self.gradient::<T>(y, dy)?.tensor(y.layout.shape())
            }))])
        })
    }

    fn gradient<T: Element + Number>(&self, y: Operand<'_>, dy: Operand<'_>) -> Result<Output<T>> {
        let (queue, (shape, _)) = (y.queue()?, rows(&y)?);
        let mut dx = y.output(shape[0] * shape[1])?;
        {
            let (of_y, dy) = (y.dense::<T, 2>(&queue, shape)?, dy.dense::<T, 2>(&queue, shape)?);
            let to = dx.view(&queue, shape)?;
            self.0.backward_into(&queue.stream, to.view, dy.view, of_y.view).map_err(ours)?;
        }
        Ok(dx)
    }
}

/// What the forward pass keeps for gradients, if there will be some. candle runs it once for each node of a graph.
pub type Saved = Option<OnceLock<Tensor>>;

/// An empty place if gradients of one of the tensors are wanted.
pub fn saved(tensors: &[&Tensor]) -> Saved {
    tensors.iter().any(|tensor| tensor.track_op()).then(OnceLock::new)
}

fn of_forward(saved: &Saved) -> Result<&Tensor> {
    let kept = saved.as_ref().and_then(OnceLock::get);
    kept.ok_or_else(|| ours("gradients need the forward pass first"))
}

pub struct RmsNormOp {
    pub epsilon: f32,
    /// `1 / sqrt(mean(x^2) + epsilon)` of each row.
    pub rstd: Saved,
}

impl RmsNormOp {
    fn forward(&self, [x, weight]: [Operand<'_>; 2]) -> Result<(Storage, Shape)> {
        let storage = of_type!("the rows", x, [F32: f32, F16: f16, BF16: bf16], T => self.run::<T>(x, weight)?.storage());
        Ok((storage, x.layout.shape().clone()))
    }

    fn run<T: Element + Number>(&self, x: Operand<'_>, weight: Operand<'_>) -> Result<Output<T>> {
        let (queue, (shape, strides)) = (x.queue()?, rows(&x)?);
        let mut out = x.output(shape[0] * shape[1])?;
        let mut rstd = x.output_if(self.rstd.is_some(), shape[0])?;
        {
            let (from, weight) = (x.view(&queue, shape, strides)?, weight.axes::<T, 1>(&queue, "weight")?);
            let (to, (to_rstd, _used)) = (out.view(&queue, shape)?, optional(&mut rstd, &queue, [shape[0]])?);
            let norm = Norm::rms().epsilon(self.epsilon).weight(weight.view);
            let outputs = to_rstd.into_iter().fold(norm::Outputs::new(to.view), norm::Outputs::rstd);
            norm.run_into(&queue.stream, outputs, from.view).map_err(ours)?;
        }
        if let (Some(saved), Some(rstd)) = (&self.rstd, rstd) {
            saved.get_or_init(|| rstd.tensor(shape[0]));
        }
        Ok(out)
    }

    fn backward(&self, [x, weight]: [&Tensor; 2], _: &Tensor, dy: &Tensor) -> Result<[Option<Tensor>; 2]> {
        let rstd = of_forward(&self.rstd)?;
        let is_learnt = weight.track_op();
        Operand::with(
            [x, weight, rstd, dy],
            |all| of_type!("the rows", all[0], [F32: f32, F16: f16, BF16: bf16], T => self.gradients::<T>(all, is_learnt)),
        )
    }

    fn gradients<T: Element + Number>(
        &self,
        [x, weight, rstd, dy]: [Operand<'_>; 4],
        is_learnt: bool,
    ) -> Result<[Option<Tensor>; 2]> {
        let (queue, (shape @ [count, cols], strides)) = (x.queue()?, rows(&x)?);
        let mut dx = x.output(count * cols)?;
        let mut d_weight = x.output_if(is_learnt, cols)?;
        {
            let (from, weight) = (x.view(&queue, shape, strides)?, weight.axes::<T, 1>(&queue, "weight")?);
            let (rstd, dy) = (rstd.dense(&queue, [count])?, dy.dense(&queue, shape)?);
            let (to, (to_weight, _used)) =
                (dx.view(&queue, shape)?, optional(&mut d_weight, &queue, [cols])?);
            let outputs = norm::GradientOutputs::new(to.view);
            let outputs = to_weight.into_iter().fold(outputs, norm::GradientOutputs::weight);
            let norm = Norm::rms().epsilon(self.epsilon).weight(weight.view);
            let statistics = Statistics::rms(rstd.view);
            norm.backward_into(&queue.stream, outputs, dy.view, from.view, statistics).map_err(ours)?;
        }
        Ok([Some(dx.tensor(x.layout.shape())), d_weight.map(|it| it.tensor(cols))])
    }
}

pub struct CrossEntropyOp;

impl CrossEntropyOp {
    fn forward(&self, [logits, targets]: [Operand<'_>; 2]) -> Result<(Storage, Shape)> {
        let (losses, _) = self.run(logits, targets, None)?;
        let dims = logits.layout.dims();
        Ok((losses.storage(), dims[..dims.len() - 1].into()))
    }

    fn backward(
        &self,
        [logits, targets]: [&Tensor; 2],
        _: &Tensor,
        dy: &Tensor,
    ) -> Result<[Option<Tensor>; 2]> {
        Operand::with([logits, targets, dy], |[logits, targets, dy]| {
            let (_, gradient) = self.run(logits, targets, Some(dy))?;
            Ok([gradient, None])
        })
    }

    /// The losses and, given their gradient, that of the logits.
    fn run(
        &self,
        logits: Operand<'_>,
        targets: Operand<'_>,
        dy: Option<Operand<'_>>,
    ) -> Result<(Output<f32>, Option<Tensor>)> {
        of_type!("the logits", logits, [F32: f32, F16: f16, BF16: bf16], T => {
            of_type!("the targets", targets, [I64: i64, U32: u32, U8: u8], C => run_entropy::<T, C>(logits, targets, dy))
        })
    }
}

fn run_entropy<T: Element + Number, C: Class + Number>(
    logits: Operand<'_>,
    targets: Operand<'_>,
    dy: Option<Operand<'_>>,
) -> Result<(Output<f32>, Option<Tensor>)> {
    let (queue, (shape @ [count, cols], strides)) = (logits.queue()?, rows(&logits)?);
    let dims = logits.layout.dims();
    let (got, needs) = (targets.layout.dims(), &dims[..dims.len() - 1]);
    if got != needs || !targets.layout.is_contiguous() {
        bail!(
            "the targets have the shape {got:?} and strides {:?}; they need {needs:?} without gaps",
            targets.layout.stride()
        )
    }
    let mut losses = logits.output(count)?;
    let mut gradient = logits.output_if::<T>(dy.is_some(), count * cols)?;
    {
        let (from, classes) = (logits.view(&queue, shape, strides)?, targets.dense::<C, 1>(&queue, [count])?);
        let dy = dy.as_ref().map(|dy| dy.dense(&queue, [count])).transpose()?;
        let (entropy, _used) = match dy {
            Some(View { view, used }) => (CrossEntropy::new().row_gradients(view), used),
            None => (CrossEntropy::new(), None),
        };
        let (to, (to_gradient, _written)) =
            (losses.view(&queue, [count])?, optional(&mut gradient, &queue, shape)?);
        let outputs = cross_entropy::Outputs::new(to.view);
        let outputs = to_gradient.into_iter().fold(outputs, cross_entropy::Outputs::gradient);
        entropy.run_into(&queue.stream, outputs, from.view, classes.view).map_err(ours)?;
    }
    Ok((losses, gradient.map(|it| it.tensor(dims))))
}

pub struct AttentionOp {
    pub options: Attention<'static>,
    /// `[batch, heads, queries]`.
    pub log_sum_exp: Saved,
}

impl AttentionOp {
    fn forward(&self, all @ [q, ..]: [Operand<'_>; 3]) -> Result<(Storage, Shape)> {
        let storage = of_type!("the queries", q, [F16: f16, BF16: bf16], T => self.run::<T>(all)?.storage());
        Ok((storage, q.layout.shape().clone()))
    }

    fn run<T: Element16 + Number>(&self, [q, k, v]: [Operand<'_>; 3]) -> Result<Output<T>> {
        let (queue, shape) = (q.queue()?, q.extents::<4>("query tensor")?);
        let [batch, queries, heads, size] = shape;
        let of_lse = [batch, heads, queries];
        let mut out = q.output(batch * queries * heads * size)?;
        let mut log_sum_exp = q.output_if(self.log_sum_exp.is_some(), batch * heads * queries)?;
        {
            let (q, k) = (q.axes::<T, 4>(&queue, "query tensor")?, k.axes::<T, 4>(&queue, "key tensor")?);
            let v = v.axes::<T, 4>(&queue, "value tensor")?;
            let (to, (to_lse, _used)) =
                (out.view(&queue, shape)?, optional(&mut log_sum_exp, &queue, of_lse)?);
            let outputs = attention::Outputs::new(to.view);
            let outputs = to_lse.into_iter().fold(outputs, attention::Outputs::log_sum_exp);
            self.options.run_into(&queue.stream, outputs, q.view, k.view, v.view).map_err(ours)?;
        }
        if let (Some(saved), Some(log_sum_exp)) = (&self.log_sum_exp, log_sum_exp) {
            saved.get_or_init(|| log_sum_exp.tensor(&of_lse));
        }
        Ok(out)
    }

    fn backward(&self, [q, k, v]: [&Tensor; 3], out: &Tensor, d_out: &Tensor) -> Result<[Option<Tensor>; 3]> {
        let lse = of_forward(&self.log_sum_exp)?;
        Operand::with(
            [q, k, v, out, lse, d_out],
            |all| of_type!("the queries", all[0], [F16: f16, BF16: bf16], T => self.gradients::<T>(all)),
        )
    }

    fn gradients<T: Element16 + Number>(
        &self,
        [q, k, v, out, lse, d_out]: [Operand<'_>; 6],
    ) -> Result<[Option<Tensor>; 3]> {
        let queue = q.queue()?;
        let (of_q, of_k) = (q.extents::<4>("query tensor")?, k.extents::<4>("key tensor")?);
        let [mut dq, mut dk, mut dv] = [
            q.output(of_q.iter().product())?,
            k.output(of_k.iter().product())?,
            v.output(of_k.iter().product())?,
        ];
        {
            let (from_q, from_k) =
                (q.axes::<T, 4>(&queue, "query tensor")?, k.axes::<T, 4>(&queue, "key tensor")?);
            let (from_v, lse) =
                (v.axes::<T, 4>(&queue, "value tensor")?, lse.axes::<f32, 3>(&queue, "log-sum-exp")?);
            let (out, d_out) = (out.dense(&queue, of_q)?, d_out.dense(&queue, of_q)?);
            let (to_q, to_k) = (dq.view(&queue, of_q)?, dk.view(&queue, of_k)?);
            let to_v = dv.view(&queue, of_k)?;
            let outputs = attention::GradientOutputs::new(to_q.view, to_k.view, to_v.view);
            let (stream, results) = (&queue.stream, (out.view, lse.view));
            self.options
                .backward_into(stream, outputs, d_out.view, from_q.view, from_k.view, from_v.view, results)
                .map_err(ours)?;
        }
        Ok([dq.tensor(&of_q), dk.tensor(&of_k), dv.tensor(&of_k)].map(Some))
    }
}
