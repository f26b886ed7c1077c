//! The launch that trains for many steps.

use cuda_std::launch::{Instance, RawBuffer};
use mlp_kernels::loss::Targets;
use mlp_kernels::resident::{
    Extents, Misfit, ResidentLaunch, ResidentNetworkLaunch, ResidentShape, ResidentStepsLaunch, train,
};

use super::{Layer, need};
use crate::model::dataset::DeviceDataset;
use crate::model::epoch::EpochSpec;
use crate::model::error::{ModelError, to_u32};
use crate::model::precision::{Precision, Setup};
use crate::model::results::Scores;
use ferrowarp_device::device::{Buffer, Device};

type Kernel = Instance<ResidentLaunch, ResidentShape>;

/// The kernel that trains a network of given sizes on a device, with its launch configuration.
#[derive(Clone, Copy)]
pub(in crate::model) struct Plan {
    kernel: &'static Kernel,
    pub extents: Extents,
}

/// The steps of a launch.
#[derive(Clone, Copy)]
pub(in crate::model) struct Steps<'a> {
    pub data: &'a DeviceDataset,
    pub spec: &'a EpochSpec,
    /// The learning rates of all steps of the epoch.
    pub rates: &'a Buffer<f32>,
    pub targets: Targets,
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
        setup: Setup,
        momentum: f32,
    ) -> Result<Result<Plan, String>, ModelError> {
        let plan = match Self::choose(on, layers, setup, momentum) {
            Ok(plan) => plan,
            Err(why) => return Ok(Err(why)),
        };
        let (got, config) = (plan.extents.blocks() as u64, plan.kernel.config(&plan.extents));
        let fit = on.resident_blocks(plan.kernel.meta, &config)?;
        let why = || format!("it needs {got} blocks on the device at once, but only {fit} fit");
        Ok(if got > fit { Err(why()) } else { Ok(plan) })
    }

    fn choose(on: &Device, layers: &[Layer], setup: Setup, momentum: f32) -> Result<Plan, String> {
        let [first, second, third] = layers else {
            let got = layers.len().saturating_sub(1);
            return Err(format!("it takes two hidden layers, but the network has {got}"));
        };
        if momentum != 0.0 {
            return Err(format!("the momentum is {momentum}, but it takes only 0"));
        }
        let halves = match setup.precision {
            Precision::F32 => 2,
            Precision::F16 => 1,
            precision => return Err(format!("it has no kernels for the precision {precision}")),
        };
        // On the CPU a block is one warp: each thread needs a stack, and the number of stacks is limited.
        let limits = on.limits();
        let suits =
            |kernel: &&Kernel| kernel.meta.cpu_only == limits.runs_cpu_only && kernel.halves == halves;
        let Some(kernel) = train::INSTANCES.iter().find(suits) else {
            return Err("it has no kernel for such a device".to_owned());
        };
        let extents = Extents {
            features: first.inputs,
            hidden1: first.outputs,
            hidden2: second.outputs,
            classes: third.outputs,
            batch: setup.batch_size.get(),
        };
        if let Err(Misfit { what, got, max }) = extents.check(kernel.features()) {
            return Err(format!("the {what} is {got}, but it takes at most {max}"));
        }
        let (got, least) = (limits.capability, kernel.meta.min_arch);
        if got < least {
            let [got, least] = [got, least].map(|n| format!("{}.{}", n / 10, n % 10));
            return Err(format!("the device has compute capability {got}, but it needs {least}"));
        }
        if !limits.runs(kernel.meta) {
            return Err("the PTX, built for an older GPU, lacks its kernel".to_owned());
        }
        let (max, got) = (limits.max_dynamic_shared_bytes as usize, extents.shared_bytes(kernel.warps));
        if got > max {
            return Err(format!("a block needs {got} bytes of shared memory, but the device has {max}"));
        }
        Ok(Plan { kernel, extents })
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

/// Checks that the buffers hold their shapes, and that the steps are within the epoch.
fn check(
    extents: &Extents,
    layers: [&Layer; 3],
    scores: &Scores<'_>,
    steps: &Steps<'_>,
    between: &Between<'_>,
) -> Result<(), ModelError> {
    let Extents { features, hidden1, hidden2, classes, batch } = *extents;
    let Steps { data, rates, first, count, .. } = steps;
    for (layer, pair) in layers.into_iter().zip([features, hidden1, hidden2, classes].windows(2)) {
        layer.need(to_u32("number of inputs", pair[0])?, to_u32("number of outputs", pair[1])?, 0.0)?;
    }
    let steps_left = data.samples.saturating_sub(*first).div_ceil(batch);
    let of_gram = between.gram.len() / Extents::gram_len(1);
    let room = of_gram.min(between.batches.len() / extents.batches_len(1));
    need(&[
        ("number of steps in the rest of the epoch", steps_left, *count as u64),
        ("number of features of the data set", data.features, features as u64),
        ("length of the losses", scores.loss.len(), data.samples as u64),
        ("length of the hits", scores.correct.len(), data.samples as u64),
        ("number of learning rates", rates.len(), data.samples.div_ceil(batch) as u64),
        ("length of the words between blocks", between.mail.len(), extents.mail_words() as u64),
        ("number of steps of a launch at most", room.saturating_sub(1), *count as u64),
        ("number of the next batch's sums", between.ahead.len(), extents.ahead_len() as u64),
    ])
}

/// Trains several steps of an epoch.
pub(in crate::model) fn steps(
    on: &Device,
    plan: &Plan,
    layers: &mut [Layer],
    scores: Scores<'_>,
    steps: Steps<'_>,
    between: Between<'_>,
) -> Result<(), ModelError> {
    let [one, two, three] = layers else { return Ok(()) };
    check(&plan.extents, [one, two, three], &scores, &steps, &between)?;
    let Extents { features, hidden1, hidden2, classes, batch } = plan.extents;
    let Steps { data, spec, rates, targets, first, count } = steps;
    let Between { mail, round, batches, gram, ahead, is_begun } = between;
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
