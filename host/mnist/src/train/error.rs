//! The errors of a run.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;

use crate::checkpoint::CheckpointError;
use crate::model::ModelError;
use ferrowarp_report::ReportError;

/// Why a network was not trained.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrainError {
    /// The command line is at fault: a setting or an output file cannot be used.
    #[error("{text}")]
    Usage {
        /// The flag, its value, what is wrong with it, and the fix.
        text: String,
        /// The system's error.
        source: Option<io::Error>,
    },
    /// The data or the weights do not fit the run, or the training has diverged: what is wrong, and the fix.
    #[error("{0}")]
    Run(String),
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

impl TrainError {
    /// The error of a flag (without its dashes) whose value cannot be used; `problem` names the fix.
    pub fn setting(flag: &str, value: impl Display, problem: impl Display) -> Self {
        TrainError::Usage { text: format!("--{flag} {value} cannot be used: {problem}"), source: None }
    }
}
