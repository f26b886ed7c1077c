//! The launch that trains for many steps.

use std::fmt;

use cuda_std::launch::{Instance, RawBuffer};
use mlp_kernels::loss::Targets;
use mlp_kernels::resident::{
    Extents, Misfit, ResidentLaunch, ResidentNetworkLaunch, ResidentShape, ResidentStepsLaunch, train,
};

use super::{Layer, area, need};
use crate::BatchSize;
use crate::model::dataset::DeviceDataset;
use crate::model::epoch::EpochSpec;
use crate::model::error::{ModelError, to_u32};
use crate::model::precision::Precision;
use crate::model::results::Scores;
use ferrowarp_device::device::{Buffer, Device};

type Kernel = Instance<ResidentLaunch, ResidentShape>;

/// The kernel that trains a network of given sizes on a device, with its launch configuration.
#[derive(Clone, Copy)]
pub(in crate::model) struct Plan {
    kernel: &'static Kernel,
    extents: Extents,
}

/// Why a network cannot train with this kernel on a device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::model) enum Unfit {
    /// The number of hidden layers is not supported.
    Layers(usize),
    /// A size exceeds the kernel's limit.
    Size(Misfit),
    /// There are no kernels of this precision.
    Precision(Precision),
    /// Momentum is not supported.
    Momentum(f32),
    /// The device's compute capability is below the kernel's minimum.
    Capability { got: u32, least: u32 },
    /// The modules lack the kernel.
    Absent,
    /// A block needs more shared memory than the device has.
    SharedMemory { got: usize, max: usize },
    /// The blocks do not fit on the device at once.
    Blocks { got: u64, fit: u64 },
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Unfit::Layers(got) => write!(f, "it takes two hidden layers, but the network has {got}"),
            Unfit::Size(Misfit { what, got, max }) => {
                write!(f, "the {what} is {got}, but it takes at most {max}")
            }
            Unfit::Precision(precision) => write!(f, "it has no kernels for the precision {precision}"),
            Unfit::Momentum(got) => write!(f, "the momentum is {got}, but it takes only 0"),
            Unfit::Capability { got, least } => {
                let [got, least] = [got, least].map(|n| (n / 10, n % 10));
                let ((a, b), (c, d)) = (got, least);
                write!(f, "the device has compute capability {a}.{b}, but it needs {c}.{d}")
            }
            Unfit::Absent => write!(f, "the PTX, built for an older GPU, lacks its kernel"),
            Unfit::SharedMemory { got, max } => {
                write!(f, "a block needs {got} bytes of shared memory, but the device has {max}")
            }
            Unfit::Blocks { got, fit } => {
                write!(f, "it needs {got} blocks on the device at once, but only {fit} fit")
            }
        }
    }
}

/// The steps of a launch.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) struct Steps {
    /// The first sample.
    pub first: usize,
    /// The number of steps.
    pub count: usize,
}

impl Plan {
    /// Makes the plan for this network on this device.
    ///
    /// # Errors
    /// The device failed. The inner error is why there is no plan.
    pub fn of(
        on: &Device,
        layers: &[Layer],
        (precision, batch_size): (Precision, BatchSize),
        momentum: f32,
    ) -> Result<Result<Plan, Unfit>, ModelError> {
        let [first, second, third] = layers else {
            return Ok(Err(Unfit::Layers(layers.len().saturating_sub(1))));
        };
        if momentum != 0.0 {
            return Ok(Err(Unfit::Momentum(momentum)));
        }
        let halves = match precision {
            Precision::F32 => 2,
            Precision::F16 => 1,
            Precision::Tf32 | Precision::Bf16 => return Ok(Err(Unfit::Precision(precision))),
        };
        // On the CPU a block is one warp: each thread needs a stack, and the number of stacks is limited.
        let limits = on.limits();
        let suits =
            |kernel: &&Kernel| kernel.meta.cpu_only == limits.runs_cpu_only && kernel.halves == halves;
        let Some(kernel) = train::INSTANCES.iter().find(suits) else {
            return Ok(Err(Unfit::Capability { got: 0, least: 90 }));
        };
        let extents = Extents {
            features: first.inputs,
            hidden1: first.outputs,
            hidden2: second.outputs,
            classes: third.outputs,
            batch: batch_size.get(),
        };
        if let Err(misfit) = extents.check(kernel.features()) {
            return Ok(Err(Unfit::Size(misfit)));
        }
        if limits.capability < kernel.meta.min_arch {
            return Ok(Err(Unfit::Capability { got: limits.capability, least: kernel.meta.min_arch }));
        }
        if !limits.runs(kernel.meta) {
            return Ok(Err(Unfit::Absent));
        }
        let (max, got) = (limits.max_dynamic_shared_bytes as usize, extents.shared_bytes(kernel.warps));
        if got > max {
            return Ok(Err(Unfit::SharedMemory { got, max }));
        }
        let plan = Plan { kernel, extents };
        let (got, config) = (extents.blocks() as u64, kernel.config(&extents));
        let fit = on.resident_blocks(kernel.meta, &config)?;
        Ok(if got > fit { Err(Unfit::Blocks { got, fit }) } else { Ok(plan) })
    }

