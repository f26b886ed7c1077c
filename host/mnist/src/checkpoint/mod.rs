//! Weights on disk: a safetensors file that PyTorch can load directly.
//!
//! The tensors are named as in `nn.Sequential(Linear, ReLU, Linear, ReLU, Linear)`: layer `i` has `{2i}.weight`, `[outputs,
//! inputs]`, and `{2i}.bias`, `[outputs]`, all f32. In memory our weights are `[inputs, outputs]`, so saving and loading
//! transposes them. How the weights were trained is JSON in the file's metadata, under the key `ferrowarp`; a file without
//! it loads too. A [checkpoint](Snapshot) is such a file too, with the rest of the run's state.

mod error;
mod folder;
mod snapshot;
mod tensors;

use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

pub use error::CheckpointError;
pub(crate) use error::{Kind, last_good};
pub use folder::{Folder, Found, newest};
pub use snapshot::{DataId, Progress, Snapshot, VERSION};

use crate::model::{Parameters, Precision};
use crate::{BatchSize, LrSchedule};
use ferrowarp_report::output_file;
use tensors::{Reader, Tensors};

/// The longest file to read, in bytes: the largest network with its velocities, and the header.
const MAX_FILE: u64 = 3 << 30;

/// Weights and where they come from.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The weights and biases.
    pub parameters: Parameters,
    /// How they were trained; `None` for a file from another program.
    pub training: Option<Training>,
}

/// How weights were trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Widths from the input to the output.
    pub sizes: Vec<usize>,
    /// Seed of the initial weights and of the shuffling.
    pub seed: u64,
    /// Total epochs of training.
    pub epochs: u32,
    /// Images in a batch.
    pub batch_size: BatchSize,
    /// Whether the last partial batch of each epoch was dropped. Files without this field did not drop it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drop_last: bool,
    /// Initial learning rate of the schedule.
    pub lr: f32,
    /// Factor on the learning rate after each epoch; 1 if the schedule has none.
    pub lr_decay: f32,
    /// How the learning rate changed. Files without this field mean `exponential`.
    #[serde(default, skip_serializing_if = "LrSchedule::is_exponential")]
    pub lr_schedule: LrSchedule,
    /// Fraction of the run in which the learning rate rose. Files without this field mean 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lr_warmup: f32,
    /// Momentum.
    pub momentum: f32,
    /// Share of the targets that was spread evenly over all classes. Files without this field mean 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub label_smoothing: f32,
    /// The pipeline that trained them.
    pub pipeline: String,
    /// The type to which matrix multiplication operands were rounded. Older files lack this field and mean `f32`.
    #[serde(default = "f32_name")]
    pub precision: String,
}

fn is_zero(share: &f32) -> bool {
    *share == 0.0
}

fn f32_name() -> String {
    Precision::F32.name()
}

impl Training {
    /// Widths of the hidden layers, input side first.
    pub fn hidden(&self) -> &[usize] {
        self.sizes.get(1..self.sizes.len().saturating_sub(1)).unwrap_or_default()
    }
}

/// Writes the weights to `path` atomically.
///
/// # Errors
/// The file could not be written. An existing file of this name is unchanged.
pub fn save(path: &Path, parameters: &Parameters, training: &Training) -> Result<(), CheckpointError> {
    to_bytes(parameters, training).and_then(|bytes| output_file::write(path, &bytes)).map_err(|error| {
        CheckpointError::new(format!("could not write the weights to {}", path.display())).because(error)
    })
}

/// The bytes of a safetensors file with the weights. The same weights and training give the same bytes.
fn to_bytes(parameters: &Parameters, training: &Training) -> io::Result<Vec<u8>> {
    Tensors::default().with_layers("", parameters).to_bytes(serde_json::to_string(training)?)
}

/// Reads weights from `path`: a safetensors file, or the checkpoint of an unfinished run.
///
/// # Errors
/// [`CheckpointError`]: the file cannot be read, is damaged, or is not a chain of linear layers in f32, all of them
/// finite.
pub fn load(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let checkpoint = from_bytes(&read(path)?, path)?;
    for (i, layer) in checkpoint.parameters.layers.iter().enumerate() {
        if let Some(value) = layer.weights.iter().chain(&layer.biases).find(|value| !value.is_finite()) {
            let problem = format!(
                "layer {} has the weight or bias {value}, so every answer would be wrong; train again, with a smaller \
                 learning rate if that training diverged",
                i + 1
            );
            return Err(CheckpointError::invalid(path, problem));
        }
    }
    Ok(checkpoint)
}

/// Parses a safetensors file. Errors name it `path`.
///
/// # Errors
/// Same as for [`load`], except read errors.
pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Checkpoint, CheckpointError> {
    let reader = Reader::new(bytes, path)?;
    if snapshot::is_one(&reader) {
        let Snapshot { parameters, training, .. } = Snapshot::parse(bytes, path)?;
        return Ok(Checkpoint { parameters, training: Some(training) });
    }
    let training = reader.metadata().map(serde_json::from_str).transpose().map_err(|error| {
        let problem =
            format!("it has damaged metadata under the key `ferrowarp`: {error}; train again with --save");
        CheckpointError::invalid(path, problem)
    })?;
    let parameters = reader.layers("")?;
    reader.expect_only(&[("", parameters.layers.len())], None)?;
    Ok(Checkpoint { parameters, training })
}

/// Reads a regular file that fits in memory.
fn read(path: &Path) -> Result<Vec<u8>, CheckpointError> {
    let refused = |kind, what: &str| Err(io::Error::new(kind, what));
    // Opening a pipe would wait for its writer.
    let checked = fs::metadata(path).and_then(|metadata| match metadata.len() {
        _ if !metadata.is_file() => refused(io::ErrorKind::InvalidInput, "it is not a regular file"),
        len if len > MAX_FILE => refused(io::ErrorKind::FileTooLarge, "it has more than 3 GiB"),
        _ => fs::read(path),
    });
    checked.map_err(|error| {
        CheckpointError::new(format!("could not read the weights in {}", path.display())).because(error)
    })
}

#[cfg(test)]
mod tests;
