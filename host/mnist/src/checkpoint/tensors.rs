//! Converts layers to tensors in a safetensors file and back.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use sha2::{Digest, Sha256};

use super::CheckpointError;
use crate::model::{LayerParameters, Parameters};

/// The only key in the metadata: with several keys, their order in the file would differ between runs.
pub(super) const METADATA_KEY: &str = "ferrowarp";

/// The most tensor names that an error shows.
const SHOWN: usize = 20;

/// The tensors of a file.
#[derive(Default)]
pub(super) struct Tensors(Vec<(String, Vec<usize>, Vec<u8>)>);

impl Tensors {
    /// Adds a set of layers, with a prefix of their names.
    pub fn with_layers(mut self, prefix: &str, parameters: &Parameters) -> Self {
        for (i, LayerParameters { inputs, outputs, weights, biases }) in parameters.layers.iter().enumerate()
        {
            let weights = transposed(weights, *inputs, *outputs);
            self.0.push((weight_name(prefix, i), vec![*outputs, *inputs], to_le_bytes(&weights)));
            self.0.push((bias_name(prefix, i), vec![*outputs], to_le_bytes(biases)));
        }
        self
    }

    pub fn with_vector(mut self, name: &str, vector: &[f32]) -> Self {
        self.0.push((name.to_owned(), vec![vector.len()], to_le_bytes(vector)));
        self
    }

    /// The SHA-256 of all tensors and of a text, in hexadecimal.
    pub fn sha256(&self, text: &str) -> io::Result<String> {
        Ok(sha256(&self.views()?, text))
    }

    /// The bytes of the file. The same tensors and metadata give the same bytes.
    pub fn to_bytes(&self, metadata: String) -> io::Result<Vec<u8>> {
        let metadata = HashMap::from([(METADATA_KEY.to_owned(), metadata)]);
        safetensors::serialize(self.views()?, Some(metadata)).map_err(io::Error::other)
    }

    fn views(&self) -> io::Result<Vec<(String, TensorView<'_>)>> {
        let mut views = Vec::with_capacity(self.0.len());
        for (name, shape, data) in &self.0 {
            let view = TensorView::new(Dtype::F32, shape.clone(), data).map_err(io::Error::other)?;
            views.push((name.clone(), view));
        }
        Ok(views)
    }
}

