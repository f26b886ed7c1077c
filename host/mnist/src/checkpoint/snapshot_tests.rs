//! Tests round trips, every kind of damage, and every contradiction.

use super::*;
use crate::checkpoint::CheckpointError;
use crate::model::LayerParameters;
use crate::{BatchSize, LrSchedule};

/// A small snapshot: a 2-3-1 network in the second epoch of its run.
pub(in crate::checkpoint) fn sample() -> Snapshot {
    let layers = |first: f32| {
        let mut next = first;
        let mut draw = |len: usize| {
            let mut values = Vec::new();
            values.resize_with(len, || {
                next *= -1.37;
                next
            });
            values
        };
        let layers = [(2, 3), (3, 1)].map(|(inputs, outputs)| LayerParameters {
            inputs,
            outputs,
            weights: draw(inputs * outputs),
            biases: draw(outputs),
        });
        Parameters { layers: layers.to_vec() }
    };
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
        training: Training {
            sizes: vec![2, 3, 1],
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
        },
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
        parameters: layers(0.3),
        velocities: Some(layers(-1e-40)),
        ahead: Some(vec![0.1, -1e-40, 3.0]),
    }
}

#[test]
fn what_is_written_is_read_bit_for_bit() {
    let snapshot = sample();
    let bytes = snapshot.to_bytes().unwrap();
    let read = parse(&bytes).unwrap();
    assert_eq!(read, snapshot);
    // Equal numbers have equal bits, except zeros; comparing the bytes covers everything.
    assert_eq!(read.to_bytes().unwrap(), bytes);
    assert_eq!((read.epoch(), read.steps_in_epoch(), read.steps()), (6, 2, 5));

    let mut plain = sample();
    plain.training.momentum = 0.0;
    (plain.velocities, plain.ahead) = (None, None);
    assert_eq!(parse(&plain.to_bytes().unwrap()).unwrap(), plain);
}

/// Tries every other value of every byte.
#[test]
fn any_changed_byte_is_detected() {
    let mut bytes = sample().to_bytes().unwrap();
    for at in 0..bytes.len() {
        let original = bytes[at];
        for flip in 1..=u8::MAX {
            bytes[at] = original ^ flip;
            let error = parse(&bytes).expect_err("a changed byte is not noticed");
            let is_damage = matches!(
                error,
                SnapshotError::NoSnapshot
                    | SnapshotError::Truncated { .. }
                    | SnapshotError::TooLong { .. }
                    | SnapshotError::Checksum
            );
            assert!(is_damage, "byte {at} with {flip:#04x}: {error}");
        }
        bytes[at] = original;
    }
    parse(&bytes).unwrap();
}

#[test]
fn any_other_length_is_detected() {
    let bytes = sample().to_bytes().unwrap();
    assert!(matches!(parse(&[]), Err(SnapshotError::Empty)));
    for end in 1..bytes.len() {
        match parse(&bytes[..end]) {
            Err(SnapshotError::Truncated { found, expected }) => {
                assert!(found == end as u64 && expected > found && expected <= bytes.len() as u64);
            }
            other => panic!("cut after {end} bytes: {other:?}"),
        }
    }
    for garbage in [&b"\0"[..], b"garbage", &bytes] {
        let longer = [&bytes[..], garbage].concat();
        assert!(matches!(parse(&longer), Err(SnapshotError::TooLong { .. })));
    }
    // A length larger than any memory.
    let mut huge = bytes.clone();
    huge[12..20].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(parse(&huge), Err(SnapshotError::Truncated { expected: u64::MAX, .. })));
}

#[test]
fn other_bytes_are_no_snapshot() {
    for bytes in [&b"x"[..], b"{}", b"\x89PNG\r\n\x1a\n and so on", &[0; 100]] {
        assert!(matches!(parse(bytes), Err(SnapshotError::NoSnapshot)), "{bytes:?}");
    }
}

