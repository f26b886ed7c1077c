//! The pipeline of one launch for many steps, during which the weights stay on the multiprocessors.

use std::fmt;
use std::ops::ControlFlow;

use super::dataset::DeviceDataset;
use super::error::ModelError;
use super::network::EpochSpec;
use super::ops::Layer;
use super::ops::resident::{self, Plan, Steps, Unfit};
use super::results::{EpochStats, Results};
use crate::BatchSize;
use ferrowarp::device::{Buffer, Device};

/// Steps of a launch on a GPU: a few hundred microseconds, after which a run can stop.
const STEPS: usize = 64;

/// As above, on the CPU.
const STEPS_ON_CPU: usize = 8;

/// What only this pipeline has.
pub(super) struct Resident {
    plan: Plan,
    /// What the blocks send each other.
    mail: Buffer<u32>,
    /// Steps that it has seen.
    round: u32,
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
    /// For this network on this device.
    ///
    /// # Errors
    /// The device failed, or has no memory. Inside: why the network does not train so.
    pub fn new(
        on: &Device,
        layers: &[Layer],
        batch_size: BatchSize,
        momentum: f32,
    ) -> Result<Result<Self, Unfit>, ModelError> {
        match Plan::of(on, layers, batch_size, momentum)? {
            Err(why) => Ok(Err(why)),
            Ok(plan) => Ok(Ok(Self { mail: on.alloc_zeroed(plan.mail_words())?, round: 0, plan })),
        }
    }

    /// Trains so many steps of an epoch from the sample `first` on.
    fn train(
        &mut self,
        on: &Device,
        layers: &mut [Layer],
        (data, results): (&DeviceDataset, &mut Results),
        spec: &EpochSpec,
        steps: Steps,
    ) -> Result<(), ModelError> {
        let mail = (&mut self.mail, self.round);
        resident::steps(on, &self.plan, layers, (data, results.all()?), spec, steps, mail)?;
        self.round = self.round.wrapping_add(steps.count as u32);
        Ok(())
    }
}

/// The rest of an epoch, as [`Network::train_epoch`](super::Network::train_epoch) has it. A launch has as many steps as it
/// may, or those up to the one that `progress` wants to stop after. `slot` is filled by the first epoch.
///
/// # Errors
/// As there. Inside: why the network does not train so, for a user; nothing was done.
pub(super) fn train_epoch(
    slot: &mut Option<Resident>,
    (on, layers, batch_size): (&Device, &mut [Layer], BatchSize),
    (data, results): (&DeviceDataset, &mut Results),
    spec: &EpochSpec,
    done: EpochStats,
    progress: &mut dyn FnMut(usize) -> ControlFlow<()>,
) -> Result<Result<EpochStats, String>, ModelError> {
    let resident = match slot {
        Some(resident) if spec.momentum == 0.0 => resident,
        _ => match Resident::new(on, layers, batch_size, spec.momentum)? {
            Ok(made) => slot.insert(made),
            Err(why) => return Ok(Err(notice(&why))),
        },
    };
    let most = if on.is_cuda() { STEPS } else { STEPS_ON_CPU };
    let (mut steps, mut end) = (Steps { first: done.samples, count: 0 }, done.samples);
    while end < data.samples {
        end = data.samples.min(end + batch_size.get());
        steps.count += 1;
        let stops = progress(end).is_break();
        if stops || end == data.samples || steps.count == most {
            resident.train(on, layers, (data, &mut *results), spec, steps)?;
            steps = Steps { first: end, count: 0 };
        }
        if stops {
            break;
        }
    }
    let mut stats = done;
    results.add_to(&mut stats, end)?;
    Ok(Ok(stats))
}

fn notice(why: &Unfit) -> String {
    format!(
        "the pipeline `resident` cannot train this network here: {why}; the pipeline `fused` does it instead"
    )
}
