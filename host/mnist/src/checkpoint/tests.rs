//! Tests the format, round trips, everything that is refused, and the files of a folder.

use std::collections::HashMap;
use std::path::PathBuf;

use ferrowarp_report::{EpochRecord, in_one_line};
use safetensors::tensor::{Dtype, TensorView};

use super::tensors::METADATA_KEY;
use super::*;
use crate::model::LayerParameters;

fn training() -> Training {
    Training {
        sizes: vec![3, 2, 1],
        seed: u64::MAX,
        epochs: 5,
        batch_size: BatchSize::new(4).unwrap(),
        drop_last: false,
        lr: 0.1,
        lr_decay: 0.7,
        lr_schedule: LrSchedule::Exponential,
        lr_warmup: 0.0,
        momentum: 0.9,
        label_smoothing: 0.0,
        pipeline: "fused".to_owned(),
        precision: "f32".to_owned(),
    }
}

/// The parameters of a 3-2-1 network: multiples of `unit`.
fn parameters(unit: f32) -> Parameters {
    let numbers = |range: std::ops::Range<u8>| range.map(|n| f32::from(n) * unit).collect();
    let layers = vec![
        LayerParameters { inputs: 3, outputs: 2, weights: numbers(1..7), biases: numbers(7..9) },
        LayerParameters { inputs: 2, outputs: 1, weights: numbers(9..11), biases: numbers(11..12) },
    ];
    Parameters { layers }
}

/// The second epoch of a run, with numbers whose bits would not survive rounding.
fn sample() -> Snapshot {
    let record = EpochRecord {
        epoch: 5,
        train_loss: 0.1 + 0.2,
        train_accuracy: 2.0 / 3.0,
        test_loss: 1.0 / 3.0,
        test_accuracy: 0.7,
        seconds: 0.123_456_789_012_345_67,
        test_seconds: 1e-9,
        images_per_second: 1e9 / 7.0,
    };
    Snapshot {
        training: training(),
        data: DataId { train_images: 11, test_images: 3, sha256: "ab".repeat(32) },
        progress: Progress {
            epochs_before: 4,
            last_epoch: 9,
            samples: 8,
            loss_sum: 7.0 / 3.0,
            correct: 6,
            seconds: 0.1 * 3.0,
            every: Some(2),
            keep: 3,
            device: "a device".to_owned(),
        },
        records: vec![record],
        parameters: parameters(-0.37),
        velocities: Some(parameters(-1e-40)),
        ahead: Some(vec![0.1, -1e-40, 3.0]),
    }
}

fn parse(bytes: &[u8]) -> Result<Snapshot, CheckpointError> {
    Snapshot::parse(bytes, Path::new("m"))
}

#[track_caller]
fn fails<T>(result: Result<T, CheckpointError>, says: &str) {
    let error = in_one_line(&result.err().expect("it fails"));
    assert!(error.contains(says), "{error}");
}

/// Makes a file of tensors with these names and shapes, all zeros.
fn file(dtype: Dtype, tensors: &[(&str, &[usize])], metadata: Option<&str>) -> Vec<u8> {
    let data = [0u8; 4096];
    let views = tensors.iter().map(|(name, shape)| {
        let bytes = shape.iter().product::<usize>() * dtype.bitsize() / 8;
        (*name, TensorView::new(dtype, shape.to_vec(), &data[..bytes]).unwrap())
    });
    let metadata = metadata.map(|text| HashMap::from([(METADATA_KEY.to_owned(), text.to_owned())]));
    safetensors::serialize(views, metadata).unwrap()
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let bytes = to_bytes(&parameters(1.0), &training()).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    assert_eq!((8 + header_len) % 8, 0);
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..8 + header_len]).unwrap();
    // The first row of PyTorch's matrix holds the weights of the first output.
    for (name, shape, numbers) in [
        ("0.weight", &[2, 3][..], &[1.0, 3.0, 5.0, 2.0, 4.0, 6.0][..]),
        ("0.bias", &[2], &[7.0, 8.0]),
        ("2.weight", &[1, 2], &[9.0, 10.0]),
        ("2.bias", &[1], &[11.0]),
    ] {
        let entry = &header[name];
        assert_eq!((&entry["dtype"], &entry["shape"]), (&"F32".into(), &shape.into()), "{name}");
        let [start, end] =
            [0, 1].map(|i| entry["data_offsets"][i].as_u64().unwrap() as usize + 8 + header_len);
        let found = bytes[start..end].as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes));
        assert_eq!(found.collect::<Vec<f32>>(), numbers, "{name}");
    }
    let metadata = header["__metadata__"]["ferrowarp"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Training>(metadata).unwrap(), training());
    let old = metadata.replace(r#","precision":"f32""#, "");
    assert_ne!(old, metadata);
    assert_eq!(serde_json::from_str::<Training>(&old).unwrap(), training());
    assert_eq!(bytes.len(), 8 + header_len + 4 * 11);
}

