//! How the learning rate goes.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the learning rate goes from epoch to epoch; within one it stays.
///
/// ```
/// use ferrowarp_mnist::LrSchedule;
///
/// let epochs = [0, 4];
/// let rates: Vec<f32> = (1..=4).map(|epoch| LrSchedule::Linear.rate(0.4, 1.0, epoch, epochs)).collect();
/// assert_eq!(rates, [0.4, 0.3, 0.2, 0.1]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LrSchedule {
    /// It stays
    Constant,
    /// It is multiplied by --lr-decay after each epoch
    #[default]
    Exponential,
    /// It falls by the same amount after each epoch of the run, so that it would be 0 in the one after the last
    Linear,
}

impl LrSchedule {
    /// Whether it is [`LrSchedule::Exponential`].
    pub fn is_exponential(&self) -> bool {
        *self == LrSchedule::Exponential
    }

    /// The rate of an epoch, counted from 1 over all the training the weights have had, of a run that goes from after the
    /// epoch `before` to the epoch `last`. `lr` is the rate of the first epoch: for `Exponential` that of all, for `Linear`
    /// that of the run. `decay` is the factor of `Exponential`.
    pub fn rate(self, lr: f32, decay: f32, epoch: u32, [before, last]: [u32; 2]) -> f32 {
        match self {
            LrSchedule::Constant => lr,
            LrSchedule::Exponential => lr * decay.powf(epoch.saturating_sub(1) as f32),
            LrSchedule::Linear => {
                let (left, all) = (last.saturating_sub(epoch) + 1, last.saturating_sub(before).max(1));
                (f64::from(lr) * f64::from(left) / f64::from(all)) as f32
            }
        }
    }
}

impl fmt::Display for LrSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_possible_value() {
            Some(value) => f.write_str(value.get_name()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_from_epoch_to_epoch() {
        let rates = |schedule: LrSchedule, decay, epochs @ [before, last]: [u32; 2]| {
            (before + 1..=last).map(|epoch| schedule.rate(0.5, decay, epoch, epochs)).collect::<Vec<_>>()
        };
        assert_eq!(rates(LrSchedule::Constant, 1.0, [0, 3]), [0.5; 3]);
        assert_eq!(rates(LrSchedule::Exponential, 0.5, [0, 3]), [0.5, 0.25, 0.125]);
        // Weights that have had two epochs go on from where those left the rate.
        assert_eq!(rates(LrSchedule::Exponential, 0.5, [2, 4]), [0.125, 0.0625]);
        assert_eq!(rates(LrSchedule::Linear, 1.0, [0, 5]), [0.5, 0.4, 0.3, 0.2, 0.1]);
        // A fall is the run's own, from the rate that it is given.
        assert_eq!(rates(LrSchedule::Linear, 1.0, [7, 9]), [0.5, 0.25]);
        assert_eq!(LrSchedule::Linear.rate(0.5, 1.0, 1, [0, u32::MAX - 1]), 0.5);
    }
}
