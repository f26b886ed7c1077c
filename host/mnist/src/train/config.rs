//! The settings of a training run, and their checks.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use super::TrainError;
use crate::checkpoint::{Folder, Found, Snapshot};
use crate::model::{Pipeline, Precision};
use crate::{BatchSize, LrSchedule, StepOfRun};
use ferrowarp_data::CLASSES;
use ferrowarp_report::output_file;

/// The default widths of the hidden layers: the classic network.
pub const DEFAULT_HIDDEN: [usize; 2] = [300, 100];
/// The default seed.
pub const DEFAULT_SEED: u64 = 0;

/// The default learning rate without momentum.
const DEFAULT_LR: f32 = 0.3;

/// The default number of checkpoints to keep.
pub const DEFAULT_KEEP: usize = 3;

/// The most weights a network may have: 1 GiB of f32.
const MAX_WEIGHTS: u64 = 1 << 28;

/// The settings of a training run.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Widths of the hidden layers, input side first; empty for a network without hidden layers. `None` means the widths of
    /// the loaded weights, or [`DEFAULT_HIDDEN`].
    pub hidden: Option<Vec<usize>>,
    /// Images in a batch; the data set must have at least one batch.
    pub batch_size: BatchSize,
    /// Whether the last partial batch of each epoch is dropped.
    pub drop_last: bool,
    /// Epochs to train; 0, which needs `load`, only tests.
    pub epochs: u32,
    /// Initial learning rate of the schedule, finite and above 0.
    pub lr: f32,
    /// Factor on the learning rate after each epoch, above 0 and at most 1; 1 for every schedule except
    /// [`LrSchedule::Exponential`].
    pub lr_decay: f32,
    /// How the learning rate changes.
    pub lr_schedule: LrSchedule,
    /// Fraction of the run in which the learning rate rises to the initial rate, at least 0 and below 1.
    pub lr_warmup: f32,
    /// Momentum, at least 0 and below 1.
    pub momentum: f32,
    /// Share of the targets that is spread evenly over all classes, at least 0 and below 1.
    pub label_smoothing: f32,
    /// Test accuracy in percent, above 0 and at most 100: the run ends with the epoch that reaches it. `None` means after
    /// `epochs`.
    pub target_accuracy: Option<f64>,
    /// Seed of the initial weights and of the shuffling. `None` means the loaded weights' seed, or [`DEFAULT_SEED`].
    pub seed: Option<u64>,
    /// The pipeline.
    pub pipeline: Pipeline,
    /// The type to which matrix multiplication operands are rounded; the pipeline must have kernels for it.
    pub precision: Precision,
    /// Where to write a JSON object per epoch.
    pub metrics: Option<PathBuf>,
    /// Where to write the weights at the end, or when the run is stopped.
    pub save: Option<PathBuf>,
    /// Weights to start from.
    pub load: Option<PathBuf>,
    /// Where to draw the curves of loss and accuracy.
    pub plot: Option<PathBuf>,
    /// Where to draw a timeline of the first steps of the run's second epoch, or of its only one.
    pub timeline: Option<PathBuf>,
    /// Whether each launch of the training is timed separately, which makes the run slower.
    pub profile: bool,
    /// Where and when to write checkpoints, from which a killed run can resume.
    pub checkpoints: Option<Checkpoints>,
}

/// Where and when a run writes its checkpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints {
    /// The folder, which is created if it is missing.
    pub dir: PathBuf,
    /// Steps from one to the next; `None` means one at the end of each epoch. The end of the run always has one.
    pub every: Option<u64>,
    /// The number to keep, at least 1.
    pub keep: usize,
}

impl Config {
    /// The settings that reach 97.3 % on MNIST's test images within five epochs, with any seed: batches of 64, no momentum,
    /// and a decreasing learning rate, since with a constant one the last steps of an epoch move the accuracy up and down by
    /// half a percent.
    pub fn new(pipeline: Pipeline) -> Config {
        Config {
            hidden: None,
            batch_size: BatchSize::DEFAULT,
            drop_last: false,
            epochs: 5,
            lr: DEFAULT_LR,
            lr_decay: 0.7,
            lr_schedule: LrSchedule::Exponential,
            lr_warmup: 0.0,
            momentum: 0.0,
            label_smoothing: 0.0,
            target_accuracy: None,
            seed: None,
            pipeline,
            precision: Precision::F32,
            metrics: None,
            save: None,
            load: None,
            plot: None,
            timeline: None,
            profile: false,
            checkpoints: None,
        }
    }

    /// The learning rate, rounded to three digits, for this momentum if `lr` is right without momentum. In the long run a
    /// gradient moves the weights by `lr / (1 - momentum)` times itself. This rate keeps that product the same.
    pub fn lr_for(lr: f32, momentum: f32) -> f32 {
        let lr = lr * (1.0 - momentum);
        // Rounding omits digits that come only from the rounding of the momentum.
        format!("{lr:.2e}").parse().unwrap_or(lr)
    }

