//! The operations that users call, as launches on a [`Set`].

use std::sync::Arc;

use ferrowarp::device::{Device, DeviceError};
use ferrowarp::softmax::cross_entropy::Outputs;
use ferrowarp::{CrossEntropy, Softmax, TensorView, TensorViewMut, TopK};

use crate::matrices::Set;
use crate::op::{Number, Op};
use crate::shapes::Shape;

/// A launch.
pub type Launch<T> = Arc<dyn Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync>;

/// The launch of `op` on matrices of this shape; `None` for a copy, which users do not call.
pub fn launch<T: Number>(device: &Device, op: Op, shape: Shape) -> Option<Launch<T>> {
    let (device, shape) = (device.clone(), [shape.rows, shape.cols]);
    let launch: Launch<T> = match op {
        Op::Copy => return None,
        Op::Softmax | Op::LogSoftmax => {
            let softmax = if op == Op::LogSoftmax { Softmax::new().log() } else { Softmax::new() };
            Arc::new(move |set| {
                let (out, inp) =
                    (TensorViewMut::new(&mut set.out, shape)?, TensorView::new(&set.inp, shape)?);
                Ok(softmax.run_into(&device, out, inp)?)
            })
        }
        Op::Backward => Arc::new(move |set| {
            let (dy, y) = (TensorView::new(&set.gradient, shape)?, TensorView::new(&set.inp, shape)?);
            Ok(Softmax::new().backward_into(&device, TensorViewMut::new(&mut set.out, shape)?, dy, y)?)
        }),
        Op::CrossEntropy => Arc::new(move |set| {
            let (logits, gradient) =
                (TensorView::new(&set.inp, shape)?, TensorViewMut::new(&mut set.out, shape)?);
            let operation = CrossEntropy::new().gradient_scale(1.0 / shape[0] as f32);
            let outputs = Outputs::new(&mut set.losses).gradient(gradient);
            Ok(operation.run_into(&device, outputs, logits, &set.targets)?)
        }),
        Op::TopK(k) => Arc::new(move |set| {
            let probabilities = TensorViewMut::new(&mut set.probabilities, [shape[0], k])?;
            let indices = TensorViewMut::new(&mut set.indices, [shape[0], k])?;
            let logits = TensorView::new(&set.inp, shape)?;
            Ok(TopK::new(k).run_into(&device, probabilities, indices, logits)?)
        }),
        Op::Sample | Op::SampleTopP => Arc::new(move |set| {
            let logits = TensorView::new(&set.inp, shape)?;
            Ok(op.sampling().run_into(&device, &mut set.indices, logits)?)
        }),
    };
    Some(launch)
}
