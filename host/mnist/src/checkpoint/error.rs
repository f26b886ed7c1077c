//! Errors of weight files and checkpoints.

use std::error::Error;
use std::fmt::Display;
use std::path::Path;

/// Why weights or a checkpoint could not be saved or loaded: what failed, the file or folder, and the fix.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
pub struct CheckpointError {
    text: String,
    kind: Kind,
    source: Option<Box<dyn Error + Send + Sync>>,
}

/// The errors that the program treats differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The checkpoint has a version that this program does not read. An older one must not replace it silently.
    Version,
    /// A checkpoint could not be written, or an old one not removed.
    Unwritten,
    /// The folder cannot be created, read or written.
    Folder,
    Other,
}

impl CheckpointError {
    pub(super) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), kind: Kind::Other, source: None }
    }

    /// The contents of the file are wrong.
    pub(super) fn invalid(path: &Path, problem: impl Display) -> Self {
        Self::new(format!("{}: {problem}", path.display()))
    }

    pub(super) fn of(self, kind: Kind) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn because(self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { source: Some(source.into()), ..self }
    }

    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    /// Whether a checkpoint could not be written, or an old one not removed. All others are unchanged.
    pub fn is_unwritten(&self) -> bool {
        self.kind == Kind::Unwritten
    }
}

/// The part of a message about the last good checkpoint.
pub(crate) fn last_good(before: Option<&Path>) -> String {
    match before {
        Some(path) => format!("the last good checkpoint is {}", path.display()),
        None => "no checkpoint was written before".to_owned(),
    }
}