#[test]
fn what_is_written_is_read_bit_for_bit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.safetensors");
    save(&path, &parameters(0.1), &training()).unwrap();
    let loaded = load(&path).unwrap();
    assert_eq!((&loaded.parameters, loaded.training), (&parameters(0.1), Some(training())));

    let mut plain = sample();
    plain.training.momentum = 0.0;
    (plain.velocities, plain.ahead) = (None, None);
    for snapshot in [sample(), plain] {
        let bytes = snapshot.to_bytes().unwrap();
        let read = parse(&bytes).unwrap();
        assert_eq!(read, snapshot);
        // Equal numbers have equal bits, except zeros; comparing the bytes covers everything.
        assert_eq!(read.to_bytes().unwrap(), bytes);
        assert_eq!((read.epoch(), read.steps_in_epoch(), read.steps()), (6, 2, 5));
        assert_eq!(from_bytes(&bytes, Path::new("m")).unwrap().parameters, snapshot.parameters);
    }
}

#[test]
fn a_file_of_another_program_is_loaded() {
    let tensors: [(&str, &[usize]); 4] =
        [("2.bias", &[4]), ("0.weight", &[5, 6]), ("2.weight", &[4, 5]), ("0.bias", &[5])];
    let loaded = from_bytes(&file(Dtype::F32, &tensors, None), Path::new("m")).unwrap();
    assert_eq!((loaded.parameters.sizes(), loaded.training), (vec![6, 5, 4], None));
}

/// Changes bits of every byte. In the header, such as in its spaces, a change may leave all numbers as they were.
#[test]
fn damage_is_detected_wherever_it_is() {
    let snapshot = sample();
    let mut bytes = snapshot.to_bytes().unwrap();
    for at in 0..bytes.len() {
        for flip in [1, 2, 4, 8, 16, 32, 64, 128, 255] {
            bytes[at] ^= flip;
            assert!(parse(&bytes).map_or(true, |read| read == snapshot), "byte {at} with {flip:#04x}");
            let _ = from_bytes(&bytes, Path::new("m"));
            bytes[at] ^= flip;
        }
        assert!(parse(&bytes[..at]).is_err(), "cut after {at} bytes");
    }
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for at in 8 + header_len..bytes.len() {
        bytes[at] ^= 1;
        assert!(parse(&bytes).unwrap_err().to_string().contains("its checksum is wrong"), "byte {at}");
        bytes[at] ^= 1;
    }
    bytes.push(0);
    fails(parse(&bytes), "m is not an intact safetensors file");
}