#[test]
fn another_version_is_told_from_damage() {
    let bytes = sample().to_bytes().unwrap();
    let payload = file_format::open(&bytes).unwrap();
    let text = parse(&file_format::seal_as(2, payload)).unwrap_err().to_string();
    assert_eq!(
        text,
        "its format has version 2, but this program reads only version 1; resume with the program that wrote it, or \
         with a newer one"
    );
    assert!(matches!(
        parse(&file_format::seal_as(0, b"")),
        Err(SnapshotError::Version { found: 0, known: file_format::VERSION })
    ));
}

#[test]
fn payloads_that_are_not_ours_are_refused() {
    let sealed = |sets: &[(&str, &Parameters)], description: &str| {
        parse(&file_format::seal(&tensors::to_bytes(sets, &[], description.to_owned()).unwrap())).unwrap_err()
    };
    let parameters = sample().parameters;
    assert!(matches!(sealed(&[("", &parameters)], "{"), SnapshotError::Description(_)));
    assert!(matches!(sealed(&[("", &parameters)], "{\"training\":{}}"), SnapshotError::Description(_)));
    assert!(matches!(
        parse(&file_format::seal(b"no tensors")),
        Err(SnapshotError::Tensors(CheckpointError::Corrupt { .. }))
    ));
    let untold = safetensors::serialize(Vec::<(String, safetensors::tensor::TensorView<'_>)>::new(), None);
    assert!(matches!(parse(&file_format::seal(&untold.unwrap())), Err(SnapshotError::NoDescription)));

    let bytes = sample().to_bytes().unwrap();
    let reader = Reader::new(file_format::open(&bytes).unwrap(), Path::new("m")).unwrap();
    let description = reader.metadata().unwrap();
    let error = sealed(&[("", &parameters), ("momentum.", &parameters)], description);
    assert!(matches!(error, SnapshotError::Tensors(CheckpointError::UnexpectedTensor { .. })), "{error:?}");
}

#[test]
fn contradictions_are_refused() {
    let refused = |what: &str, change: &dyn Fn(&mut Snapshot)| {
        let mut snapshot = sample();
        change(&mut snapshot);
        match parse(&snapshot.to_bytes().unwrap()) {
            Err(SnapshotError::Contradiction { what: said }) => assert!(said.contains(what), "{said}"),
            other => panic!("{what}: {other:?}"),
        }
    };
    refused("network of [2, 1]", &|it| it.training.sizes = vec![2, 1]);
    refused("momentum 0 with stored velocities", &|it| it.training.momentum = 0.0);
    refused("momentum 0.9 with no velocities", &|it| it.velocities = None);
    refused("velocities of [2, 3]", &|it| drop(it.velocities.as_mut().unwrap().layers.pop()));
    refused("batches of 12 from 11", &|it| it.training.batch_size = BatchSize::new(12).unwrap());
    refused("from 4294967296 images", &|it| it.data.train_images = 1 << 32);
    refused("6 of 7 samples", &|it| it.progress.samples = 7);
    refused("6 of 12 samples", &|it| it.progress.samples = 12);
    refused("9 of 8 samples", &|it| it.progress.correct = 9);
    refused("a step ahead, and no step", &|it| (it.progress.samples, it.progress.correct) = (0, 0));
    refused("every 0 steps", &|it| it.progress.every = Some(0));
    refused("5 epochs, 4 of them before the run, with 0", &|it| it.records.clear());
    refused("5 epochs, 6 of them", &|it| it.progress.epochs_before = 6);
    refused("4294967295 epochs", &|it| it.training.epochs = u32::MAX);
}

#[test]
fn batches_of_0_are_refused() {
    let (with, without) = (br#"batch_size\":4"#, br#"batch_size\":0"#);
    let mut payload = file_format::open(&sample().to_bytes().unwrap()).unwrap().to_vec();
    let at = payload.windows(with.len()).position(|bytes| bytes == with).unwrap();
    payload[at..at + with.len()].copy_from_slice(without);
    match parse(&file_format::seal(&payload)) {
        Err(SnapshotError::Description(error)) => assert!(error.to_string().contains("at least 1 image")),
        other => panic!("{other:?}"),
    }
}
