//! Converts layers to tensors in a safetensors file and back.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io;
use std::path::Path;

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::CheckpointError;
use crate::model::{LayerParameters, Parameters};

/// The only key in the metadata: with several keys, their order in the file would differ between runs.
pub(super) const METADATA_KEY: &str = "ferrowarp";

/// The most tensor names that an error shows.
const SHOWN: usize = 20;

/// Makes a safetensors file of several sets of layers, each with a name prefix, and of named vectors.
pub(super) fn to_bytes(
    sets: &[(&str, &Parameters)],
    vectors: &[(&str, &[f32])],
    metadata: String,
) -> io::Result<Vec<u8>> {
    let mut tensors: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
    for (prefix, parameters) in sets {
        for (i, layer) in parameters.layers.iter().enumerate() {
            let weights = transposed(&layer.weights, layer.inputs, layer.outputs);
            tensors.push((weight_name(prefix, i), vec![layer.outputs, layer.inputs], to_le_bytes(&weights)));
            tensors.push((bias_name(prefix, i), vec![layer.outputs], to_le_bytes(&layer.biases)));
        }
    }
    let vectors =
        vectors.iter().map(|&(name, vector)| (name.to_owned(), vec![vector.len()], to_le_bytes(vector)));
    tensors.extend(vectors);
    let views: Result<Vec<_>, _> = tensors
        .iter()
        .map(|(name, shape, data)| Ok((name, TensorView::new(Dtype::F32, shape.clone(), data)?)))
        .collect();
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), metadata)]);
    views.and_then(|views| safetensors::serialize(views, Some(metadata))).map_err(io::Error::other)
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
        let corrupt = |source| CheckpointError::Corrupt { path: path.to_owned(), source };
        let tensors = SafeTensors::deserialize(bytes).map_err(corrupt)?;
        let (len, header) = SafeTensors::read_metadata(bytes).map_err(corrupt)?;
        if let Some(name) = duplicate(&bytes[8..8 + len]) {
            return Err(CheckpointError::DuplicateTensor { path: path.to_owned(), name });
        }
        let metadata = header.metadata().as_ref().and_then(|metadata| metadata.get(METADATA_KEY)).cloned();
        Ok(Self { tensors, metadata, path })
    }

    /// Our part of the metadata, if any.
    pub fn metadata(&self) -> Option<&str> {
        self.metadata.as_deref()
    }

    /// Whether a tensor's name begins with `prefix`.
    pub fn has(&self, prefix: &str) -> bool {
        self.tensors.names().iter().any(|name| name.starts_with(prefix))
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
        match shape[..] {
            [_] => Ok(Some(vector)),
            _ => Err(self.shape(name.to_owned(), shape, "[numbers]".to_owned())),
        }
    }

    /// Checks that every tensor belongs to a set of layers (prefix and number of layers) or is one of these vectors.
    pub fn expect_only(&self, sets: &[(&str, usize)], vectors: &[&str]) -> Result<(), CheckpointError> {
        let names_of =
            |&(prefix, layers)| (0..layers).flat_map(move |i| [weight_name(prefix, i), bias_name(prefix, i)]);
        let vectors = vectors.iter().map(|&name| name.to_owned());
        let known: HashSet<String> = sets.iter().flat_map(names_of).chain(vectors).collect();
        let mut names = self.tensors.names();
        names.sort_unstable();
        match names.iter().find(|&&name| !known.contains(name)) {
            Some(&name) => Err(CheckpointError::UnexpectedTensor {
                path: self.path.to_owned(),
                name: name.to_owned(),
                layers: sets.first().map_or(0, |&(_, layers)| layers),
            }),
            None => Ok(()),
        }
    }

    /// Reads layer `i`, which must have the previous layer's number of outputs as inputs.
    fn layer(
        &self,
        prefix: &str,
        i: usize,
        inputs: Option<usize>,
    ) -> Result<LayerParameters, CheckpointError> {
        let expected = match inputs {
            Some(inputs) => format!("[outputs, {inputs}]"),
            None => "[outputs, inputs]".to_owned(),
        };
        let name = weight_name(prefix, i);
        let (shape, weights) = self.tensor(&name)?;
        let (outputs, inputs) = match shape[..] {
            [outputs, found] if outputs > 0 && found > 0 && inputs.is_none_or(|inputs| inputs == found) => {
                (outputs, found)
            }
            _ => return Err(self.shape(name, shape, expected)),
        };
        let name = bias_name(prefix, i);
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
                _ if present.len() > SHOWN => {
                    format!("`{}` and {} more", present[..SHOWN].join("`, `"), present.len() - SHOWN)
                }
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

/// The first name that occurs twice in the header's JSON. The format forbids that, but its reader takes the last one.
fn duplicate(header: &[u8]) -> Option<String> {
    struct Names(Option<String>);
    struct Each;
    impl<'de> Visitor<'de> for Each {
        type Value = Names;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Names, A::Error> {
            let (mut names, mut twice) = (HashSet::new(), None);
            while let Some((name, IgnoredAny)) = map.next_entry::<String, _>()? {
                if !names.insert(name.clone()) {
                    twice.get_or_insert(name);
                }
            }
            Ok(Names(twice))
        }
    }
    impl<'de> Deserialize<'de> for Names {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Names, D::Error> {
            deserializer.deserialize_map(Each)
        }
    }
    // The reader has already parsed the header, so this does not fail.
    serde_json::from_slice::<Names>(header).ok()?.0
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
