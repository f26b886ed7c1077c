//! Trains networks from several seeds, and summarises their results.

use std::fmt;
use std::io::Write;
use std::ops::RangeInclusive;

use ferrowarp_data::LazyMnist;
use ferrowarp_device::device::Device;
use ferrowarp_mnist::Console;
use ferrowarp_mnist::train::{self, Config, Outcome, Start, TrainError};

use crate::stop::Signals;

/// The mean, the minimum and the maximum of some numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    mean: f64,
    min: f64,
    max: f64,
    /// Digits after the decimal point.
    digits: usize,
}

impl Spread {
    /// Summarises at least one number.
    fn of(numbers: &[f64], digits: usize) -> Self {
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let min = numbers.iter().copied().fold(f64::INFINITY, f64::min);
        let max = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Self { mean, min, max, digits }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self { mean, min, max, digits } = self;
        write!(f, "{mean:.digits$} on average, {min:.digits$} to {max:.digits$}")
    }
}

/// Trains a network from each seed.
///
/// # Errors
/// The error of the first run that fails or is stopped, after the summary of earlier runs.
pub fn train(
    device: &Device,
    mnist: &LazyMnist,
    config: &Config,
    seeds: RangeInclusive<u64>,
    (console, signals): (&mut Console<Box<dyn Write>>, &Signals),
) -> anyhow::Result<()> {
    let mut outcomes = Vec::new();
    for seed in seeds {
        console.line(format_args!("seed {seed}"))?;
        let config = Config { seed: Some(seed), ..config.clone() };
        let start = Start::prepare(&config)?;
        let result = train::run(device, mnist, &config, start, &mut signals.observe(console, None));
        match result {
            Ok(outcome) => outcomes.push(outcome),
            Err(error) => {
                if !outcomes.is_empty() {
                    summarize(&outcomes, &config, console)?;
                }
                return Err(error.into());
            }
        }
    }
    summarize(&outcomes, config, console)
}

/// Writes a summary of the trained networks.
fn summarize(
    outcomes: &[Outcome],
    config: &Config,
    console: &mut Console<Box<dyn Write>>,
) -> anyhow::Result<()> {
    summary(outcomes, config.target_accuracy).iter().try_for_each(|line| console.line(line))?;
    Ok(())
}

/// Returns the error if it is that a run was stopped.
pub fn as_stopped(error: &anyhow::Error) -> Option<&TrainError> {
    error.downcast_ref().filter(|error| matches!(error, TrainError::Stopped { .. }))
}

fn summary(outcomes: &[Outcome], target: Option<f64>) -> Vec<String> {
    let of = |pick: &dyn Fn(&Outcome) -> f64, digits| {
        Spread::of(&outcomes.iter().map(pick).collect::<Vec<_>>(), digits)
    };
    let train_loss = |outcome: &Outcome| outcome.records.last().map_or(f64::NAN, |record| record.train_loss);
    let seconds = |outcome: &Outcome| outcome.records.iter().map(|record| record.seconds).sum();
    let mut lines = vec![
        format!("{} networks", outcomes.len()),
        format!("test accuracy, %: {}", of(&|outcome| 100.0 * outcome.test.accuracy(), 2)),
        format!("test loss: {}", of(&|outcome| outcome.test.loss, 4)),
        format!("train loss: {}", of(&train_loss, 4)),
        format!("training without tests, s: {}", of(&seconds, 3)),
    ];
    if let Some(target) = target {
        let reached = outcomes.iter().filter(|outcome| outcome.reached.is_some()).count();
        lines.push(format!("{reached} of {} reached {target} %", outcomes.len()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_mean_least_and_most() {
        assert_eq!(Spread::of(&[2.0, 5.0, 2.0], 1).to_string(), "3.0 on average, 2.0 to 5.0");
        assert_eq!(Spread::of(&[-1.5], 2).to_string(), "-1.50 on average, -1.50 to -1.50");
    }
}