    /// The settings of the run that wrote a snapshot, continuing in the same folder. A snapshot does not contain the files
    /// to write at the end.
    ///
    /// # Errors
    /// [`TrainError::Usage`]: the snapshot names an unknown pipeline or precision.
    pub fn of_run(found: &Found) -> Result<Config, TrainError> {
        let Snapshot { training, progress, .. } = &found.snapshot;
        let Ok(pipeline) = Pipeline::from_str(&training.pipeline, false) else {
            let problem = format!("this program does not have the pipeline of {}", found.path.display());
            return Err(TrainError::setting("pipeline", &training.pipeline, problem));
        };
        let Ok(precision) = Precision::from_str(&training.precision, false) else {
            let problem = format!("this program does not have the precision of {}", found.path.display());
            return Err(TrainError::setting("precision", &training.precision, problem));
        };
        Ok(Config {
            precision,
            hidden: Some(training.hidden().to_owned()),
            batch_size: training.batch_size,
            drop_last: training.drop_last,
            epochs: progress.last_epoch.saturating_sub(progress.epochs_before),
            lr: training.lr,
            lr_decay: training.lr_decay,
            lr_schedule: training.lr_schedule,
            lr_warmup: training.lr_warmup,
            momentum: training.momentum,
            label_smoothing: training.label_smoothing,
            seed: Some(training.seed),
            checkpoints: Some(Checkpoints {
                dir: found.dir.clone(),
                every: progress.every,
                keep: progress.keep,
            }),
            ..Config::new(pipeline)
        })
    }

    /// Widths of the network from the input to the output, if no weights are loaded.
    pub(super) fn sizes(&self, features: usize) -> Result<Vec<usize>, TrainError> {
        let hidden = self.hidden.as_deref().unwrap_or(&DEFAULT_HIDDEN);
        let sizes = [&[features], hidden, &[CLASSES]].concat();
        let weights = sizes.windows(2).try_fold(0u64, |sum, pair| {
            (pair[0] as u64).checked_mul(pair[1] as u64).and_then(|weights| sum.checked_add(weights))
        });
        if weights.is_none_or(|weights| weights > MAX_WEIGHTS) {
            let problem = format!("a network may have at most {MAX_WEIGHTS} weights; choose narrower layers");
            return Err(TrainError::setting("hidden", comma_separated(hidden), problem));
        }
        Ok(sizes)
    }

    /// The learning rate of a step.
    pub(super) fn lr_at(&self, step: StepOfRun) -> f32 {
        self.lr_schedule.rate_of_step(self.lr, self.lr_decay, self.lr_warmup, step)
    }

    /// The total number of epochs after this run, given `before` earlier ones.
    pub(super) fn last_epoch(&self, before: u32) -> Result<u32, TrainError> {
        let last = before.checked_add(self.epochs).filter(|&last| last < u32::MAX);
        last.ok_or_else(|| {
            let most = u32::MAX - 1;
            let problem =
                format!("weights have at most {most} epochs, and these have had {before}; train fewer");
            TrainError::setting("epochs", self.epochs, problem)
        })
    }

    /// Checks everything that can be checked without the data set.
    pub(super) fn check(&self, resumed: Option<&Found>) -> Result<(), TrainError> {
        self.check_numbers()?;
        self.check_precision()?;
        self.check_hidden()?;
        self.check_destinations()?;
        self.check_checkpoints(resumed)
    }

