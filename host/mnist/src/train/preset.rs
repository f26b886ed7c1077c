//! Settings that belong together.

use clap::ValueEnum;

use super::Config;
use crate::{BatchSize, LrSchedule};

/// The batch size of [`Preset::Record`].
const RECORD_BATCH: u64 = 64;

/// Settings that serve a purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// The fewest epochs to 98 % of the test images in batches that `resident` takes, whose steps are the shortest: chosen on
    /// training images that were held out, as docs/results/record.md tells
    Record,
}

impl Preset {
    /// These settings with those of the preset in their places.
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
