//! Errors of weight files and checkpoints.

use std::io;
use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;

/// Why weights or a checkpoint could not be saved or loaded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file could not be read.
    #[error("could not read the weights in {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file could not be written. An existing file of this name is unchanged.
    #[error("could not write the weights to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not a safetensors file, or is damaged.
    #[error("{} is not an intact safetensors file; train again with --save, or copy it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SafeTensorError,
    },
    /// The file is a safetensors file, but not one that this program can use.
    #[error("{}: {problem}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and the fix.
        problem: String,
    },
    /// The checkpoint is intact but has another version.
    #[error(
        "{}: its format has version {found}, but this program reads only version {known}; resume with the program that \
         wrote it, or with a newer one",
        path.display(), known = super::VERSION
    )]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u32,
    },
    /// The folder cannot be created, read or written.
    #[error("{} cannot be used as a folder of checkpoints; choose one that can be created and written", dir.display())]
    Folder {
        /// The folder.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The folder for a new run holds another run's checkpoints.
    #[error(
        "{} already holds checkpoints of a run, the newest {}; continue that run with --resume {0}, or \
         name another folder with --checkpoint",
        dir.display(), newest.display()
    )]
    Occupied {
        /// The folder.
        dir: PathBuf,
        /// The newest file in it.
        newest: PathBuf,
    },
    /// Another process writes checkpoints there.
    #[error("{} is in use by another run; wait for it, stop it, or name another folder", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// There is no checkpoint to resume from.
    #[error("there is no checkpoint in {}; pass the folder of --checkpoint, or start without --resume", dir.display())]
    NothingToResume {
        /// The folder.
        dir: PathBuf,
    },
    /// There are checkpoints, but all are damaged.
    #[error(
        "none of the {count} checkpoints in {} can be used; copy them again, or start without --resume and with \
         another folder for --checkpoint",
        dir.display()
    )]
    NoneIntact {
        /// The folder.
        dir: PathBuf,
        /// The number of checkpoints.
        count: usize,
        /// What is wrong with the newest.
        source: Box<CheckpointError>,
    },
    /// A checkpoint could not be written. Earlier checkpoints are unchanged.
    #[error(
        "could not write the checkpoint {}; {}; make room, or name another folder with --checkpoint",
        path.display(), last_good(before.as_deref())
    )]
    Unwritten {
        /// The file.
        path: PathBuf,
        /// The newest checkpoint that was written.
        before: Option<PathBuf>,
        /// The system's error.
        source: io::Error,
    },
    /// An old checkpoint could not be removed.
    #[error("could not remove the old checkpoint {}; remove it, or name another folder with --checkpoint", path.display())]
    Unremoved {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl CheckpointError {
    pub(super) fn invalid(path: &Path, problem: impl Into<String>) -> CheckpointError {
        CheckpointError::Invalid { path: path.to_owned(), problem: problem.into() }
    }
}

/// The part of a message about the last good checkpoint.
pub(crate) fn last_good(before: Option<&Path>) -> String {
    match before {
        Some(path) => format!("the last good checkpoint is {}", path.display()),
        None => "no checkpoint was written before".to_owned(),
    }
}
