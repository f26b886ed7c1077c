//! The training of `cargo bench mlp`: the network, the data sets, a timed run.

pub mod data;
pub mod session;

use std::time::Duration;

/// Widths of the classic network, input first. `benches/peers/mnist.py` and `cuda/lab/peers` have them, too.
pub const SIZES: [usize; 4] = [784, 300, 100, 10];

/// Images per batch. The peers have the same table.
pub const BATCHES: [u64; 4] = [16, 64, 256, 1024];

/// Epochs per run; each run starts again with the initial weights.
pub const RUN: u32 = 5;

/// The learning rate of a run's first epoch, as in `train-mnist`; [`LR_DECAY`] multiplies it after each epoch.
pub const LR: f32 = 0.3;
/// See [`LR`].
pub const LR_DECAY: f32 = 0.7;

/// Seed of the initial weights and of the image order.
pub const SEED: u64 = 42;

/// The learning rate of an epoch, counted from 1.
pub fn lr_in(epoch: u32) -> f32 {
    LR * LR_DECAY.powf(epoch.saturating_sub(1) as f32)
}

/// Measured seconds of an epoch or a step.
#[derive(Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds a time.
    pub fn push(&mut self, time: Duration) {
        self.0.push(time.as_secs_f64());
    }

    /// The last `most` samples; the earlier ones were the warm-up. The first is never among them, unless it is the only one.
    pub fn last(&self, most: usize) -> &[f64] {
        let first = self.0.len().saturating_sub(most).max(1);
        self.0.get(first..).filter(|rest| !rest.is_empty()).unwrap_or(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_is_to_warm_up() {
        let mut samples = Samples::default();
        assert_eq!(samples.last(2), [0.0; 0]);
        let mut found = Vec::new();
        for seconds in 1..=4 {
            samples.push(Duration::from_secs(seconds));
            found.push(samples.last(2).to_vec());
        }
        assert_eq!(found, [vec![1.0], vec![2.0], vec![2.0, 3.0], vec![3.0, 4.0]]);
    }

    #[test]
    fn the_learning_rate_falls_from_the_second_epoch_on() {
        assert_eq!(lr_in(1), LR);
        assert!((lr_in(3) - 0.147).abs() < 1e-6);
    }

    /// Compares the table that the peers' script prints with ours.
    #[test]
    fn the_peers_train_the_same() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/mnist.py");
        let listed = std::process::Command::new("python3").args([script, "--list-settings"]).output();
        let Ok(output) = listed else { return };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let ours = format!("{SIZES:?} {BATCHES:?} {RUN} {LR} {LR_DECAY}\n");
        assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
    }
}
