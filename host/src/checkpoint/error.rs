//! What can be wrong with a file of weights.

use std::io;
use std::path::PathBuf;

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
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be written; what was there under its name is as it was.
    #[error("could not write the weights to {}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is no safetensors file, or a damaged one.
    #[error("{} is no intact safetensors file; train again with --save, or copy it again", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: SafeTensorError,
    },
    /// The metadata under our key are not what we write.
    #[error("{} has damaged metadata under the key `ferrowarp`; train again with --save", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// What is wrong with them.
        source: serde_json::Error,
    },
    /// A tensor is not there.
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
        /// The tensors that are there.
        present: String,
    },
    /// A tensor is not part of such a network.
    #[error("{} has a tensor `{name}`, which is no part of a network of {layers} linear layers", path.display())]
    UnexpectedTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Layers the other tensors make up.
        layers: usize,
    },
    /// A tensor does not hold f32.
    #[error("{}: tensor `{name}` holds {found}, expected F32; convert it with .float()", path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What it holds.
        found: Dtype,
    },
    /// A tensor's shape does not fit its neighbours'.
    #[error("{}: tensor `{name}` has the shape {found:?}, expected {expected}", path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its extents.
        found: Vec<usize>,
        /// The extents that would fit, in words.
        expected: String,
    },
}
