//! The steps of a run, and their learning rates.

use super::Trainer;
use crate::StepOfRun;
use crate::model::Rates;

impl Trainer<'_> {
    /// The learning rates of an epoch of the run.
    pub(super) fn rates(&self, epoch: u32) -> Rates {
        let steps = u64::from(self.run.last_epoch - self.epochs_before) * self.steps_of_epoch();
        let first = self.first_step(epoch);
        let of_epoch = first..first + self.steps_of_epoch();
        of_epoch.map(|step| self.config.lr_at(StepOfRun { epoch, step, steps })).collect()
    }

    /// The largest learning rate of the current epoch or, at the end of the run, of the last one.
    pub(super) fn largest_lr(&self) -> f32 {
        self.rates(self.epoch.min(self.run.last_epoch)).largest()
    }

    /// Samples per epoch.
    pub(super) fn samples(&self) -> usize {
        self.config.batch_size.images_of_epoch(self.train.len(), self.config.drop_last)
    }

    /// Steps per epoch.
    pub(super) fn steps_of_epoch(&self) -> u64 {
        self.config.batch_size.steps(self.samples())
    }

    /// Steps of the run before an epoch.
    pub(super) fn first_step(&self, epoch: u32) -> u64 {
        u64::from(epoch - 1 - self.epochs_before) * self.steps_of_epoch()
    }

    /// Completed steps of the run.
    pub(super) fn steps(&self) -> u64 {
        self.first_step(self.epoch) + self.config.batch_size.steps(self.stats.samples)
    }

    /// The step of the run, counted from 1, that trains on a sample of the current epoch.
    pub(super) fn step_with(&self, sample: usize) -> u64 {
        self.first_step(self.epoch) + self.config.batch_size.steps(sample + 1)
    }
}
