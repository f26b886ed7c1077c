//! Trains on several devices: each rank computes the gradients of its part of every batch, and all take the same step with
//! their sum.
//!
//! Only pipelines with one kernel per operation can do this, since the others update the parameters where they compute the
//! gradients. The update kernel serves both halves: from zeros with a learning rate of -1, it computes the gradient; and its
//! step of the biases, given a gradient, works for any parameters.
//!
//! The sums run on a separate stream: it adds up the gradients of the last layers while the gradients of the layers below
//! are computed. Neighbouring layers share an operation until they have [`BUCKET_BYTES`], because latency dominates small
//! sums.

use std::sync::Arc;

use mlp_kernels::grid::per_element;
use mlp_kernels::sgd::update_layer;

use super::activations::Activations;
use super::core::Core;
use super::dataset::DeviceDataset;
use super::epoch::EpochSpec;
use super::error::{ModelError, to_u32};
use super::naive;
use super::network::Network;
use super::ops::{Layer, naive::Sgd};
use super::pipeline::Pipeline;
use ferrowarp_device::collective::{CollectiveError, Communicator, Group, Reduction};
use ferrowarp_device::device::{Buffer, Device, DeviceError, Stream};

/// Neighbouring layers share an operation until their gradients have this many bytes. Between two H200s, an operation on 1
/// MiB takes less than twice as long as one on 1 KiB.
const BUCKET_BYTES: usize = 1 << 20;

/// This rank's part in the training, and its memory.
#[derive(Debug)]
pub(super) struct Parallel {
    communicator: Arc<Communicator>,
    /// The stream of the sums.
    exchange: Stream,
    /// Layers with the gradients as their parameters.
    gradients: Vec<Layer>,
    /// Zeros, and below, unneeded outputs of the step of biases; all as long as the longest parameters.
    zeros: Buffer<f32>,
    unused: [Buffer<f32>; 2],
}

impl From<CollectiveError> for ModelError {
    fn from(error: CollectiveError) -> Self {
        ModelError::Device(error.into())
    }
}

impl Network {
    /// Makes the network one rank of several that train together: a batch is divided among them, and their gradients are
    /// added up. All ranks have the same weights, bit for bit, and the same results.
    ///
    /// # Errors
    /// The pipeline does not have one kernel per operation, or the ranks start from different
    /// weights; memory is lacking; the ranks cannot be reached.
    pub fn with_communicator(mut self, communicator: Arc<Communicator>) -> Result<Self, ModelError> {
        if !self.pipeline.is_parallel() {
            let why = format!(
                "the pipeline {} takes its steps where it computes the gradients; use naive or deferred",
                self.pipeline.name()
            );
            return Err(ModelError::parallel(why));
        }
        let parallel = Parallel::new(&self.device, &self.core.lock().layers, communicator)?;
        self.parallel = Some(parallel);
        self.check_ranks()?;
        Ok(self)
    }

    /// Checks that all ranks have the same parameters, bit for bit. Does nothing without other ranks.
    ///
    /// # Errors
    /// Names the first rank with parameters that differ from rank 0's.
    pub fn check_ranks(&self) -> Result<(), ModelError> {
        match &self.parallel {
            Some(parallel) => parallel.check_equal(&self.device, &self.core.lock().layers),
            None => Ok(()),
        }
    }

    /// Runs a step with the batch that begins with sample `first` of the epoch. Returns the number of samples on all ranks.
    pub(super) fn parallel_step(
        &mut self,
        data: &DeviceDataset,
        spec: &EpochSpec,
        first: usize,
    ) -> Result<usize, ModelError> {
        let batch @ (first_sample, rows) = data.samples_from(first, self.setup.batch_size)?;
        let sgd = Sgd::of(spec, self.setup.batch_size, first_sample);
        let own = self.parallel.as_ref().map_or(batch, |parallel| parallel.part_of(batch));
        if own.1 > 0 {
            self.judge_samples(data, spec, own)?;
        }
        let Network { device, core, parallel, .. } = self;
        if let Some(parallel) = parallel {
            let Core { layers, training, results, .. } = &mut *core.lock();
            parallel.step(device, layers, training, (own.1, rows), sgd)?;
            results.exchange(&parallel.communicator, batch, own)?;
        }
        Ok(rows as usize)
    }
}

impl Pipeline {
    /// Whether this pipeline can train on several devices.
    pub fn is_parallel(self) -> bool {
        matches!(self, Pipeline::Naive | Pipeline::Deferred)
    }
}

impl Parallel {
    fn new(device: &Device, layers: &[Layer], communicator: Arc<Communicator>) -> Result<Self, ModelError> {
        let gradient = |layer: &Layer| {
            Ok(Layer {
                inputs: layer.inputs,
                outputs: layer.outputs,
                weights: device.alloc_zeroed(layer.weights.len())?,
                biases: device.alloc_zeroed(layer.biases.len())?,
                weight_velocity: device.alloc_zeroed(0)?,
                bias_velocity: device.alloc_zeroed(0)?,
            })
        };
        let gradients = layers.iter().map(gradient).collect::<Result<_, DeviceError>>()?;
        let longest = layers.iter().map(|layer| layer.weights.len().max(layer.biases.len())).max();
        let zeroed = || device.alloc_zeroed(longest.unwrap_or(0));
        let (zeros, unused) = (zeroed()?, [zeroed()?, zeroed()?]);
        Ok(Self { communicator, exchange: device.stream()?, gradients, zeros, unused })
    }

