//! Settings that belong together.

use clap::ValueEnum;

use super::Config;
use crate::{BatchSize, LrSchedule};

/// The batch size of [`Preset::Record`].
const RECORD_BATCH: u64 = 64;

/// A set of settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// 98 % test accuracy in the fewest epochs, in batches that `resident` takes. Chosen on held-out training images: see
    /// docs/results/record.md
    Record,
}

impl Preset {
    /// Overrides these settings with the preset's.
    pub fn applied_to(self, config: Config) -> Config {
        let Preset::Record = self;
        Config {
            batch_size: BatchSize::new(RECORD_BATCH).unwrap_or(BatchSize::DEFAULT),
            epochs: 3,
            lr: 1.0,
            lr_decay: 1.0,
            lr_schedule: LrSchedule::Trapezoid,
            lr_warmup: 0.1,
            label_smoothing: 0.1,
            target_accuracy: Some(98.0),
            ..config
        }
    }
}
