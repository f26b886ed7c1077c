//! Weights on disk: a safetensors file that PyTorch loads as it is.
//!
//! The tensors are those of `nn.Sequential(Linear, ReLU, Linear, ReLU, Linear)`: layer `i` has `{2i}.weight`,
//! `[outputs, inputs]`, and `{2i}.bias`, `[outputs]`, all f32. In memory our weights are `[inputs, outputs]`, so
//! they are transposed on the way. How the weights came about is kept as JSON in the file's metadata, under
//! the key `ferrowarp`; a file without it loads as well.

mod error;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use serde::{Deserialize, Serialize};

pub use error::CheckpointError;

use crate::atomic_file;
use crate::model::{LayerParameters, Parameters};

/// The one key in the metadata: with several, their order in the file would differ from run to run.
const METADATA_KEY: &str = "ferrowarp";

/// Weights and where they come from.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// The weights and biases.
    pub parameters: Parameters,
    /// How they were trained; nothing for a file that some other program wrote.
    pub training: Option<Training>,
}

/// How weights were trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// Widths from the input to the output.
    pub sizes: Vec<usize>,
    /// Seed of the first weights and of the shuffling.
    pub seed: u64,
    /// Epochs the weights have had, in all.
    pub epochs: u32,
    /// Samples in a batch.
    pub batch_size: usize,
    /// Learning rate in the first epoch.
    pub lr: f32,
    /// Factor on the learning rate after each epoch.
    pub lr_decay: f32,
    /// Momentum.
    pub momentum: f32,
    /// The kernels that trained them.
    pub pipeline: String,
}

/// Writes the weights to `path`, whole or not at all.
///
/// # Errors
/// [`CheckpointError::Write`].
pub fn save(path: &Path, parameters: &Parameters, training: &Training) -> Result<(), CheckpointError> {
    to_bytes(parameters, training)
        .and_then(|bytes| atomic_file::write(path, &bytes))
        .map_err(|source| CheckpointError::Write { path: path.to_owned(), source })
}

/// The safetensors file of the weights. The same weights and training give the same bytes.
fn to_bytes(parameters: &Parameters, training: &Training) -> io::Result<Vec<u8>> {
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (i, layer) in parameters.layers.iter().enumerate() {
        let weights = transposed(&layer.weights, layer.inputs, layer.outputs);
        tensors.push((weight_name(i), vec![layer.outputs, layer.inputs], to_le_bytes(&weights)));
        tensors.push((bias_name(i), vec![layer.outputs], to_le_bytes(&layer.biases)));
    }
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), data)?)))
        .collect();
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), serde_json::to_string(training)?)]);
    let serialized = views.and_then(|views| safetensors::serialize(views, Some(metadata)));
    serialized.map_err(|error: SafeTensorError| io::Error::other(error))
}

/// Reads weights from `path`.
///
/// # Errors
/// [`CheckpointError`]: the file cannot be read, is damaged, or is not a chain of linear layers in f32.
pub fn load(path: &Path) -> Result<Checkpoint, CheckpointError> {
    let bytes = fs::read(path).map_err(|source| CheckpointError::Read { path: path.to_owned(), source })?;
    from_bytes(&bytes, path)
}

/// Parses a safetensors file; `path` is what errors call it.
fn from_bytes(bytes: &[u8], path: &Path) -> Result<Checkpoint, CheckpointError> {
    let corrupt = |source| CheckpointError::Corrupt { path: path.to_owned(), source };
    let tensors = SafeTensors::deserialize(bytes).map_err(corrupt)?;
    let (_, header) = SafeTensors::read_metadata(bytes).map_err(corrupt)?;
    let training = header.metadata().as_ref().and_then(|metadata| metadata.get(METADATA_KEY));
    let training = training
        .map(|json| serde_json::from_str(json))
        .transpose()
        .map_err(|source| CheckpointError::Metadata { path: path.to_owned(), source })?;

    let reader = Reader { tensors, path };
    let layers = reader.layers()?;
    Ok(Checkpoint { parameters: Parameters { layers }, training })
}

struct Reader<'a> {
    tensors: SafeTensors<'a>,
    path: &'a Path,
}

impl Reader<'_> {
    fn layers(&self) -> Result<Vec<LayerParameters>, CheckpointError> {
        let mut layers: Vec<LayerParameters> = Vec::new();
        loop {
            layers.push(self.layer(layers.len(), layers.last().map(|layer| layer.outputs))?);
            let next = layers.len();
            let names = self.tensors.names();
            if !names.iter().any(|&name| name == weight_name(next) || name == bias_name(next)) {
                break;
            }
        }
        let known: Vec<String> = (0..layers.len()).flat_map(|i| [weight_name(i), bias_name(i)]).collect();
        let mut names = self.tensors.names();
        names.sort_unstable();
        match names.iter().find(|&&name| !known.iter().any(|known| known == name)) {
            Some(&name) => Err(CheckpointError::UnexpectedTensor {
                path: self.path.to_owned(),
                name: name.to_owned(),
                layers: layers.len(),
            }),
            None => Ok(layers),
        }
    }

    /// Layer `i`, which must take as many inputs as the layer before it has outputs.
    fn layer(&self, i: usize, inputs: Option<usize>) -> Result<LayerParameters, CheckpointError> {
        let expected = match inputs {
            Some(inputs) => format!("[outputs, {inputs}]"),
            None => "[outputs, inputs]".to_owned(),
        };
        let name = weight_name(i);
        let (shape, weights) = self.tensor(&name)?;
        let (outputs, inputs) = match shape[..] {
            [outputs, found] if outputs > 0 && found > 0 && inputs.is_none_or(|inputs| inputs == found) => {
                (outputs, found)
            }
            _ => return Err(self.shape(name, shape, expected)),
        };
        let name = bias_name(i);
        let (shape, biases) = self.tensor(&name)?;
        if shape != [outputs] {
            return Err(self.shape(name, shape, format!("[{outputs}]")));
        }
        Ok(LayerParameters { inputs, outputs, weights: transposed(&weights, outputs, inputs), biases })
    }

    fn tensor(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), CheckpointError> {
        let tensor = self.tensors.tensor(name).map_err(|_| {
            let mut present = self.tensors.names();
            present.sort_unstable();
            let present = match present[..] {
                [] => "no tensor at all".to_owned(),
                _ => format!("`{}`", present.join("`, `")),
            };
            CheckpointError::MissingTensor { path: self.path.to_owned(), name: name.to_owned(), present }
        })?;
        if tensor.dtype() != Dtype::F32 {
            return Err(CheckpointError::Dtype {
                path: self.path.to_owned(),
                name: name.to_owned(),
                found: tensor.dtype(),
            });
        }
        let values = tensor.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        Ok((tensor.shape().to_vec(), values.collect()))
    }

    fn shape(&self, name: String, found: Vec<usize>, expected: String) -> CheckpointError {
        CheckpointError::Shape { path: self.path.to_owned(), name, found, expected }
    }
}

fn weight_name(layer: usize) -> String {
    format!("{}.weight", 2 * layer)
}

fn bias_name(layer: usize) -> String {
    format!("{}.bias", 2 * layer)
}

/// The matrix `[rows, cols]` as `[cols, rows]`, both row-major.
fn transposed(matrix: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|col| (0..rows).map(move |row| matrix[row * cols + col])).collect()
}

fn to_le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

#[cfg(test)]
mod tests;
