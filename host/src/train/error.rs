//! What can go wrong with a run.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::model::ModelError;
use crate::report::ReportError;

/// Why a network was not trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting has a value that makes no sense.
    #[error("--{flag} {value} cannot be used: {problem}")]
    Setting {
        /// The flag, without its dashes.
        flag: &'static str,
        /// Its value.
        value: String,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A file that is to be written at the end could not be.
    #[error("--{flag} {} cannot be used: no file can be made there", path.display())]
    Destination {
        /// The flag, without its dashes.
        flag: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The loaded weights belong to another network.
    #[error(
        "the weights in {} are those of a {} network, but {} is asked for; name their hidden layers with \
         --hidden, or leave --hidden away",
        path.display(), dashed(found), dashed(expected)
    )]
    WrongSizes {
        /// The file.
        path: PathBuf,
        /// Its widths, from the input to the output.
        found: Vec<usize>,
        /// The widths that the data and the settings ask for.
        expected: Vec<usize>,
    },
    /// The loss is infinite or no number any more.
    #[error("training diverged in epoch {epoch}: the loss is {loss}; choose a learning rate below {lr}")]
    Diverged {
        /// The epoch, counted from 1.
        epoch: u32,
        /// The loss.
        loss: f64,
        /// The learning rate.
        lr: f32,
    },
    /// What the observer wanted to tell could not be told.
    #[error("could not report the epoch")]
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

impl TrainError {
    pub(super) fn setting(flag: &'static str, value: impl Display, problem: impl Into<String>) -> Self {
        TrainError::Setting { flag, value: value.to_string(), problem: problem.into() }
    }
}

fn dashed(sizes: &[usize]) -> String {
    sizes.iter().map(usize::to_string).collect::<Vec<_>>().join("-")
}
