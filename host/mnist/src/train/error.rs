//! The errors of a run.

use std::fmt::{self, Display};
use std::io;
use std::path::{Path, PathBuf};

use crate::checkpoint::{CheckpointError, last_good};
use crate::model::ModelError;
use ferrowarp_report::ReportError;

/// Why a network was not trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting has an invalid value.
    #[error("--{flag} {value} cannot be used: {problem}")]
    Setting {
        /// The flag, without its dashes.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, and the fix.
        problem: String,
    },
    /// A file to write at the end is not writable.
    #[error("--{flag} {} cannot be used: no file can be written there", path.display())]
    Destination {
        /// The flag, without its dashes.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The loaded weights belong to another network.
    #[error(
        "the weights in {} are those of a {} network, but {} was requested; set --hidden to their hidden layers, or \
         omit it",
        path.display(), dashed(found), dashed(expected)
    )]
    WrongSizes {
        /// The file.
        path: PathBuf,
        /// Its widths, from the input to the output.
        found: Vec<usize>,
        /// The widths that the data and the settings require.
        expected: Vec<usize>,
    },
    /// A setting differs from the run to resume.
    #[error(
        "--{flag} {asked} cannot be used to resume from {}, whose run has {found}; omit --{flag} to continue with \
         {found}, or start a new run from its weights: --load {0} instead of --resume",
        path.display()
    )]
    Disagrees {
        /// The flag, without its dashes.
        flag: &'static str,
        /// Its value.
        asked: String,
        /// The value in the snapshot.
        found: String,
        /// The snapshot.
        path: PathBuf,
    },
    /// The data set differs from the run to resume.
    #[error(
        "the data set is not the one that the run of {} was trained on: it has {asked}, expected {found}; pass the \
         folder of that data set with --data",
        path.display()
    )]
    OtherData {
        /// The snapshot.
        path: PathBuf,
        /// The present data set, in words.
        asked: String,
        /// The snapshot's data set, in words.
        found: String,
    },
    /// The loss or a weight became infinite or NaN.
    #[error(
        "training diverged in epoch {epoch} at step {step}: {symptom}; choose a learning rate below {lr}; {}{}",
        last_good(checkpoint.as_deref()), start_from(checkpoint.as_deref())
    )]
    Diverged {
        /// The epoch, counted from 1.
        epoch: u32,
        /// The step, counted from 1 over the epochs of the run.
        step: u64,
        /// What is wrong.
        symptom: Symptom,
        /// The largest learning rate of the epoch.
        lr: f32,
        /// The last good checkpoint.
        checkpoint: Option<PathBuf>,
    },
    /// Loaded weights are finite, but results computed from them are not.
    #[error(
        "the weights in {} are so large that the loss of the test images is {loss}; train again with a smaller \
         learning rate",
        path.display()
    )]
    Overflow {
        /// The file.
        path: PathBuf,
        /// The mean loss over the test images.
        loss: f64,
    },
    /// The observer stopped the run.
    #[error(
        "stopped after step {step}, in epoch {epoch}; {}{}{}",
        match (checkpoint, saved) {
            (Some(checkpoint), Some(saved)) =>
                format!("the state is in {}, the weights in {}", checkpoint.display(), saved.display()),
            (Some(path), None) => format!("the state is in {}", path.display()),
            (None, Some(path)) => format!("the weights so far are in {}", path.display()),
            (None, None) => "nothing was saved".to_owned(),
        },
        plot.iter().map(|path| format!("; the plot so far is in {}", path.display())).collect::<String>(),
        missing.iter().map(|flag| format!("; nothing was written for --{flag}")).collect::<String>()
    )]
    Stopped {
        /// The epoch, counted from 1.
        epoch: u32,
        /// Completed steps of the run.
        step: u64,
        /// The checkpoint that was written; `None` if the settings name no folder.
        checkpoint: Option<PathBuf>,
        /// The weight file that was written; `None` if the settings name none.
        saved: Option<PathBuf>,
        /// The plot of the finished epochs, if the settings name a file and there are such epochs.
        plot: Option<PathBuf>,
        /// The flags, without dashes, of files that would have been written later in the run.
        missing: Vec<&'static str>,
    },
    /// The observer could not write its output.
    #[error("could not write the line of the epoch")]
    Output(#[source] io::Error),
    /// The network or its device failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The weights could not be loaded or saved.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The metrics or the plot could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// What shows that training has diverged.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Symptom {
    /// The loss of a training image, just before the step.
    Loss(f32),
    /// The mean loss over the test images, after the step.
    TestLoss(f64),
    /// A weight, bias or velocity, after the step.
    Weight(f32),
}

impl Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Symptom::Loss(loss) => write!(f, "the loss is {loss}"),
            Symptom::TestLoss(loss) => write!(f, "the loss of the test images after it is {loss}"),
            Symptom::Weight(weight) => write!(f, "a weight after it is {weight}"),
        }
    }
}

impl TrainError {
    /// Whether the command line is at fault: a setting or an output file cannot be used.
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            TrainError::Setting { .. } | TrainError::Destination { .. } | TrainError::Disagrees { .. }
        )
    }

    pub(super) fn setting(flag: &'static str, value: impl Display, problem: impl Into<String>) -> Self {
        TrainError::Setting { flag, value: value.to_string(), problem: problem.into() }
    }
}

fn dashed(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("-")
}

/// The part of a message on how to start again from the last good weights.
fn start_from(checkpoint: Option<&Path>) -> String {
    checkpoint.map_or_else(String::new, |path| {
        format!("; a new run with other settings can start from it: --load {}", path.display())
    })
}