    fn check_numbers(&self) -> Result<(), TrainError> {
        let below_one = format!("it must be at least 0 and below 1, at most {}", 1.0_f32.next_down());
        let is_share = |share: f32| (0.0..1.0).contains(&share);
        let measures = [&self.plot, &self.metrics, &self.timeline];
        let is_measured = self.profile || measures.iter().any(|path| path.is_some());
        let (schedule, target) = (self.lr_schedule, self.target_accuracy.unwrap_or(100.0));
        // The momentum comes before the learning rate, whose default depends on it.
        let rules: [(bool, &'static str, String, &str); 10] = [
            (
                self.epochs > 0 || self.load.is_some(),
                "epochs",
                0.to_string(),
                "there is nothing to test without training; train at least 1, or name weights with --load",
            ),
            (
                self.epochs > 0 || !is_measured,
                "epochs",
                0.to_string(),
                "there is nothing to plot or to measure; leave --plot, --metrics, --timeline and --profile away",
            ),
            (is_share(self.momentum), "momentum", self.momentum.to_string(), &below_one),
            (is_share(self.label_smoothing), "label-smoothing", self.label_smoothing.to_string(), &below_one),
            (
                self.lr.is_finite() && self.lr > 0.0,
                "lr",
                self.lr.to_string(),
                "the learning rate must be finite and above 0",
            ),
            (
                self.lr_decay > 0.0 && self.lr_decay <= 1.0,
                "lr-decay",
                self.lr_decay.to_string(),
                "it must be above 0 and at most 1",
            ),
            (
                is_share(self.lr_warmup),
                "lr-warmup",
                self.lr_warmup.to_string(),
                "it is a fraction of the run, at least 0 and below 1; 0.1 is the first tenth",
            ),
            (
                schedule.is_exponential() || self.lr_decay == 1.0,
                "lr-decay",
                self.lr_decay.to_string(),
                &format!("--lr-decay applies only to --lr-schedule exponential, not to {schedule}; omit it"),
            ),
            (
                target > 0.0 && target <= 100.0,
                "target-accuracy",
                target.to_string(),
                "it is in percent of the test images, above 0 and at most 100",
            ),
            (
                self.epochs > 0 || self.target_accuracy.is_none(),
                "target-accuracy",
                target.to_string(),
                "without an epoch nothing is trained; leave it away, or train at least 1",
            ),
        ];
        match rules.into_iter().find(|(is_right, ..)| !is_right) {
            Some((_, flag, value, problem)) => Err(TrainError::setting(flag, value, problem)),
            None => Ok(()),
        }
    }

    fn check_checkpoints(&self, resumed: Option<&Found>) -> Result<(), TrainError> {
        let Some(Checkpoints { dir, every, keep }) = &self.checkpoints else { return Ok(()) };
        if *every == Some(0) {
            let problem = "there is at least 1 step from one checkpoint to the next";
            return Err(TrainError::setting("checkpoint-every", 0, problem));
        }
        if *keep == 0 {
            let problem = "at least 1 checkpoint is kept; leave --checkpoint away to write none";
            return Err(TrainError::setting("checkpoint-keep", 0, problem));
        }
        Ok(Folder::check(dir, resumed)?)
    }

    fn check_precision(&self) -> Result<(), TrainError> {
        let Config { pipeline, precision, .. } = self;
        if pipeline.has(*precision) {
            return Ok(());
        }
        let problem = format!(
            "the pipeline {} has no kernels for it; choose f32, or with --pipeline one of {}",
            pipeline.name(),
            Pipeline::with(*precision)
        );
        Err(TrainError::setting("precision", precision, problem))
    }

    fn check_hidden(&self) -> Result<(), TrainError> {
        match &self.hidden {
            Some(hidden) if hidden.contains(&0) => {
                let problem = "every layer needs at least 1 unit";
                Err(TrainError::setting("hidden", comma_separated(hidden), problem))
            }
            _ => Ok(()),
        }
    }

    fn check_destinations(&self) -> Result<(), TrainError> {
        let mut seen: Vec<(&str, &Path)> = Vec::new();
        for (flag, path) in self.outputs() {
            if let Some((other, _)) = seen.iter().find(|(_, other)| is_overwritten(other, path)) {
                let problem = format!("--{other} writes the same file; choose another one");
                return Err(TrainError::setting(flag, path.display(), problem));
            }
            if self.checkpoints.as_ref().is_some_and(|checkpoints| Folder::has(&checkpoints.dir, path)) {
                let problem = "it is one of the checkpoints; name another file";
                return Err(TrainError::setting(flag, path.display(), problem));
            }
            output_file::check_destination(path).map_err(|error| {
                let path = path.display();
                let text = format!("--{flag} {path} cannot be used: no file can be written there");
                TrainError::Usage { text, source: Some(error) }
            })?;
            seen.push((flag, path));
        }
        self.check_spared(self.load.as_deref())
    }

    /// Checks that the run overwrites none of these input files.
    ///
    /// # Errors
    /// [`TrainError::Usage`].
    pub fn check_spared<'a>(&self, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), TrainError> {
        for input in inputs {
            if let Some((flag, path)) = self.outputs().find(|(_, path)| is_overwritten(input, path)) {
                let problem = format!("the run reads {}; name another file", input.display());
                return Err(TrainError::setting(flag, path.display(), problem));
            }
        }
        Ok(())
    }

    /// The files that the run writes, with their flags.
    fn outputs(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let outputs = [
            ("metrics", &self.metrics),
            ("save", &self.save),
            ("plot", &self.plot),
            ("timeline", &self.timeline),
        ];
        outputs.into_iter().filter_map(|(flag, path)| Some((flag, path.as_deref()?)))
    }

    /// Checks what depends on the number of training images.
    pub(super) fn check_against(&self, train_images: usize) -> Result<(), TrainError> {
        let checked = self.batch_size.check(train_images);
        let is_default = self.batch_size == BatchSize::DEFAULT;
        let value = format!("{}{}", self.batch_size, if is_default { ", the default," } else { "" });
        checked.map_err(|problem| TrainError::setting("batch-size", value, problem))
    }
}

/// Whether writing `output` would replace `file`. Pipes and devices are written to directly, possibly by several writers.
fn is_overwritten(file: &Path, output: &Path) -> bool {
    !output_file::is_stream(output).unwrap_or(false) && output_file::is_same(file, output)
}

/// Formats widths as on the command line.
pub(super) fn comma_separated(widths: &[usize]) -> String {
    if widths.is_empty() {
        return "\"\"".to_owned();
    }
    widths.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_size_that_was_not_asked_for_is_the_default() {
        let error = Config::new(Pipeline::Naive).check_against(1).unwrap_err().to_string();
        let says =
            "--batch-size 64, the default, cannot be used: there is only 1 training image; choose at most 1";
        assert_eq!(error, says);
    }
}
