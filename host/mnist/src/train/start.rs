//! The start of a run.

use super::config::comma_separated;
use super::{Config, DEFAULT_SEED, TrainError};
use crate::checkpoint::{self, Checkpoint, Found};
use crate::model::Parameters;
use ferrowarp_data::CLASSES;

/// The starting point of a run, with checked settings.
#[derive(Clone, Debug)]
pub struct Start {
    pub(super) origin: Origin,
    /// Epochs of training before the run.
    pub(super) epochs_before: u32,
    pub(super) seed: u64,
}

/// Where the initial weights come from.
#[derive(Clone, Debug)]
pub(super) enum Origin {
    Random,
    Loaded(Parameters),
    Resumed(Box<Found>),
}

impl Start {
    /// Checks the settings and the output files, and loads the initial weights if the settings name some. It needs no data
    /// set, so errors are reported before a data set is fetched.
    ///
    /// # Errors
    /// [`TrainError`]: a setting is out of range, an output file is not writable, or the weights cannot be loaded.
    pub fn prepare(config: &Config) -> Result<Start, TrainError> {
        config.check(None)?;
        let Some(path) = &config.load else {
            let seed = config.seed.unwrap_or(DEFAULT_SEED);
            return Ok(Start { origin: Origin::Random, epochs_before: 0, seed });
        };
        let Checkpoint { parameters, training } = checkpoint::load(path)?;
        let (epochs_before, seed) =
            training.map_or((0, DEFAULT_SEED), |training| (training.epochs, training.seed));
        config.last_epoch(epochs_before)?;
        let seed = config.seed.unwrap_or(seed);
        Ok(Start { origin: Origin::Loaded(parameters), epochs_before, seed })
    }

    /// Continues the run of a snapshot as if it had never stopped. The settings must be those of that run, which
    /// [`Config::of_run`] returns. The number of epochs, the output files and the settings of checkpoints may differ.
    ///
    /// # Errors
    /// [`TrainError`]: same as for [`Self::prepare`], or a setting differs from the run's.
    pub fn resume(config: &Config, found: Found) -> Result<Start, TrainError> {
        config.check(Some(&found))?;
        check_agreement(config, &found)?;
        let (training, progress) = (&found.snapshot.training, &found.snapshot.progress);
        let (epochs_before, seed) = (progress.epochs_before, training.seed);
        let begun = training.epochs + u32::from(progress.samples > 0);
        if config.last_epoch(epochs_before)? < begun {
            let epochs = begun - epochs_before;
            let problem =
                format!("{} is in epoch {epochs} of its run; choose at least that", found.path.display());
            return Err(TrainError::setting("epochs", config.epochs, problem));
        }
        let epochs = progress.last_epoch.saturating_sub(epochs_before);
        if (training.lr_schedule.spans_the_run() || training.lr_warmup != 0.0) && config.epochs != epochs {
            let problem = format!(
                "the learning rates of the run in {} are for {epochs} epochs; choose {epochs}, or start from its \
                 weights with --load",
                found.dir.display()
            );
            return Err(TrainError::setting("epochs", config.epochs, problem));
        }
        Ok(Start { origin: Origin::Resumed(Box::new(found)), epochs_before, seed })
    }

    /// The snapshot that the run resumes from, if any.
    pub fn resumed(&self) -> Option<&Found> {
        match &self.origin {
            Origin::Resumed(found) => Some(found),
            Origin::Random | Origin::Loaded(_) => None,
        }
    }

    /// The initial weights, for images of `features` pixels.
    pub(super) fn parameters(&self, config: &Config, features: usize) -> Result<Parameters, TrainError> {
        let (parameters, path) = match &self.origin {
            Origin::Random => return Ok(Parameters::init(&config.sizes(features)?, self.seed)),
            Origin::Loaded(parameters) => (parameters, config.load.clone().unwrap_or_default()),
            Origin::Resumed(found) => (&found.snapshot.parameters, found.path.clone()),
        };
        let found = parameters.sizes();
        let hidden = match &config.hidden {
            Some(hidden) => hidden,
            None => found.get(1..found.len() - 1).unwrap_or_default(),
        };
        let expected = [&[features], hidden, &[CLASSES]].concat();
        if found != expected {
            let dashed = |sizes: &[usize]| sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("-");
            return Err(TrainError::Run(format!(
                "the weights in {} are those of a {} network, but {} was requested; set --hidden to their hidden layers, or \
                 omit it",
                path.display(),
                dashed(&found),
                dashed(&expected)
            )));
        }
        Ok(parameters.clone())
    }
}

/// Checks that every setting that affects the weights agrees with the run to resume.
fn check_agreement(config: &Config, found: &Found) -> Result<(), TrainError> {
    let training = &found.snapshot.training;
    let hidden = comma_separated(training.hidden());
    let seed = training.seed;
    let pairs = [
        ("hidden", config.hidden.as_deref().map_or(hidden.clone(), comma_separated), hidden),
        ("batch-size", config.batch_size.to_string(), training.batch_size.to_string()),
        ("drop-last", config.drop_last.to_string(), training.drop_last.to_string()),
        ("lr", config.lr.to_string(), training.lr.to_string()),
        ("lr-schedule", config.lr_schedule.to_string(), training.lr_schedule.to_string()),
        ("lr-warmup", config.lr_warmup.to_string(), training.lr_warmup.to_string()),
        ("lr-decay", config.lr_decay.to_string(), training.lr_decay.to_string()),
        ("momentum", config.momentum.to_string(), training.momentum.to_string()),
        ("label-smoothing", config.label_smoothing.to_string(), training.label_smoothing.to_string()),
        ("seed", config.seed.unwrap_or(seed).to_string(), seed.to_string()),
        ("pipeline", config.pipeline.name(), training.pipeline.clone()),
        ("precision", config.precision.name(), training.precision.clone()),
    ];
    match pairs.into_iter().find(|(_, asked, found)| asked != found) {
        Some((flag, asked, value)) => {
            let path = found.path.display();
            let text = format!(
                "--{flag} {asked} cannot be used to resume from {path}, whose run has {value}; omit --{flag} to continue with \
                 {value}, or start a new run from its weights: --load {path} instead of --resume"
            );
            Err(TrainError::Usage { text, source: None })
        }
        None => Ok(()),
    }
}
