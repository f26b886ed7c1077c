//! The results of a pass over a data set: loss and hit of every sample on the device, sums on the host.

use super::error::ModelError;
use ferrowarp_device::collective::{Communicator, Reduction};
use ferrowarp_device::device::{Buffer, BufferViewMut, Device};

/// The results of an epoch so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EpochStats {
    /// Sum of the samples' losses in nats, each computed just before its step, added in order.
    pub loss_sum: f64,
    /// Samples classified correctly just before their step.
    pub correct: usize,
    /// Samples trained on.
    pub samples: usize,
    /// The first loss that is infinite or NaN.
    pub diverged: Option<Divergence>,
}

/// A loss that is infinite or NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Divergence {
    /// The sample, counted from 0 in the epoch's order.
    pub sample: usize,
    /// The loss.
    pub loss: f32,
}

impl EpochStats {
    /// Mean loss of the samples in nats.
    pub fn loss(&self) -> f64 {
        self.loss_sum / self.samples.max(1) as f64
    }
}

/// The results of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Evaluation {
    /// Mean loss of the samples in nats.
    pub loss: f64,
    /// Samples classified correctly.
    pub correct: usize,
    /// The number of samples.
    pub samples: usize,
    /// Whether all samples get the same answer, correct for less than half of them, as in a network with units that are
    /// always 0.
    pub is_constant: bool,
}

/// Loss and hit of every sample of a pass over a data set.
#[derive(Debug)]
pub(super) struct Results {
    pub loss: Buffer<f32>,
    correct: Buffer<u32>,
}

/// Where the loss kernels write: one entry per row.
pub(super) struct Scores<'a> {
    pub loss: BufferViewMut<'a, f32>,
    pub correct: BufferViewMut<'a, u32>,
}

impl Results {
    pub fn new(device: &Device, samples: usize) -> Result<Self, ModelError> {
        Ok(Self { loss: device.alloc_zeroed(samples)?, correct: device.alloc_zeroed(samples)? })
    }

    pub fn at(&mut self, (first, rows): (u32, u32)) -> Result<Scores<'_>, ModelError> {
        let range = first as usize..first as usize + rows as usize;
        Ok(Scores { loss: self.loss.view_mut(range.clone())?, correct: self.correct.view_mut(range)? })
    }

    /// The entries of all samples.
    pub fn all(&mut self) -> Result<Scores<'_>, ModelError> {
        Ok(Scores { loss: self.loss.view_mut(..)?, correct: self.correct.view_mut(..)? })
    }

    /// Whether the losses of these samples have at most `classes` different values.
    pub fn is_constant(&self, samples: usize, classes: usize) -> Result<bool, ModelError> {
        let mut losses: Vec<u32> =
            self.loss.view(0..samples)?.to_vec()?.into_iter().map(f32::to_bits).collect();
        losses.sort_unstable();
        losses.dedup();
        Ok(samples > classes && losses.len() <= classes)
    }

    /// Gives each rank the results of a whole batch. This rank has the results of the samples `own`.
    pub fn exchange(
        &mut self,
        communicator: &Communicator,
        (first, rows): (u32, u32),
        (own_first, own_rows): (u32, u32),
    ) -> Result<(), ModelError> {
        let batch = first as usize..first as usize + rows as usize;
        let own = own_first as usize..own_first as usize + own_rows as usize;
        let (device, stream) = (communicator.device(), communicator.device().default_stream());
        // Other ranks' results are 0 here.
        let is_own = |sample: usize| own.contains(&sample);
        let mut losses = self.loss.view(batch.clone())?.to_vec()?;
        let mut hits = self.correct.view(batch.clone())?.to_vec()?;
        for (sample, (loss, hit)) in batch.clone().zip(losses.iter_mut().zip(&mut hits)) {
            if !is_own(sample) {
                (*loss, *hit) = (0.0, 0);
            }
        }
        let (mut sums, mut counts) = (device.upload(&losses)?, device.upload(&hits)?);
        let sum = communicator.group().all_reduce(&mut sums, Reduction::Sum);
        sum.all_reduce(&mut counts, Reduction::Sum).submit(&stream)?;
        communicator.synchronize(&stream)?;
        self.loss.view_mut(batch.clone())?.copy_from(&sums.to_vec()?)?;
        Ok(self.correct.view_mut(batch)?.copy_from(&counts.to_vec()?)?)
    }

    /// Adds the results after the samples of `stats` up to sample `end`. Adding in parts gives the same sum, bit for bit, as
    /// adding at once.
    pub fn add_to(&self, stats: &mut EpochStats, end: usize) -> Result<(), ModelError> {
        let first = stats.samples;
        let losses = self.loss.view(first..end)?.to_vec()?;
        stats.loss_sum = losses.iter().fold(stats.loss_sum, |sum, &loss| sum + f64::from(loss));
        stats.correct +=
            self.correct.view(first..end)?.to_vec()?.into_iter().map(|hit| hit as usize).sum::<usize>();
        stats.samples = end;
        stats.diverged = stats.diverged.or_else(|| first_divergence(&losses, first));
        Ok(())
    }
}

/// Finds the first infinite or NaN loss in `losses`, which begin at sample `first`.
pub(super) fn first_divergence(losses: &[f32], first: usize) -> Option<Divergence> {
    let at = losses.iter().position(|loss| !loss.is_finite())?;
    Some(Divergence { sample: first + at, loss: losses[at] })
}
