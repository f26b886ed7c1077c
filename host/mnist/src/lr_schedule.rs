//! How the learning rate changes.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// How the learning rate changes.
///
/// ```
/// use ferrowarp_mnist::LrSchedule;
///
/// let rates = [0.125, 0.375, 0.625, 0.875].map(|u| LrSchedule::Linear.rate(0.5, 1.0, 1, u));
/// assert_eq!(rates, [0.4375, 0.3125, 0.1875, 0.0625]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LrSchedule {
    /// Constant
    Constant,
    /// Multiplied by --lr-decay after each epoch
    #[default]
    Exponential,
    /// Linear, down to 0 at the end of the run
    Linear,
    /// Proportional to the square root of the remaining part of the run
    Sqrt,
    /// Constant for the first half of the run, then linear, down to 0 at the end
    Trapezoid,
}

/// A step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOfRun {
    /// Its epoch, counted from 1 over all training.
    pub epoch: u32,
    /// Its number in the run, counted from 0.
    pub step: u64,
    /// The number of steps in the run.
    pub steps: u64,
}

impl LrSchedule {
    /// Whether it is [`LrSchedule::Exponential`].
    pub fn is_exponential(&self) -> bool {
        *self == LrSchedule::Exponential
    }

    /// Whether the rate of a step depends on the number of steps of the run.
    pub fn spans_the_run(self) -> bool {
        match self {
            LrSchedule::Constant | LrSchedule::Exponential => false,
            LrSchedule::Linear | LrSchedule::Sqrt | LrSchedule::Trapezoid => true,
        }
    }

    /// The rate when the fraction `u`, 0 to 1, of the run is over, in an epoch counted from 1 over all training. `lr` is the
    /// initial rate: for `Exponential` of the first epoch of all, otherwise of the run. `decay` is the factor of
    /// `Exponential`.
    pub fn rate(self, lr: f32, decay: f32, epoch: u32, u: f64) -> f32 {
        let of_lr = |part: f64| (f64::from(lr) * part) as f32;
        match self {
            LrSchedule::Constant => lr,
            LrSchedule::Exponential => lr * decay.powf(epoch.saturating_sub(1) as f32),
            LrSchedule::Linear => of_lr(1.0 - u),
            LrSchedule::Sqrt => of_lr((1.0 - u).sqrt()),
            LrSchedule::Trapezoid => of_lr((2.0 - 2.0 * u).min(1.0)),
        }
    }

    /// The rate of a step, taken at its middle: step `i` of `n` is at `(i + 0.5) / n`. In the first fraction `warmup` of the
    /// run, at least 0 and below 1, the rate rises linearly from 0 to the initial rate; the schedule covers the rest.
    pub fn rate_of_step(self, lr: f32, decay: f32, warmup: f32, at: StepOfRun) -> f32 {
        let (place, warmup) = ((at.step as f64 + 0.5) / at.steps.max(1) as f64, f64::from(warmup));
        let u = ((place - warmup) / (1.0 - warmup)).clamp(0.0, 1.0);
        let rate = self.rate(lr, decay, at.epoch, u);
        if place < warmup { (f64::from(rate) * (place / warmup)) as f32 } else { rate }
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

    /// The rates of a run of two epochs with four steps each, after `before` epochs.
    fn rates(schedule: LrSchedule, decay: f32, warmup: f32, before: u32) -> Vec<f32> {
        let step = |step| StepOfRun { epoch: before + 1 + step as u32 / 4, step, steps: 8 };
        (0..8).map(|i| schedule.rate_of_step(0.5, decay, warmup, step(i))).collect()
    }

    #[test]
    fn rates_from_epoch_to_epoch() {
        assert_eq!(rates(LrSchedule::Constant, 1.0, 0.0, 0), [0.5; 8]);
        let falling = [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25];
        assert_eq!(rates(LrSchedule::Exponential, 0.5, 0.0, 0), falling);
        // After two earlier epochs, the rate continues where they left it.
        assert_eq!(rates(LrSchedule::Exponential, 0.5, 0.0, 2), falling.map(|rate| rate / 4.0));
    }

    /// Rates are in sixteenths of `lr` where they are multiples of it.
    #[test]
    fn rates_from_step_to_step() {
        for before in [0, 7] {
            let sixteenths =
                |schedule| rates(schedule, 1.0, 0.0, before).iter().map(|rate| rate * 32.0).collect();
            let linear: Vec<f32> = sixteenths(LrSchedule::Linear);
            assert_eq!(linear, [15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0]);
            let trapezoid: Vec<f32> = sixteenths(LrSchedule::Trapezoid);
            assert_eq!(trapezoid, [16.0, 16.0, 16.0, 16.0, 14.0, 10.0, 6.0, 2.0]);
            let sqrt: Vec<f32> = sixteenths(LrSchedule::Sqrt);
            let squares = sqrt.iter().map(|rate| (rate * rate / 16.0).round());
            assert!(squares.eq(linear.iter().copied()), "{sqrt:?}");
        }
    }

    #[test]
    fn a_warm_up_climbs_to_where_the_schedule_begins() {
        // Warmup covers the first four of eight steps, at 1/8, 3/8 and so on of the rate; the schedule covers the other
        // four.
        let climb = [1.0, 3.0, 5.0, 7.0];
        for (schedule, rest) in [
            (LrSchedule::Constant, [8.0, 8.0, 8.0, 8.0]),
            (LrSchedule::Linear, [7.0, 5.0, 3.0, 1.0]),
            (LrSchedule::Trapezoid, [8.0, 8.0, 6.0, 2.0]),
        ] {
            let eighths: Vec<f32> = rates(schedule, 1.0, 0.5, 0).iter().map(|rate| rate * 16.0).collect();
            assert_eq!(eighths, [climb, rest].concat(), "{schedule}");
        }
        // The warmup rises to the rate of the current epoch.
        let twentieths = rates(LrSchedule::Exponential, 0.5, 0.625, 0).into_iter().map(|rate| rate * 20.0);
        assert!(twentieths.eq([1.0, 3.0, 5.0, 7.0, 4.5, 5.0, 5.0, 5.0]));
    }

    #[test]
    fn rates_stay_above_0_in_the_longest_run() {
        let last = StepOfRun { epoch: 9, step: (1 << 40) - 1, steps: 1 << 40 };
        for schedule in [LrSchedule::Linear, LrSchedule::Sqrt, LrSchedule::Trapezoid] {
            assert!(schedule.rate_of_step(0.5, 1.0, 0.0, last) > 0.0, "{schedule}");
        }
        assert!(LrSchedule::Constant.rate_of_step(0.5, 1.0, 0.9, StepOfRun { step: 0, ..last }) > 0.0);
    }
}
