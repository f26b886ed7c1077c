//! The operations that users call, as launches on a [`Set`].

use std::sync::Arc;

use ferrowarp::device::{Device, DeviceError};
use ferrowarp::softmax::{
    CrossEntropy, Matrix, MatrixMut, Options, Real, sample, softmax, softmax_backward, softmax_top_k,
};

use crate::matrices::Set;
use crate::op::{DRAW, Number, Op};
use crate::shapes::Shape;

/// A launch.
pub type Launch<T> = Arc<dyn Fn(&mut Set<T>) -> Result<(), DeviceError> + Send + Sync>;

/// The launch of `op` on matrices of this shape; `None` for a copy, which users do not call.
pub fn launch<T: Number + Real>(device: &Device, op: Op, shape: Shape) -> Option<Launch<T>> {
    let (device, Shape { rows, cols }) = (device.clone(), shape);
    let launch: Launch<T> = match op {
        Op::Copy => return None,
        Op::Softmax | Op::LogSoftmax => {
            let options = if op == Op::LogSoftmax { Options::new().log() } else { Options::new() };
            Arc::new(move |set| {
                let (mut out, inp) =
                    (MatrixMut::new(&mut set.out, rows, cols)?, Matrix::new(&set.inp, rows, cols)?);
                Ok(softmax(&device, &mut out, &inp, &options)?)
            })
        }
        Op::Backward => Arc::new(move |set| {
            let (dy, y) = (Matrix::new(&set.gradient, rows, cols)?, Matrix::new(&set.inp, rows, cols)?);
            let mut dx = MatrixMut::new(&mut set.out, rows, cols)?;
            Ok(softmax_backward(&device, &mut dx, &dy, &y, &Options::new())?)
        }),
        Op::CrossEntropy => Arc::new(move |set| {
            let logits = Matrix::new(&set.inp, rows, cols)?;
            let gradient = MatrixMut::new(&mut set.out, rows, cols)?;
            let launch = CrossEntropy::new(&mut set.losses, &logits, &set.targets);
            Ok(launch.with_gradient(gradient, 1.0 / rows as f32).run(&device)?)
        }),
        Op::TopK(k) => Arc::new(move |set| {
            let mut probabilities = MatrixMut::new(&mut set.probabilities, rows, k)?;
            let mut indices = MatrixMut::new(&mut set.indices, rows, k)?;
            let logits = Matrix::new(&set.inp, rows, cols)?;
            Ok(softmax_top_k(&device, &mut probabilities, &mut indices, &logits, &Options::new())?)
        }),
        Op::Sample | Op::SampleTopP => Arc::new(move |set| {
            let logits = Matrix::new(&set.inp, rows, cols)?;
            Ok(sample(&device, &mut set.indices, &logits, &op.sampling(), DRAW)?)
        }),
    };
    Some(launch)
}
