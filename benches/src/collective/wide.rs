//! Data-parallel training of a network with wide layers in `bf16`: each rank has a batch of its own.
//!
//! A layer is a matrix multiplication. Between layers there is RMSNorm; after the last one, whose outputs are the classes,
//! cross entropy. Each rank updates its weights by the gradient of its batch, `W - lr * G`, in one multiplication with an
//! epilogue. The ranks then average the updated weights, which is the step with the mean gradient. So an all-reduce moves
//! the bytes of the gradients. It runs on a stream of its own while the gradients of earlier layers are computed.

use std::fmt;
use std::sync::Arc;

use anyhow::ensure;
use cuda_std::half::bf16;
use ferrowarp::collective::{Communicator, Reduction};
use ferrowarp::device::{Buffer, Device, DeviceError, Stream};
use ferrowarp::norm::{Norm, Outputs, Statistics};
use ferrowarp::{CrossEntropy, Matmul, TensorView, TensorViewMut};

use super::{CollectiveEntry, Scale, is_same_on_all, median_time};
use crate::timed::normal;

/// Steps per batch.
const RUNS: usize = 5;

/// The learning rate.
const RATE: f32 = 0.5;

/// The network, and the images of a rank's batch.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Images per rank and step.
    pub batch: usize,
    /// Inputs and outputs of each layer.
    pub width: usize,
    /// Layers.
    pub layers: usize,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, width, layers } = self;
        write!(f, "{layers} layers of {width}, {batch} images a rank")
    }
}

/// One layer, with the values that a step stores.
struct Layer {
    /// `[width, width]`: before and after the step.
    weights: Buffer<bf16>,
    moved: Buffer<bf16>,
    /// `[batch, width]`.
    outputs: Buffer<bf16>,
    /// `[batch, width]`: the input of the next layer.
    normed: Buffer<bf16>,
    rstd: Buffer<f32>,
}

/// A network on one rank.
struct Network {
    communicator: Arc<Communicator>,
    /// The stream of the all-reduces.
    exchange: Stream,
    shape: Shape,
    layers: Vec<Layer>,
    inputs: Buffer<bf16>,
    targets: Buffer<i64>,
    losses: Buffer<f32>,
    /// The gradients at the inputs of a layer, and at the outputs of the layer before.
    d_inputs: Buffer<bf16>,
    d_outputs: Buffer<bf16>,
}

impl Network {
    fn new(communicator: &Arc<Communicator>, shape: Shape) -> anyhow::Result<Self> {
        let Shape { batch, width, layers } = shape;
        let device = communicator.device();
        let scale = 1.0 / (width as f32).sqrt();
        let layer = |number: usize| -> Result<Layer, DeviceError> {
            let weights: Vec<bf16> = normal(width * width, 10 + number as u64);
            let weights: Vec<bf16> = weights.iter().map(|x| bf16::from_f32(x.to_f32() * scale)).collect();
            Ok(Layer {
                weights: device.upload(&weights)?,
                moved: device.alloc_zeroed(width * width)?,
                outputs: device.alloc_zeroed(batch * width)?,
                normed: device.alloc_zeroed(batch * width)?,
                rstd: device.alloc_zeroed(batch)?,
            })
        };
        let rank = u64::from(communicator.rank());
        let targets: Vec<i64> = (0..batch).map(|image| (image * 7 % width) as i64).collect();
        Ok(Self {
            communicator: Arc::clone(communicator),
            exchange: device.stream()?,
            shape,
            layers: (0..layers).map(layer).collect::<Result<_, _>>()?,
            inputs: device.upload(&normal::<bf16>(batch * width, 1000 + rank))?,
            targets: device.upload(&targets)?,
            losses: device.alloc_zeroed(batch)?,
            d_inputs: device.alloc_zeroed(batch * width)?,
            d_outputs: device.alloc_zeroed(batch * width)?,
        })
    }

    /// Queues a step.
    fn step(&mut self) -> Result<(), DeviceError> {
        let communicator = Arc::clone(&self.communicator);
        let device = communicator.device();
        self.forward(device)?;
        self.backward(device)?;
        device.default_stream().wait(&self.exchange.record()?)?;
        for Layer { weights, moved, .. } in &mut self.layers {
            std::mem::swap(weights, moved);
        }
        Ok(())
    }

    /// Computes the outputs of all layers, and the gradient in place of the last layer's outputs.
    fn forward(&mut self, device: &Device) -> Result<(), DeviceError> {
        let Shape { batch, width, .. } = self.shape;
        let mut inputs = &self.inputs;
        let mut layers = self.layers.iter_mut().peekable();
        while let Some(Layer { weights, outputs, normed, rstd, .. }) = layers.next() {
            let to = TensorViewMut::new(&mut *outputs, [batch, width])?;
            let (x, w) =
                (TensorView::new(inputs, [batch, width])?, TensorView::new(&*weights, [width, width])?);
            Matmul::new().run_into(device, to, x, w)?;
            if layers.peek().is_some() {
                let to = Outputs::new(TensorViewMut::new(&mut *normed, [batch, width])?).rstd(rstd);
                Norm::rms().run_into(device, to, TensorView::new(&*outputs, [batch, width])?)?;
                inputs = normed;
            } else {
                let logits = TensorViewMut::new(outputs, [batch, width])?;
                let operation = CrossEntropy::new().gradient_scale(1.0 / batch as f32);
                operation.run_in_place(device, &mut self.losses, logits, &self.targets)?;
            }
        }
        Ok(())
    }