#[test]
fn names_types_and_shapes_are_checked() {
    let layer: [(&str, &[usize]); 2] = [("0.weight", &[5, 6]), ("0.bias", &[5])];
    let second: [(&str, &[usize]); 2] = [("2.weight", &[5, 4]), ("2.bias", &[4])];
    let training = serde_json::to_string(&training()).unwrap();
    for (bytes, says) in [
        (
            file(Dtype::F32, &[layer[0], ("fc.bias", &[5])], None),
            "it has no tensor `0.bias`, but 2 others (`0.weight`, `fc.bias`)",
        ),
        (file(Dtype::F32, &[], None), "it has no tensor `0.weight`, but 0 others"),
        (
            file(Dtype::F32, &[layer[0], layer[1], ("1.bias", &[5])], None),
            "it has a tensor `1.bias`, which does not belong to a network of 1 linear layers",
        ),
        (
            file(Dtype::F16, &layer, None),
            "tensor `0.weight` holds F16, expected F32; convert it with .float()",
        ),
        (
            file(Dtype::F32, &[layer[0], ("0.bias", &[6])], None),
            "tensor `0.bias` has the shape [6], expected [5]",
        ),
        (
            file(Dtype::F32, &[layer, second].concat(), None),
            "tensor `2.weight` has the shape [5, 4], expected [outputs, 5]",
        ),
        (file(Dtype::F32, &[("0.weight", &[0, 6]), layer[1]], None), "expected [outputs, inputs]"),
        (file(Dtype::F32, &[("0.weight", &[5, 6, 1]), layer[1]], None), "expected [outputs, inputs]"),
        (file(Dtype::F32, &layer, Some("{")), "it has damaged metadata under the key `ferrowarp`"),
        (b"no tensors here, but text".to_vec(), "m is not an intact safetensors file"),
    ] {
        let error = from_bytes(&bytes, Path::new("m")).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
    // Weights are not a checkpoint.
    let error = parse(&file(Dtype::F32, &layer, Some(&training))).unwrap_err().to_string();
    assert_eq!(error, "m: it is not a checkpoint of a training run");
    let sealed = r#"{"checkpoint_version":7,"sha256":"","description":""}"#;
    let error = parse(&file(Dtype::F32, &layer, Some(sealed))).unwrap_err().to_string();
    assert!(error.contains("its format has version 7, but this program reads only version 2"), "{error}");
}

#[test]
fn contradictions_are_refused() {
    type Change = fn(&mut Snapshot);
    let cases: [(&str, Change); 14] = [
        ("network of [3, 1]", |it| it.training.sizes = vec![3, 1]),
        ("momentum 0 with stored velocities", |it| it.training.momentum = 0.0),
        ("momentum 0.9 with no velocities", |it| it.velocities = None),
        ("velocities of [3, 2]", |it| drop(it.velocities.as_mut().unwrap().layers.pop())),
        ("batches of 12 from 11", |it| it.training.batch_size = BatchSize::new(12).unwrap()),
        ("from 4294967296 images", |it| it.data.train_images = 1 << 32),
        ("6 of 7 samples", |it| it.progress.samples = 7),
        ("6 of 12 samples", |it| it.progress.samples = 12),
        ("9 of 8 samples", |it| it.progress.correct = 9),
        ("a step ahead, and no step", |it| (it.progress.samples, it.progress.correct) = (0, 0)),
        ("every 0 steps", |it| it.progress.every = Some(0)),
        ("5 epochs, 4 of them before the run, with 0", |it| it.records.clear()),
        ("5 epochs, 6 of them", |it| it.progress.epochs_before = 6),
        ("4294967295 epochs", |it| it.training.epochs = u32::MAX),
    ];
    for (what, change) in cases {
        let mut snapshot = sample();
        change(&mut snapshot);
        let error = parse(&snapshot.to_bytes().unwrap()).unwrap_err().to_string();
        assert!(error.contains("it contradicts itself") && error.contains(what), "{what}: {error}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn files_that_do_not_fit_in_memory_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge");
    fs::File::create(&huge).unwrap().set_len(1 << 40).unwrap();
    for path in [Path::new("/dev/zero"), Path::new("/"), &huge] {
        fails(load(path), "could not read the weights in");
    }
}

/// The state after `steps` steps of a run with 3 steps per epoch.
fn after(steps: u64) -> Snapshot {
    let mut snapshot = sample();
    let record = snapshot.records[0].clone();
    let epochs = (steps / 3) as u32;
    snapshot.records = (1..=epochs).map(|epoch| EpochRecord { epoch: 4 + epoch, ..record.clone() }).collect();
    snapshot.training.epochs = 4 + epochs;
    snapshot.progress.samples = 4 * (steps % 3) as usize;
    snapshot.progress.correct = 0;
    snapshot.ahead = snapshot.ahead.filter(|_| !steps.is_multiple_of(3));
    assert_eq!(snapshot.steps(), steps);
    snapshot
}

fn name(steps: u64) -> String {
    format!("step-{steps:010}.checkpoint")
}

/// A folder with checkpoints after these steps.
fn folder_of(steps: impl IntoIterator<Item = u64>) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(dir.path(), 9, None).unwrap();
    steps.into_iter().for_each(|steps| folder.write(&after(steps)).unwrap());
    dir
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn the_last_ones_are_kept_and_the_newest_is_found() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    Folder::check(&dir, None).unwrap();
    assert!(!dir.exists(), "a check creates nothing");
    let mut folder = Folder::open(&dir, 2, None).unwrap();
    assert_eq!(folder.newest(), None);
    for steps in [1, 2, 5, 6] {
        folder.write(&after(steps)).unwrap();
        assert_eq!(newest(&dir).unwrap().snapshot, after(steps));
    }
    assert_eq!(names(&dir), [5, 6].map(name));
    assert_eq!(folder.newest(), Some(&*dir.join(name(6))));
    // One run at a time.
    #[cfg(unix)]
    fails(Folder::open(&dir, 2, None), "is in use by another run");
    drop(folder);
    // A run that was killed before the removal makes up for it.
    Folder::open(&dir, 1, Some(&newest(&dir).unwrap())).unwrap();
    assert_eq!(names(&dir), [name(6)]);
}

#[test]
fn a_damaged_newer_one_is_reported_and_not_counted() {
    let dir = folder_of([1, 2, 3]);
    let dir = dir.path();
    let damaged = dir.join(name(3));
    fs::write(&damaged, &fs::read(&damaged).unwrap()[..60]).unwrap();
    fs::write(dir.join(name(4)), b"").unwrap();
    fs::copy(dir.join(name(1)), dir.join(name(9))).unwrap();

    let found = newest(dir).unwrap();
    assert_eq!((&found.snapshot, &found.path), (&after(2), &dir.join(name(2))));
    let says = [
        "but it holds step 1; rename it to step-0000000001",
        "0004.checkpoint is not an intact",
        "0003.checkpoint is not",
    ];
    assert_eq!(found.skipped.len(), says.len());
    for (skipped, says) in found.skipped.iter().zip(says) {
        assert!(skipped.contains(says), "{skipped}");
    }
    // The run resumes from step 2: its third step replaces the damaged file, and the other damaged ones do not cause intact
    // files to be removed.
    let mut folder = Folder::open(dir, 2, Some(&found)).unwrap();
    folder.write(&after(3)).unwrap();
    assert_eq!(names(dir), [2, 3, 4, 9].map(name));
    folder.write(&after(4)).unwrap();
    folder.write(&after(5)).unwrap();
    assert_eq!(names(dir), [4, 5, 9].map(name));

    // A newer version is an error and not skipped.
    let sealed = r#"{"checkpoint_version":7,"sha256":"","description":""}"#;
    fs::write(dir.join(name(10)), file(Dtype::F32, &[], Some(sealed))).unwrap();
    let error = newest(dir).unwrap_err().to_string();
    assert!(error.contains("step-0000000010.checkpoint: its format has version 7"), "{error}");
}

#[test]
fn folders_without_an_intact_checkpoint_are_refused() {
    let dir = folder_of([]);
    let file: PathBuf = dir.path().join(name(2));
    fails(newest(dir.path()), "there is no checkpoint in");
    fs::write(&file, b"").unwrap();
    fails(newest(dir.path()), "none of the 1 checkpoints in");
    fails(newest(dir.path()), "step-0000000002.checkpoint is not an intact");
    for folder in [&file, &file.join("below")] {
        fails(Folder::check(folder, None), "cannot be used as a folder of checkpoints");
        fails(newest(folder), "cannot be used as a folder of checkpoints");
    }
}

#[test]
fn a_new_run_does_not_mix_with_an_old_one() {
    let (dir, other) = (folder_of([1]), folder_of([2]));
    let occupied = "already holds checkpoints of a run";
    fails(Folder::check(dir.path(), None), occupied);
    fails(Folder::open(dir.path(), 2, None), occupied);
    let found = newest(dir.path()).unwrap();
    Folder::check(&dir.path().join("."), Some(&found)).unwrap();
    fails(Folder::check(other.path(), Some(&found)), occupied);
}

#[test]
fn what_a_killed_run_left_is_removed_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let others =
        [".checkpoint-backup", ".hidden", "notes", "step-0000000001.checkpoint.bak", "step-1.checkpoint"];
    for name in others.into_iter().chain([".checkpoint-incomplete-abcDEF123456"]) {
        fs::write(dir.path().join(name), b"x").unwrap();
    }
    let mut folder = Folder::open(dir.path(), 1, None).unwrap();
    folder.write(&after(1)).unwrap();
    folder.write(&after(2)).unwrap();
    let mut expected = [&others.map(str::to_owned)[..], &[name(2)]].concat();
    expected.sort();
    assert_eq!(names(dir.path()), expected);
}
