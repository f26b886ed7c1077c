//! Where a run starts from.

use super::{Config, DEFAULT_SEED, TrainError};
use crate::checkpoint::{self, Checkpoint};
use crate::data::CLASSES;
use crate::model::Parameters;

/// Settings that passed their checks, and the weights they start from.
#[derive(Clone, Debug)]
pub struct Start {
    loaded: Option<Parameters>,
    /// Epochs the weights have had.
    pub(super) epochs: u32,
    pub(super) seed: u64,
}

impl Start {
    /// Checks the settings and the places where files are to be written, and loads the weights to start from
    /// when the settings name some. It needs no data set, so that what is wrong is told before one is fetched.
    ///
    /// # Errors
    /// [`TrainError`]: a setting is out of its range, a file could not be written later, or the weights cannot
    /// be loaded.
    pub fn prepare(config: &Config) -> Result<Start, TrainError> {
        config.check()?;
        let Some(path) = &config.load else {
            return Ok(Start { loaded: None, epochs: 0, seed: config.seed.unwrap_or(DEFAULT_SEED) });
        };
        let Checkpoint { parameters, training } = checkpoint::load(path)?;
        let (epochs, seed) = training.map_or((0, DEFAULT_SEED), |training| (training.epochs, training.seed));
        if u64::from(epochs) + u64::from(config.epochs) >= u64::from(u32::MAX) {
            return Err(TrainError::setting(
                "epochs",
                config.epochs,
                "the loaded weights have had too many already",
            ));
        }
        Ok(Start { loaded: Some(parameters), epochs, seed: config.seed.unwrap_or(seed) })
    }

    /// The weights to start from, for images of `features` pixels.
    pub(super) fn parameters(self, config: &Config, features: usize) -> Result<Parameters, TrainError> {
        let (Some(parameters), Some(path)) = (self.loaded, &config.load) else {
            let sizes = config.sizes(features)?;
            return Ok(Parameters::init(&sizes, self.seed));
        };
        let found = parameters.sizes();
        let hidden = match &config.hidden {
            Some(hidden) => hidden,
            None => found.get(1..found.len() - 1).unwrap_or_default(),
        };
        let expected = [&[features], hidden, &[CLASSES]].concat();
        if found != expected {
            return Err(TrainError::WrongSizes { path: path.clone(), found, expected });
        }
        Ok(parameters)
    }
}