    /// Samples per batch.
    pub fn batch(&self) -> usize {
        self.extents.batch
    }

    /// Words of the memory through which the blocks exchange values: zeros before the first step.
    pub fn mail_words(&self) -> usize {
        self.extents.mail_words()
    }

    /// The inner products of `steps` steps of a launch, and one more.
    pub fn gram_len(&self, steps: usize) -> usize {
        Extents::gram_len(steps + 1)
    }

    /// The bytes of the batches of `steps` steps, and one more.
    pub fn batches_len(&self, steps: usize) -> usize {
        self.extents.batches_len(steps + 1)
    }

    /// The number of values that a launch leaves for the next one.
    pub fn ahead_len(&self) -> usize {
        self.extents.ahead_len()
    }
}

/// The memory that launches use in addition to the network.
pub(in crate::model) struct Between<'a> {
    /// The memory through which the blocks exchange values.
    pub mail: &'a mut Buffer<u32>,
    /// The number of steps that have used it.
    pub round: u32,
    /// Scratch space for the batches.
    pub batches: &'a mut Buffer<u8>,
    /// Scratch space for their inner products.
    pub gram: &'a mut Buffer<f32>,
    /// The values that a launch leaves for the next one.
    pub ahead: &'a mut Buffer<f32>,
    /// Whether the previous step's launch wrote it.
    pub is_begun: bool,
}

/// Trains several steps of an epoch.
pub(in crate::model) fn steps(
    on: &Device,
    plan: &Plan,
    layers: &mut [Layer],
    (data, scores): (&DeviceDataset, Scores<'_>),
    (spec, rates, targets): (&EpochSpec, &Buffer<f32>, Targets),
    Steps { first, count }: Steps,
    Between { mail, round, batches, gram, ahead, is_begun }: Between<'_>,
) -> Result<(), ModelError> {
    let Extents { features, hidden1, hidden2, classes, batch } = plan.extents;
    let [one, two, three] = layers else { return Ok(()) };
    let sizes = [(&*one, features, hidden1), (&*two, hidden1, hidden2), (&*three, hidden2, classes)];
    for (layer, inputs, outputs) in sizes {
        let [inputs, outputs] = [to_u32("number of inputs", inputs)?, to_u32("number of outputs", outputs)?];
        need(&[
            ("length of the weights", layer.weights.len(), area(inputs, outputs)),
            ("length of the biases", layer.biases.len(), outputs.into()),
        ])?;
    }
    let steps_left = data.samples.saturating_sub(first).div_ceil(batch);
    need(&[
        ("number of steps in the rest of the epoch", steps_left, count as u64),
        ("number of features of the data set", data.features, features as u64),
        ("length of the losses", scores.loss.len(), data.samples as u64),
        ("length of the hits", scores.correct.len(), data.samples as u64),
        ("number of learning rates", rates.len(), data.samples.div_ceil(batch) as u64),
        ("length of the words between blocks", mail.len(), plan.mail_words() as u64),
    ])?;
    let room = (gram.len() / Extents::gram_len(1)).min(batches.len() / plan.extents.batches_len(1));
    need(&[
        ("number of steps of a launch at most", room.saturating_sub(1), count as u64),
        ("number of the next batch's sums", ahead.len(), plan.ahead_len() as u64),
    ])?;
    let network = ResidentNetworkLaunch {
        weights1: RawBuffer::written(&mut one.weights),
        biases1: RawBuffer::written(&mut one.biases),
        weights2: RawBuffer::written(&mut two.weights),
        biases2: RawBuffer::written(&mut two.biases),
        weights3: RawBuffer::written(&mut three.weights),
        biases3: RawBuffer::written(&mut three.biases),
        features: features as u32,
        hidden1: hidden1 as u32,
        hidden2: hidden2 as u32,
        classes: classes as u32,
    };
    let steps = ResidentStepsLaunch {
        loss: RawBuffer::written(scores.loss),
        correct: RawBuffer::written(scores.correct),
        images: RawBuffer::read(&*data.images),
        labels: RawBuffer::read(&*data.labels),
        mail: RawBuffer::written(mail),
        batches: RawBuffer::written(batches),
        gram: RawBuffer::written(gram),
        ahead: RawBuffer::written(ahead),
        is_begun: is_begun.into(),
        samples: to_u32("number of samples", data.samples)?,
        first: first as u32,
        steps: to_u32("number of steps", count)?,
        batch: batch as u32,
        round,
        epoch: spec.epoch,
        seed: spec.seed,
        rates: RawBuffer::read(rates),
        targets,
    };
    let config = plan.kernel.config(&plan.extents);
    // SAFETY: the buffers hold their shapes and the steps are within the epoch, as just checked. The buffers are borrowed
    // for the call, and later uses of them are queued after this or wait for the device. The plan has checked the sizes.
    unsafe { (plan.kernel.launch)(on, config, ResidentLaunch { network, steps })? };
    Ok(())
}