fn sha256(tensors: &[(String, TensorView<'_>)], text: &str) -> String {
    let mut sorted: Vec<_> = tensors.iter().collect();
    sorted.sort_by_key(|(name, _)| name);
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(text.as_bytes());
    for (name, tensor) in sorted {
        add(format!("{name} {:?} {:?}", tensor.dtype(), tensor.shape()).as_bytes());
        add(tensor.data());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A safetensors file that is being read.
pub(super) struct Reader<'a> {
    tensors: SafeTensors<'a>,
    metadata: Option<String>,
    /// The file's name in errors.
    path: &'a Path,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8], path: &'a Path) -> Result<Self, CheckpointError> {
        let corrupt = |error| {
            let path = path.display();
            let text = format!(
                "{path} is not an intact safetensors file; train again with --save, or copy it again"
            );
            CheckpointError::new(text).because(error)
        };
        let tensors = SafeTensors::deserialize(bytes).map_err(corrupt)?;
        let (_, header) = SafeTensors::read_metadata(bytes).map_err(corrupt)?;
        let metadata = header.metadata().as_ref().and_then(|metadata| metadata.get(METADATA_KEY)).cloned();
        Ok(Self { tensors, metadata, path })
    }

    /// Our part of the metadata, if any.
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }

    /// Same as [`Tensors::sha256`].
    pub fn sha256(&self, text: &str) -> String {
        sha256(&self.tensors.tensors(), text)
    }

    /// Whether a tensor's name begins with `prefix`.
    pub fn has(&self, prefix: &str) -> bool {
        self.names().iter().any(|name| name.starts_with(prefix))
    }

    /// Reads the layers with tensor names that begin with `prefix`; at least one.
    pub fn layers(&self, prefix: &str) -> Result<Parameters, CheckpointError> {
        let mut layers: Vec<LayerParameters> = Vec::new();
        loop {
            layers.push(self.layer(prefix, layers.len(), layers.last().map(|layer| layer.outputs))?);
            let next = layers.len();
            let names = [weight_name(prefix, next), bias_name(prefix, next)];
            if !names.iter().any(|name| self.tensors.tensor(name).is_ok()) {
                return Ok(Parameters { layers });
            }
        }
    }

    /// Reads the vector of this name, if there is one.
    pub fn vector(&self, name: &str) -> Result<Option<Vec<f32>>, CheckpointError> {
        if self.tensors.tensor(name).is_err() {
            return Ok(None);
        }
        let (shape, vector) = self.tensor(name)?;
        if shape.len() == 1 { Ok(Some(vector)) } else { Err(self.wrong_shape(name, &shape, "[numbers]")) }
    }

    /// Checks that every tensor belongs to a set of layers (prefix and number of layers) or is this vector.
    pub fn expect_only(&self, sets: &[(&str, usize)], vector: Option<&str>) -> Result<(), CheckpointError> {
        let names_of =
            |&(prefix, layers)| (0..layers).flat_map(move |i| [weight_name(prefix, i), bias_name(prefix, i)]);
        let known: HashSet<String> =
            sets.iter().flat_map(names_of).chain(vector.map(str::to_owned)).collect();
        let layers = sets.first().map_or(0, |&(_, layers)| layers);
        match self.names().iter().find(|&&name| !known.contains(name)) {
            Some(name) => {
                let problem = format!(
                    "it has a tensor `{name}`, which does not belong to a network of {layers} linear layers"
                );
                Err(CheckpointError::invalid(self.path, problem))
            }
            None => Ok(()),
        }
    }

    /// Reads layer `i`, which must have the previous layer's number of outputs as inputs.
    fn layer(
        &self,
        prefix: &str,
        i: usize,
        before: Option<usize>,
    ) -> Result<LayerParameters, CheckpointError> {
        let expected =
            format!("[outputs, {}]", before.map_or("inputs".to_owned(), |inputs| inputs.to_string()));
        let name = weight_name(prefix, i);
        let (shape, weights) = self.tensor(&name)?;
        let &[outputs, inputs] = &shape[..] else { return Err(self.wrong_shape(&name, &shape, &expected)) };
        if outputs == 0 || inputs == 0 || before.is_some_and(|before| before != inputs) {
            return Err(self.wrong_shape(&name, &shape, &expected));
        }
        let name = bias_name(prefix, i);
        let (shape, biases) = self.tensor(&name)?;
        if shape != [outputs] {
            return Err(self.wrong_shape(&name, &shape, &format!("[{outputs}]")));
        }
        Ok(LayerParameters { inputs, outputs, weights: transposed(&weights, outputs, inputs), biases })
    }

    fn tensor(&self, name: &str) -> Result<(Vec<usize>, Vec<f32>), CheckpointError> {
        let Ok(tensor) = self.tensors.tensor(name) else {
            let names = self.names();
            let shown = names[..names.len().min(SHOWN)].join("`, `");
            let problem = format!(
                "it has no tensor `{name}`, but {} others (`{shown}`); expected `0.weight`, `0.bias`, `2.weight`, `2.bias` \
                 and so on, as nn.Sequential(Linear, ReLU, Linear, ...) names them",
                names.len()
            );
            return Err(CheckpointError::invalid(self.path, problem));
        };
        if tensor.dtype() != Dtype::F32 {
            let found = tensor.dtype();
            let problem = format!("tensor `{name}` holds {found}, expected F32; convert it with .float()");
            return Err(CheckpointError::invalid(self.path, problem));
        }
        let values = tensor.data().as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        Ok((tensor.shape().to_vec(), values.collect()))
    }

    fn names(&self) -> Vec<&str> {
        let mut names = self.tensors.names();
        names.sort_unstable();
        names
    }

    fn wrong_shape(&self, name: &str, found: &[usize], expected: &str) -> CheckpointError {
        let problem = format!("tensor `{name}` has the shape {found:?}, expected {expected}");
        CheckpointError::invalid(self.path, problem)
    }
}

fn weight_name(prefix: &str, layer: usize) -> String {
    format!("{prefix}{}.weight", 2 * layer)
}

fn bias_name(prefix: &str, layer: usize) -> String {
    format!("{prefix}{}.bias", 2 * layer)
}

/// Transposes a matrix from `[rows, cols]` to `[cols, rows]`, both row-major.
fn transposed(matrix: &[f32], rows: usize, cols: usize) -> Vec<f32> {
    (0..cols).flat_map(|col| (0..rows).map(move |row| matrix[row * cols + col])).collect()
}

fn to_le_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}
