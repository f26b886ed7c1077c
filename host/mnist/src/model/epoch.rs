//! One epoch of training, and the learning rates of its steps.

use std::sync::Arc;

use super::error::ModelError;
use ferrowarp_device::device::{Buffer, Device};

/// One epoch of training.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochSpec {
    /// Seed for the order of the samples.
    pub seed: u64,
    /// The epoch's number, which also determines the order.
    pub epoch: u32,
    /// The learning rates.
    pub rates: Rates,
    /// Momentum, 0 for plain SGD.
    pub momentum: f32,
}

/// The learning rate of each step of an epoch.
///
/// ```
/// use ferrowarp_mnist::model::Rates;
///
/// let rates: Rates = [0.1, 0.2].into_iter().collect();
/// assert_eq!([0, 1, 2].map(|step| rates.at(step)), [0.1, 0.2, 0.2]);
/// assert_eq!(Rates::from(0.3).at(7), 0.3);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Rates(Arc<[f32]>);

impl Rates {
    /// The rate of a step, counted from 0. Later steps have the last rate. Without any rates it is 0.
    pub fn at(&self, step: usize) -> f32 {
        self.0.get(step).or(self.0.last()).copied().unwrap_or(0.0)
    }

    /// The largest rate.
    pub fn largest(&self) -> f32 {
        self.0.iter().copied().fold(0.0, f32::max)
    }
}

impl FromIterator<f32> for Rates {
    fn from_iter<I: IntoIterator<Item = f32>>(rates: I) -> Rates {
        Rates(rates.into_iter().collect())
    }
}

impl From<f32> for Rates {
    /// The same rate for all steps.
    fn from(rate: f32) -> Rates {
        Rates([rate].into())
    }
}

/// The rates of an epoch's steps in device memory, so that launches with the same arguments can read them.
#[derive(Debug)]
pub(super) struct DeviceRates {
    all: Buffer<f32>,
    /// The rates that are there.
    of: Rates,
}

impl DeviceRates {
    /// Allocates room for `steps` steps and one more: the last step looks up the rate of the following step.
    pub fn new(device: &Device, steps: usize) -> Result<Self, ModelError> {
        Ok(Self { all: device.alloc_zeroed(steps + 1)?, of: Rates::from(0.0) })
    }

    /// Writes the rates of another epoch.
    pub fn set(&mut self, rates: &Rates) -> Result<(), ModelError> {
        if self.of != *rates {
            let all: Vec<f32> = (0..self.all.len()).map(|step| rates.at(step)).collect();
            self.all.copy_from(&all)?;
            self.of = rates.clone();
        }
        Ok(())
    }

    /// The rates, by the step's number in the epoch.
    pub fn all(&self) -> &Buffer<f32> {
        &self.all
    }
}
