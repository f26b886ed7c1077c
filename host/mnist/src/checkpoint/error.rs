//! Errors of checkpoints and weight files.

use std::io;
use std::path::{Path, PathBuf};

use safetensors::SafeTensorError;
use safetensors::tensor::Dtype;

/// Why weights could not be saved or loaded.
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
    /// The metadata under our key are invalid.
    #[error("{} has damaged metadata under the key `ferrowarp`; train again with --save", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: serde_json::Error,
    },
    /// A tensor is missing.
    #[error(
        "{} has no tensor `{name}`, only {present}; expected `0.weight`, `0.bias`, `2.weight`, `2.bias` and so \
         on, as nn.Sequential(Linear, ReLU, Linear, ...) names them",
        path.display()
    )]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The tensors in the file.
        present: String,
    },
    /// Two tensors have the same name.
    #[error("{} has the tensor `{name}` twice; write the file again", path.display())]
    DuplicateTensor {
        /// The file.
        path: PathBuf,
        /// Their name.
        name: String,
    },
    /// A tensor is not part of such a network.
    #[error("{} has a tensor `{name}`, which does not belong to a network of {layers} linear layers", path.display())]
    UnexpectedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// The number of layers that the other tensors form.
        layers: usize,
    },
    /// A tensor does not hold f32.
    #[error("{}: tensor `{name}` holds {found}, expected F32; convert it with .float()", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its actual type.
        found: Dtype,
    },
    /// A tensor's shape does not match its neighbours' shapes.
    #[error("{}: tensor `{name}` has the shape {found:?}, expected {expected}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its extents.
        found: Vec<usize>,
        /// The expected extents, in words.
        expected: String,
    },
    /// A weight or bias is infinite or NaN.
    #[error(
        "{}: layer {layer} has the weight or bias {value}, so every answer would be wrong; train again, with a \
         smaller learning rate if that training diverged",
        path.display()
    )]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The layer, counted from 1.
        layer: usize,
        /// The first such value.
        value: f32,
    },
    /// The file begins like a snapshot, but cannot be used.
    #[error("{} cannot be used", path.display())]
    Snapshot {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: Box<SnapshotError>,
    },
    /// The folder cannot be made, read or written.
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

/// Why bytes cannot be used as a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// There are no bytes.
    #[error("it is empty")]
    Empty,
    /// The first bytes are not those of a snapshot.
    #[error("it is not a checkpoint of a training run, or its first bytes are damaged")]
    NoSnapshot,
    /// The end is missing.
    #[error("it is truncated: {found} bytes of at least {expected}; copy it again")]
    Truncated {
        /// The actual number of bytes.
        found: u64,
        /// The number of bytes according to the header, or of the header.
        expected: u64,
    },
    /// There are more bytes than the header states.
    #[error("it has {found} bytes, but should end after {expected}; copy it again")]
    TooLong {
        /// The actual number of bytes.
        found: u64,
        /// The number of bytes according to the header.
        expected: u64,
    },
    /// The bytes have changed since they were written.
    #[error("its checksum is wrong, so it is damaged; copy it again")]
    Checksum,
    /// The snapshot is intact but has another version.
    #[error(
        "its format has version {found}, but this program reads only version {known}; resume with the program that \
         wrote it, or with a newer one"
    )]
    Version {
        /// The version of the file.
        found: u32,
        /// The version that this program reads.
        known: u32,
    },
    /// The description of the run is missing.
    #[error("it has no description of the run")]
    NoDescription,
    /// The description of the run is invalid.
    #[error("its description of the run cannot be read")]
    Description(#[source] serde_json::Error),
    /// The tensors are invalid.
    #[error("its tensors cannot be read")]
    Tensors(#[source] CheckpointError),
    /// Two of its numbers contradict each other.
    #[error("it contradicts itself: {what}")]
    Contradiction {
        /// Which numbers.
        what: String,
    },
}

/// The part of a message about the last good checkpoint.
pub(crate) fn last_good(before: Option<&Path>) -> String {
    match before {
        Some(path) => format!("the last good checkpoint is {}", path.display()),
        None => "no checkpoint was written before".to_owned(),
    }
}
