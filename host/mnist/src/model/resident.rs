//! The pipeline with one launch for many steps. The weights stay on the multiprocessors during a launch.

use std::fmt;
use std::ops::Range;

use mlp_kernels::resident::Extents;

use super::core::Core;
use super::dataset::DeviceDataset;
use super::epoch::EpochSpec;
use super::error::{ModelError, expect};
use super::network::Network;
use super::ops::Layer;
use super::ops::resident::{self, Between, Plan, Steps};
use super::pipeline::Pipeline;
use super::precision::Setup;
use super::results::Results;
use ferrowarp_device::device::{Buffer, Device};

/// The most steps per launch on a GPU: an epoch of MNIST in batches of 64. A run can stop after a launch.
const STEPS: usize = 1024;

/// The same on the CPU.
const STEPS_ON_CPU: usize = 8;

/// State that only this pipeline has.
pub(super) struct Resident {
    plan: Plan,
    /// The memory through which the blocks exchange values.
    mail: Buffer<u32>,
    /// A launch's batches.
    batches: Buffer<u8>,
    /// Their inner products.
    gram: Buffer<f32>,
    /// The number of steps that have used it.
    round: u32,
    /// The values that a launch within an epoch leaves for the next one.
    ahead: Buffer<f32>,
    /// The step that they are for, if any.
    begun: Option<Begun>,
}

/// A partly computed step.
struct Begun {
    /// The seed, the epoch's number, and the first sample.
    step: (u64, u32, usize),
    /// `None` if it came from a checkpoint.
    data: Option<DeviceDataset>,
}

impl fmt::Debug for Resident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resident")
            .field("mail", &self.mail)
            .field("round", &self.round)
            .finish_non_exhaustive()
    }
}

impl Resident {
    /// Prepares the pipeline for this network on this device.
    ///
    /// # Errors
    /// The device failed or is out of memory. The inner error is why the network cannot train with this pipeline.
    pub fn new(
        on: &Device,
        layers: &[Layer],
        setup: Setup,
        momentum: f32,
    ) -> Result<Result<Self, String>, ModelError> {
        match Plan::of(on, layers, setup, momentum)? {
            Err(why) => Ok(Err(why)),
            Ok(plan) => {
                // A launch also gathers the batch after its last step.
                let (steps, extents) = (most_steps(on) + 1, plan.extents);
                Ok(Ok(Self {
                    mail: on.alloc_zeroed(extents.mail_words())?,
                    batches: on.alloc_zeroed(extents.batches_len(steps))?,
                    gram: on.alloc_zeroed(Extents::gram_len(steps))?,
                    ahead: on.alloc_zeroed(extents.ahead_len())?,
                    plan,
                    round: 0,
                    begun: None,
                }))
            }
        }
    }

    /// Trains for several steps of an epoch, starting at sample `first`.
    fn train(
        &mut self,
        on: &Device,
        layers: &mut [Layer],
        results: &mut Results,
        steps: Steps<'_>,
    ) -> Result<(), ModelError> {
        let Steps { data, spec, .. } = steps;
        let step = |first| (spec.seed, spec.epoch, first);
        let is_this = |it: Begun| it.step == step(steps.first) && it.data.is_none_or(|of_it| of_it.is(data));
        let between = Between {
            is_begun: self.begun.take().is_some_and(is_this),
            mail: &mut self.mail,
            round: self.round,
            batches: &mut self.batches,
            gram: &mut self.gram,
            ahead: &mut self.ahead,
        };
        resident::steps(on, &self.plan, layers, results.all()?, steps, between)?;
        self.round = self.round.wrapping_add(steps.count as u32);
        let end = steps.first + steps.count * self.plan.extents.batch;
        self.begun = (end < data.samples).then(|| Begun { step: step(end), data: Some(data.clone()) });
        Ok(())
    }
}

impl Network {
    /// Copies from the device the part of the step at sample `first` that [`Pipeline::Resident`] has already computed. It
    /// differs by rounding from what the weights give. Other pipelines have none.
    ///
    /// # Errors
    /// The device failed.
    pub fn ahead(&self, spec: &EpochSpec, first: usize) -> Result<Option<Vec<f32>>, ModelError> {
        let step = (spec.seed, spec.epoch, first);
        let is_begun = |it: &&Resident| it.begun.as_ref().is_some_and(|begun| begun.step == step);
        let resident = self.resident.as_ref().filter(is_begun);
        Ok(resident.map(|resident| resident.ahead.to_vec()).transpose()?)
    }

    /// Restores the values from [`Self::ahead`] of a network with the same weights. Other pipelines ignore them.
    ///
    /// # Errors
    /// The length is wrong, or the device failed.
    pub fn set_ahead(&mut self, spec: &EpochSpec, first: usize, ahead: &[f32]) -> Result<(), ModelError> {
        if self.pipeline != Pipeline::Resident {
            return Ok(());
        }
        let made = Resident::new(&self.device, &self.core.lock().layers, self.setup, spec.momentum)?;
        if let Ok(mut resident) = made {
            expect("number of the next batch's sums", ahead.len(), resident.ahead.len())?;
            resident.ahead.copy_from(ahead)?;
            resident.begun = Some(Begun { step: (spec.seed, spec.epoch, first), data: None });
            self.resident = Some(resident);
        }
        Ok(())
    }
}

/// The most steps per launch.
fn most_steps(on: &Device) -> usize {
    if on.is_cuda() { STEPS } else { STEPS_ON_CPU }
}

/// Runs the steps with batches that begin in `range`, or at most one launch of them, in the epoch's order. The first call
/// fills `slot`. Returns the number of samples.
///
/// # Errors
/// The device failed. The inner error is why the network cannot train with this pipeline; nothing was done.
pub(super) fn steps(
    slot: &mut Option<Resident>,
    on: &Device,
    core: &mut Core,
    setup: Setup,
    data: &DeviceDataset,
    spec: &EpochSpec,
    range: &Range<usize>,
) -> Result<Result<usize, String>, ModelError> {
    let resident = match slot {
        Some(resident) if spec.momentum == 0.0 => resident,
        _ => match Resident::new(on, &core.layers, setup, spec.momentum)? {
            Ok(made) => slot.insert(made),
            Err(why) => return Ok(Err(why)),
        },
    };
    let batch = setup.batch_size.get();
    let count = range.len().div_ceil(batch).min(most_steps(on));
    let end = data.samples.min(range.start + count * batch);
    let Core { layers, training, results, rates, .. } = core;
    let (rates, targets) = (rates.all(), training.targets);
    let steps = Steps { data, spec, rates, targets, first: range.start, count };
    resident.train(on, layers, results, steps)?;
    Ok(Ok(end - range.start))
}