    /// This rank's samples of a batch: the first one, and their number, which may be 0.
    fn part_of(&self, (first, rows): (u32, u32)) -> (u32, u32) {
        let (rank, size) = (u64::from(self.communicator.rank()), u64::from(self.communicator.size()));
        // At most `rows`, which is a `u32`.
        let before = |rank: u64| (u64::from(rows) * rank / size) as u32;
        (first + before(rank), before(rank + 1) - before(rank))
    }

    /// Runs a step with the gradients of all ranks. This rank has `rows` of the batch's `all` samples, in `training`.
    fn step(
        &mut self,
        on: &Device,
        layers: &mut [Layer],
        training: &mut Activations,
        (rows, all): (u32, u32),
        sgd: Sgd,
    ) -> Result<(), ModelError> {
        let stream = on.default_stream();
        let own = Communicator::single(on);
        for layer in &mut self.gradients {
            for gradient in [&mut layer.weights, &mut layer.biases] {
                // Zeros, copied on the device.
                own.all_gather(&stream, self.zeros.view(..gradient.len())?, gradient)?;
            }
        }
        // This turns the mean over this rank's samples into its share of the batch's mean.
        let share = Sgd { lr: -(rows as f32 / all as f32), momentum: 0.0 };
        let mut end = layers.len();
        for l in (0..layers.len()).rev() {
            if rows > 0 {
                naive::update(on, &mut self.gradients[l], training, rows, share, l)?;
            }
            let ready = &mut self.gradients[l..end];
            if l == 0 || bytes_of(ready) >= BUCKET_BYTES {
                self.exchange.wait(&stream.record()?)?;
                sum_of(&self.communicator, ready).submit(&self.exchange)?;
                end = l;
            }
            if rows > 0 && l > 0 {
                naive::input_gradient(on, layers, training, rows, l)?;
            }
        }
        stream.wait(&self.exchange.record()?)?;
        for (layer, gradient) in layers.iter_mut().zip(&self.gradients) {
            let Layer { weights, biases, weight_velocity, bias_velocity, .. } = layer;
            let spare = (&self.zeros, &mut self.unused);
            move_by(on, weights, weight_velocity, &gradient.weights, sgd, spare)?;
            let spare = (&self.zeros, &mut self.unused);
            move_by(on, biases, bias_velocity, &gradient.biases, sgd, spare)?;
        }
        Ok(())
    }

    fn check_equal(&self, device: &Device, layers: &[Layer]) -> Result<(), ModelError> {
        // FNV-1a over the words of all parameters.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for layer in layers {
            for values in [&layer.weights, &layer.biases, &layer.weight_velocity, &layer.bias_velocity] {
                for value in values.to_vec()? {
                    hash = (hash ^ u64::from(value.to_bits())).wrapping_mul(0x0100_0000_01b3);
                }
            }
        }
        let (own, stream) = (device.upload(&[hash])?, device.default_stream());
        let mut all = device.alloc_zeroed::<u64>(self.communicator.size() as usize)?;
        self.communicator.all_gather(&stream, &own, &mut all)?;
        self.communicator.synchronize(&stream)?;
        let all = all.to_vec()?;
        match all.iter().position(|hash| *hash != all[0]) {
            None => Ok(()),
            Some(rank) => Err(ModelError::parallel(format_args!(
                "rank {rank} has other weights than rank 0; give all ranks the same settings and files, and GPUs of one \
                 model"
            ))),
        }
    }
}

/// The bytes of the gradients of these layers.
fn bytes_of(layers: &[Layer]) -> usize {
    layers.iter().map(|layer| (layer.weights.len() + layer.biases.len()) * size_of::<f32>()).sum()
}

/// Makes one operation that adds up the gradients of these layers.
fn sum_of<'c, 'a>(communicator: &'c Communicator, gradients: &'a mut [Layer]) -> Group<'c, 'a> {
    gradients.iter_mut().fold(communicator.group(), |sum, layer| {
        sum.all_reduce(&mut layer.weights, Reduction::Sum).all_reduce(&mut layer.biases, Reduction::Sum)
    })
}

/// Moves parameters against their gradient. It runs the bias step of a layer with one sample, with `gradient` as its output
/// gradient, and one input, which is 0.
fn move_by(
    on: &Device,
    parameters: &mut Buffer<f32>,
    velocity: &mut Buffer<f32>,
    gradient: &Buffer<f32>,
    sgd: Sgd,
    (zeros, [weights, weight_velocity]): (&Buffer<f32>, &mut [Buffer<f32>; 2]),
) -> Result<(), ModelError> {
    let len = to_u32("number of parameters", parameters.len())?;
    // SAFETY: gradient and parameters have `len` elements, as has the velocity if there is momentum. The layer's weights are
    // one row of this length, for which the other buffers have room.
    unsafe {
        update_layer::launch(
            on,
            per_element(1, len),
            weights,
            parameters,
            weight_velocity,
            velocity,
            zeros.view(..1)?,
            gradient,
            1,
            1,
            len,
            sgd.lr,
            sgd.momentum,
        )?;
    }
    Ok(())
}