    /// Updates the weights of all layers, last layer first.
    fn backward(&mut self, device: &Device) -> Result<(), DeviceError> {
        let Shape { batch, width, .. } = self.shape;
        let last = self.layers.len() - 1;
        for number in (0..=last).rev() {
            let (before, rest) = self.layers.split_at_mut(number);
            let Layer { weights, moved, outputs, .. } = &mut rest[0];
            let d_outputs = if number == last { &*outputs } else { &self.d_outputs };
            let d_outputs = TensorView::new(d_outputs, [batch, width])?;
            let inputs = before.last().map_or(&self.inputs, |layer| &layer.normed);
            let inputs = TensorView::new(inputs, [batch, width])?;
            // No computation is left during the last all-reduce, so the first layer has two, each with half the rows.
            let parts = if number == 0 { 2 } else { 1 };
            for part in 0..parts {
                let rows = width * part / parts..width * (part + 1) / parts;
                let own = rows.start * width..rows.end * width;
                let shape = [rows.len(), width];
                let from = TensorView::new(weights.view(own.clone())?, shape)?;
                let to = TensorViewMut::new(moved.view_mut(own.clone())?, shape)?;
                let step = Matmul::new().scale(-RATE).residual(from);
                step.run_into(device, to, inputs.slice(1, rows)?.t(), d_outputs)?;
                self.exchange.wait(&device.default_stream().record()?)?;
                self.communicator.all_reduce(&self.exchange, moved.view_mut(own)?, Reduction::Average)?;
            }
            let weights = TensorView::new(&*weights, [width, width])?;
            let Some(Layer { outputs, rstd, .. }) = before.last_mut() else { break };
            let shape = [batch, width];
            let to = TensorViewMut::new(&mut self.d_inputs, shape)?;
            Matmul::new().run_into(device, to, d_outputs, weights.t())?;
            let (from, at) = (TensorView::new(&*outputs, shape)?, TensorView::new(&self.d_inputs, shape)?);
            let to = TensorViewMut::new(&mut self.d_outputs, shape)?;
            Norm::rms().backward_into(device, to, at, from, Statistics::rms(&*rstd))?;
        }
        Ok(())
    }

    /// This rank's mean loss before the last step.
    fn loss(&self) -> Result<f64, DeviceError> {
        let losses = self.losses.to_vec()?;
        Ok(losses.iter().map(|&loss| f64::from(loss)).sum::<f64>() / losses.len() as f64)
    }

    /// A hash of all weights: FNV-1a over their words.
    fn hash(&self) -> Result<u64, DeviceError> {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for layer in &self.layers {
            for weight in layer.weights.to_vec()? {
                hash = (hash ^ u64::from(weight.to_bits())).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Ok(hash)
    }
}

/// Times steps. Afterwards all ranks must have the same weights.
///
/// # Errors
/// There is not enough memory, an operation failed, the loss is NaN, or the ranks have different weights.
pub fn time(
    communicator: &Arc<Communicator>,
    scale: Scale,
    entry: &mut CollectiveEntry,
) -> anyhow::Result<()> {
    let mut network = Network::new(communicator, scale.wide)?;
    network.step()?;
    communicator.synchronize(&communicator.device().default_stream())?;
    let runs = RUNS.min(scale.runs);
    let batch = || (0..runs).try_for_each(|_| network.step());
    let seconds = median_time(communicator, scale.samples, runs, batch)?;
    let loss = network.loss()?;
    ensure!(loss.is_finite(), "the loss is {loss}");
    ensure!(is_same_on_all(communicator, network.hash()?)?, "the ranks have different weights");
    entry.microseconds = Some(seconds * 1e6);
    entry.images_per_second = Some(scale.wide.batch as f64 * f64::from(communicator.size()) / seconds);
    entry.samples = scale.samples;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_falls() {
        let communicator = Arc::new(Communicator::single(&Device::cpu()));
        let mut network = Network::new(&communicator, Shape { batch: 16, width: 32, layers: 3 }).unwrap();
        let mut losses = Vec::new();
        for _ in 0..20 {
            network.step().unwrap();
            losses.push(network.loss().unwrap());
        }
        assert!((losses[0] - 32f64.ln()).abs() < 2.0, "{losses:?}");
        assert!(losses[19] < 0.7 * losses[0], "{losses:?}");
    }
}
