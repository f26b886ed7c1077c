//! Tests the format byte by byte, round trips, and everything that is refused.

use std::collections::HashMap;
use std::fs;

use safetensors::tensor::{Dtype, TensorView};

use super::tensors::METADATA_KEY;
use super::*;
use crate::model::LayerParameters;

fn training() -> Training {
    Training {
        sizes: vec![3, 2, 1],
        seed: 7,
        epochs: 4,
        batch_size: BatchSize::DEFAULT,
        drop_last: false,
        lr: 0.5,
        lr_decay: 0.75,
        lr_schedule: LrSchedule::Exponential,
        lr_warmup: 0.0,
        momentum: 0.0,
        label_smoothing: 0.0,
        pipeline: "fused".to_owned(),
        precision: "f32".to_owned(),
    }
}

fn parameters() -> Parameters {
    let layers = vec![
        LayerParameters {
            inputs: 3,
            outputs: 2,
            weights: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
            biases: vec![7.0, 8.0],
        },
        LayerParameters { inputs: 2, outputs: 1, weights: vec![9.0, 10.0], biases: vec![11.0] },
    ];
    Parameters { layers }
}

/// Makes a file of tensors with these names and shapes, all zeros.
fn file(dtype: Dtype, tensors: &[(&str, &[usize])]) -> Vec<u8> {
    let data = [0u8; 4096];
    let views = tensors.iter().map(|(name, shape)| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (*name, TensorView::new(dtype, shape.to_vec(), &data[..bytes]).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}

fn refusal(bytes: &[u8]) -> String {
    from_bytes(bytes, Path::new("m")).unwrap_err().to_string()
}

#[test]
fn without_a_precision_it_was_f32() {
    let old = serde_json::to_string(&training()).unwrap().replace(r#","precision":"f32""#, "");
    assert!(!old.contains("precision"), "{old}");
    assert_eq!(serde_json::from_str::<Training>(&old).unwrap(), training());
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let bytes = to_bytes(&parameters(), &training()).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    assert_eq!((8 + header_len) % 8, 0);
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    let entry = |name: &str| (header[name]["dtype"].clone(), header[name]["shape"].clone());
    assert_eq!(entry("0.weight"), ("F32".into(), [2, 3].as_slice().into()));
    assert_eq!(entry("0.bias"), ("F32".into(), [2].as_slice().into()));
    assert_eq!(entry("2.weight"), ("F32".into(), [1, 2].as_slice().into()));
    assert_eq!(entry("2.bias"), ("F32".into(), [1].as_slice().into()));
    let metadata: Training =
        serde_json::from_str(header["__metadata__"]["ferrowarp"].as_str().unwrap()).unwrap();
    assert_eq!(metadata, training());

    let data = |name: &str| -> Vec<f32> {
        let offset = |i: usize| header[name]["data_offsets"][i].as_u64().unwrap() as usize + 8 + header_len;
        let bytes = &bytes[offset(0)..offset(1)];
        bytes.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    // The first row of PyTorch's matrix holds the weights of the first output.
    assert_eq!(data("0.weight"), [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]);
    assert_eq!(data("0.bias"), [7.0, 8.0]);
    assert_eq!(data("2.weight"), [9.0, 10.0]);
    assert_eq!(data("2.bias"), [11.0]);
    assert_eq!(bytes.len(), 8 + header_len + 4 * 11);
}

#[test]
fn what_is_saved_is_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    save(&path, &parameters(), &training()).unwrap();
    let first = fs::read(&path).unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!(loaded.training, Some(training()));
    for (loaded, saved) in loaded.parameters.layers.iter().zip(&parameters().layers) {
        assert_eq!((loaded.inputs, loaded.outputs), (saved.inputs, saved.outputs));
        assert_eq!((&loaded.weights, &loaded.biases), (&saved.weights, &saved.biases));
    }
    save(&path, &loaded.parameters, &training()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), first);
}

#[test]
fn a_file_of_another_program_is_loaded() {
    let bytes =
        file(Dtype::F32, &[("2.bias", &[4]), ("0.weight", &[5, 6]), ("2.weight", &[4, 5]), ("0.bias", &[5])]);
    let loaded = from_bytes(&bytes, Path::new("m")).unwrap();
    assert_eq!(loaded.parameters.sizes(), [6, 5, 4]);
    assert_eq!(loaded.training, None);
}

#[test]
fn damage_is_refused_wherever_it_is() {
    let bytes = to_bytes(&parameters(), &training()).unwrap();
    for end in 0..bytes.len() {
        assert!(
            matches!(from_bytes(&bytes[..end], Path::new("m")), Err(CheckpointError::Corrupt { .. })),
            "{end}"
        );
    }
    let mut longer = bytes.clone();
    longer.push(0);
    assert!(matches!(from_bytes(&longer, Path::new("m")), Err(CheckpointError::Corrupt { .. })));
    assert!(refusal(b"no tensors here, but text").starts_with("m is not an intact safetensors file"));
    // A wrong byte in the header gives an error or another valid file, never a panic.
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in 0..8 + header_len {
        for flip in [0x01, 0x10, 0x80] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let _ = from_bytes(&damaged, Path::new("m"));
        }
    }
}

#[test]
fn names_types_and_shapes_are_checked() {
    assert_eq!(
        refusal(&file(Dtype::F32, &[("0.weight", &[5, 6]), ("fc.bias", &[5])])),
        "m has no tensor `0.bias`, only `0.weight`, `fc.bias`; expected `0.weight`, `0.bias`, `2.weight`, \
         `2.bias` and so on, as nn.Sequential(Linear, ReLU, Linear, ...) names them"
    );
    assert!(refusal(&file(Dtype::F32, &[])).contains("only no tensor at all"));
    assert_eq!(
        refusal(&file(Dtype::F32, &[("0.weight", &[5, 6]), ("0.bias", &[5]), ("1.bias", &[5])])),
        "m has a tensor `1.bias`, which does not belong to a network of 1 linear layers"
    );
    assert_eq!(
        refusal(&file(Dtype::F16, &[("0.weight", &[5, 6]), ("0.bias", &[5])])),
        "m: tensor `0.weight` holds F16, expected F32; convert it with .float()"
    );
    assert_eq!(
        refusal(&file(Dtype::F32, &[("0.weight", &[5, 6]), ("0.bias", &[6])])),
        "m: tensor `0.bias` has the shape [6], expected [5]"
    );
    assert_eq!(
        refusal(&file(
            Dtype::F32,
            &[("0.weight", &[5, 6]), ("0.bias", &[5]), ("2.weight", &[5, 4]), ("2.bias", &[4])]
        )),
        "m: tensor `2.weight` has the shape [5, 4], expected [outputs, 5]"
    );
    for shape in [&[5][..], &[0, 6], &[5, 0], &[5, 6, 1]] {
        let text = refusal(&file(Dtype::F32, &[("0.weight", shape), ("0.bias", &[5])]));
        assert!(text.contains("expected [outputs, inputs]"), "{text}");
    }
}

#[test]
fn metadata_that_are_not_ours_are_refused() {
    let metadata = HashMap::from([(METADATA_KEY.to_owned(), "{".to_owned())]);
    let data = [0; 8];
    let views = [
        ("0.weight", TensorView::new(Dtype::F32, vec![1, 1], &data[..4]).unwrap()),
        ("0.bias", TensorView::new(Dtype::F32, vec![1], &data[4..]).unwrap()),
    ];
    let bytes = safetensors::serialize(views, Some(metadata)).unwrap();
    assert!(refusal(&bytes).starts_with("m has damaged metadata"));
}

#[test]
fn two_tensors_of_one_name_are_refused() {
    let data = [0u8; 8];
    let entry = |name: &str, shape: &str, end: usize| {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{},{end}]}}"#, end - 4)
    };
    let file = |header: &str| {
        let header = format!("{{{header}}}");
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
    };
    let entries = [entry("0.weight", "[1,1]", 4), entry("0.bias", "[1]", 8)];
    from_bytes(&file(&entries.join(",")), Path::new("m")).unwrap();
    for twice in [entry("0.bias", "[1]", 8), entry("0\\u002ebias", "[1]", 8)] {
        let told = refusal(&file(&[entries.join(","), twice].join(",")));
        assert!(told.starts_with("m has the tensor `0.bias` twice"), "{told}");
    }
}
