//! Command lines, data and files that the programs refuse: one error that names them, exit code 1 or 2, nothing written.

use std::fs;
use std::process::Command;

use crate::common::{Place, SIDE, digits, idx_images, idx_labels, succeeds, words};

/// Command lines of `train-mnist` in a place with a run, and what the message says, parts divided by ` | `.
const TRAIN: &[(&str, &str)] = &[
    ("--batch-size 0", "'0' for '--batch-size | at least 1 image"),
    ("--batch-size 634", "--batch-size 634 cannot be used | only 633 training images"),
    ("--batch-size 4294967295", "only 633 training images"),
    ("--batch-size 4294967296", "'4294967296' for '--batch-size | at most 4294967295 images"),
    ("--batch-size many", "'many' for '--batch-size | must be whole, such as 64"),
    ("--hidden 0", "--hidden 0 cannot be used | at least 1 unit"),
    ("--hidden 300,0,10", "--hidden 300,0,10 cannot be used"),
    ("--hidden 4000000000", "--hidden 4000000000 cannot be used | choose narrower layers"),
    ("--hidden 18446744073709551615,18446744073709551615", "cannot be used | choose narrower layers"),
    ("--hidden 300,,10", "--hidden | `` is not a width"),
    ("--hidden 300,ten", "--hidden | `ten` is not a width"),
    ("--lr NaN", "--lr NaN cannot be used | finite and above 0"),
    ("--lr inf", "finite and above 0"),
    ("--lr 0", "finite and above 0"),
    ("--lr -0.1", "finite and above 0"),
    ("--momentum 1", "--momentum 1 | at least 0 and below 1, at most 0.99999994"),
    ("--momentum -0.5", "at least 0 and below 1"),
    ("--momentum NaN", "at least 0 and below 1"),
    (
        "--label-smoothing 1",
        "--label-smoothing 1 cannot be used | at least 0 and below 1, at most 0.99999994",
    ),
    ("--label-smoothing NaN", "at least 0 and below 1"),
    ("--lr-warmup 1", "--lr-warmup 1 cannot be used | at least 0 and below 1; 0.1 is the first tenth"),
    ("--lr-warmup -0.1", "at least 0 and below 1"),
    ("--lr-warmup NaN", "at least 0 and below 1"),
    ("--lr-schedule cosine", "cosine | constant | exponential | linear | sqrt | trapezoid"),
    ("--lr-decay 0", "--lr-decay 0 | above 0 and at most 1"),
    ("--lr-decay 1.5", "above 0 and at most 1"),
    ("--lr-decay NaN", "above 0 and at most 1"),
    ("--lr-schedule linear --lr-decay 0.5", "--lr-decay 0.5 | exponential, not to linear; omit it"),
    ("--lr-schedule constant --lr-decay 0.5", "--lr-decay 0.5 | exponential, not to constant"),
    ("--epochs 0", "--epochs 0 cannot be used | --load"),
    ("--epochs 0 --load w --plot p.svg", "--epochs 0 cannot be used | nothing to plot"),
    ("--epochs 0 --load w --profile", "--epochs 0 cannot be used | --profile"),
    ("--epochs 0 --load w --timeline t.svg", "leave --plot, --metrics, --timeline and --profile away"),
    ("--epochs 0 --load w --target-accuracy 98", "--target-accuracy 98 cannot be used | nothing is trained"),
    ("--epochs 4294967295", "at most 4294967294 epochs | these have had 0; train fewer"),
    ("--epochs -1", "-1 | --epochs"),
    ("--target-accuracy 0", "--target-accuracy 0 | in percent of the test images, above 0 and at most 100"),
    ("--target-accuracy 100.5", "--target-accuracy 100.5 | in percent of the test images"),
    ("--target-accuracy NaN", "--target-accuracy NaN | in percent of the test images"),
    ("--hold-out 0", "--hold-out 0 cannot be used: cannot hold 0 of 633 training images out"),
    ("--hold-out 633", "--hold-out 633 cannot be used"),
    ("--pipeline quick", "quick | naive | deferred | overlapped | fused | graph | resident"),
    ("--precision f8", "'f8' for '--precision | f32 | tf32 | bf16 | f16"),
    (
        "--precision tf32 --pipeline naive",
        "--precision tf32 cannot be used: the pipeline naive has no kernels",
    ),
    ("--precision bf16 --pipeline deferred", "the pipeline deferred has no kernels | choose f32, or with"),
    ("--precision f16 --pipeline overlapped", "--precision f16 | --pipeline one of"),
    ("--no-such-flag", "--no-such-flag"),
    ("--seeds 1..8 --seed 3", "--seeds | --seed | cannot be used with"),
    ("--seeds 1..8 --load w", "--load | cannot be used with"),
    ("--seeds 1..8 --save v", "--save | cannot be used with"),
    ("--seeds 1..8 --metrics m", "--metrics | cannot be used with"),
    ("--seeds 1..8 --plot p", "--plot | cannot be used with"),
    ("--seeds 1..8 --checkpoint d", "--checkpoint | cannot be used with"),
    ("--seeds 1..8 --resume c", "--resume | cannot be used with"),
    ("--seeds 8..1", "8 is not below 1"),
    ("--seeds 3..3", "use --seed for a single seed"),
    ("--seeds 3", "`3` is not a range of seeds; write, for example, 1..8"),
    ("--seeds a..b", "is not a range of seeds"),
    // Files.
    ("--save new/", "new/ | ends like a folder"),
    ("--plot missing/plot.svg", "--plot missing/plot.svg cannot be used | No such file"),
    ("--metrics data", "--metrics data cannot be used | it is a folder"),
    ("--save a --plot ./a", "--save writes the same file"),
    ("--load w --save w", "cannot be used: the run reads w | name another file"),
    ("--load w --plot ./w", "cannot be used: the run reads w"),
    ("--metrics data/train-labels-idx1-ubyte", "cannot be used: the run reads | name another file"),
    ("--save data/../data/t10k-images-idx3-ubyte", "cannot be used: the run reads"),
    ("--checkpoint c --save c/step-0000000001.checkpoint", "it is one of the checkpoints"),
    ("--load none", "could not read the weights in none | No such file"),
    ("--load w --hidden 17", "w are those of a 784-16-10 network, but 784-17-10 was requested"),
    ("--load w --hidden 16,16", "784-16-10 network, but 784-16-16-10 was requested"),
    (
        "--lr 1e30 --hidden 16",
        "training diverged in epoch 1 at step 2 | a learning rate below 1 | no checkpoint",
    ),
    // Folders of checkpoints.
    (
        "--checkpoint w",
        "w cannot be used as a folder of checkpoints | choose one that can be created and written",
    ),
    ("--checkpoint w/below", "w/below cannot be used as a folder of checkpoints"),
    ("--checkpoint c", "c already holds checkpoints of a run | step-0000000064.checkpoint | --resume c"),
    ("--resume w", "w cannot be used as a folder of checkpoints"),
    ("--resume missing", "missing cannot be used as a folder"),
    ("--resume data", "there is no checkpoint in data"),
    ("--resume c --load w", "--load | --resume"),
    ("--checkpoint-every 3", "--checkpoint <DIR> | --resume <DIR>"),
    ("--checkpoint-keep 3", "--checkpoint <DIR> | --resume <DIR>"),
    ("--checkpoint d --checkpoint-every 0", "--checkpoint-every 0 cannot be used"),
    ("--checkpoint d --checkpoint-keep 0", "--checkpoint-keep 0 cannot be used"),
    // Other settings than those of the run to resume.
    (
        "--resume c --hidden 17",
        "--hidden 17 cannot be used to resume from c/step-0000000064.checkpoint | has 16",
    ),
    (
        "--resume c --hidden 16,16",
        "--hidden 16,16 cannot be used to resume | omit --hidden to continue with 16",
    ),
    ("--resume c --batch-size 64", "--batch-size 64 cannot be used to resume | whose run has 20"),
    ("--resume c --lr 0.3", "--lr 0.3 cannot be used to resume | whose run has 0.1"),
    ("--resume c --lr-decay 0.5", "--lr-decay 0.5 cannot be used to resume | whose run has 0.7"),
    ("--resume c --lr-schedule linear", "--lr-schedule linear cannot be used | whose run has exponential"),
    ("--resume c --lr-warmup 0.1", "--lr-warmup 0.1 cannot be used to resume | whose run has 0"),
    ("--resume c --drop-last", "--drop-last true cannot be used to resume | whose run has false"),
    ("--resume c --momentum 0.5", "--momentum 0.5 cannot be used to resume | whose run has 0"),
    ("--resume c --label-smoothing 0.1", "--label-smoothing 0.1 cannot be used to resume | whose run has 0"),
    ("--resume c --seed 0", "--seed 0 cannot be used to resume | whose run has 7"),
    ("--resume c --pipeline naive", "--pipeline naive cannot be used to resume | whose run has fused"),
    ("--resume c --precision f16", "--precision f16 cannot be used to resume | whose run has f32"),
    ("--resume c --epochs 1", "--epochs 1 cannot be used | is in epoch 2 of its run | at least that"),
];

/// Command lines of `predict`, in the same place with some files.
const PREDICT: &[(&str, &str)] = &[
    ("--model w", "<IMAGE>"),
    ("--model w 100", "there is no test image 100 | indices go from 0 to 99 | a file of that name is ./100"),
    ("--model w ./100", "error: ./100 is something else, not a PNG file"),
    ("--model w none.png", "could not read none.png | none.png is neither a picture nor an index"),
    ("--model w blank.png", "blank.png is blank"),
    ("--model w --as-is small.png", "small.png does not have the 28 x 28 pixels that --as-is needs"),
    ("--model w photo.png", "error: photo.png is a JPEG picture, not a PNG file; convert the picture to PNG"),
    ("--model w cut.png", "error: cut.png is a damaged PNG file; copy or export the picture again: "),
];

#[track_caller]
fn refused(place: &Place, command: Command, says: &str) {
    place.refuses(command, &says.split(" | ").collect::<Vec<_>>());
}

#[test]
fn settings_are_refused() {
    let place = Place::with_run();
    for (line, says) in TRAIN {
        println!("train-mnist {line}");
        let has_save = line.contains("--save") || line.contains("--seeds");
        let save: &[&str] = if has_save { &[] } else { &["--save", "new"] };
        refused(&place, place.train(&[&words(line)[..], save].concat()), says);
    }
    refused(&place, place.train(&["--save", &"n".repeat(256)]), "nnnn");
}

/// White pixels, `side` rows and columns of them.
fn blank_png(side: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.write_header().unwrap().write_image_data(&vec![255; (side * side) as usize]).unwrap();
    bytes
}

#[test]
fn pictures_are_refused() {
    let place = Place::with_run();
    place.write("100", "a file");
    place.write("blank.png", blank_png(28));
    place.write("small.png", blank_png(27));
    place.write("photo.png", b"\xff\xd8\xff\xe0\0\x10JFIF");
    place.write("cut.png", &blank_png(28)[..40]);
    for (line, says) in PREDICT {
        println!("predict {line}");
        refused(&place, place.predict(&words(line)), says);
    }
}

/// Opening a pipe would wait for its writer. The escape in its name does not go to the terminal.
#[cfg(unix)]
#[test]
fn a_pipe_is_not_a_picture() {
    let place = Place::with_run();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a\u{1b}pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = place.predict(&["--model", "w"]);
    command.arg(&pipe);
    refused(&place, command, "it is a pipe; save the picture as a file | a\\u{1b}pipe");
}

/// On Linux, a file name is any bytes.
#[cfg(target_os = "linux")]
#[test]
fn a_picture_whose_name_is_not_text_is_read() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = Place::with_run();
    let name = std::ffi::OsStr::from_bytes(b"zwei-\xff.png");
    fs::write(place.path("").join(name), blank_png(28)).unwrap();
    let mut command = place.predict(&["--model", "w", "--as-is"]);
    command.arg(name);
    assert!(succeeds(command).contains("zwei-"));
}

/// Damage to a file of the data set.
struct Damage {
    file: &'static str,
    to: fn(Vec<u8>) -> Vec<u8>,
    says: &'static str,
}

fn gzip_cut_in_half(bytes: Vec<u8>) -> Vec<u8> {
    use std::io::Write;
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&bytes).unwrap();
    let bytes = gzip.finish().unwrap();
    bytes[..bytes.len() / 2].to_vec()
}

const IDX_DAMAGE: &[Damage] = &[
    Damage {
        file: "train-images-idx3-ubyte",
        to: |bytes| bytes[..bytes.len() - 1].to_vec(),
        says: "is truncated | ends at offset 496287, its header of 633 images of 28 x 28 pixels | fetch it again",
    },
    Damage {
        file: "t10k-labels-idx1-ubyte",
        to: |_| vec![0, 0, 8, 1, 0, 0],
        says: "t10k-labels-idx1-ubyte is truncated | ends at offset 6 | needs 8 bytes",
    },
    Damage {
        file: "t10k-images-idx3-ubyte",
        to: gzip_cut_in_half,
        says: "could not read data/t10k-images-idx3-ubyte",
    },
    Damage {
        file: "t10k-images-idx3-ubyte",
        to: |_| idx_labels(100, &[0; 100]),
        says: "does not hold IDX images | offset 0 is 0x00000801, expected 0x00000803",
    },
    Damage {
        file: "train-labels-idx1-ubyte",
        to: |_| idx_labels(632, &[0; 632]),
        says: "train-images-idx3-ubyte holds 633 images | train-labels-idx1-ubyte holds 632 labels",
    },
    Damage {
        file: "train-labels-idx1-ubyte",
        to: |bytes| [&bytes[..], &[3]].concat(),
        says: "train-labels-idx1-ubyte is too long | more follow at offset 641",
    },
    Damage {
        file: "train-images-idx3-ubyte",
        to: |_| idx_images(0, &[]),
        says: "train-images-idx3-ubyte is empty | at least one is needed",
    },
    Damage {
        file: "train-labels-idx1-ubyte",
        to: |mut bytes| {
            bytes[8 + 17] = 10;
            bytes
        },
        says: "train-labels-idx1-ubyte has the label 10 at offset 25 (item 17) | labels go from 0 to 9",
    },
];

const CSV_DAMAGE: &[Damage] = &[
    Damage {
        file: "mnist_train.csv",
        to: |bytes| {
            let text = String::from_utf8(bytes).unwrap();
            let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
            let mut fields: Vec<&str> = lines[4].split(',').collect();
            fields[16] = "2x";
            lines[4] = fields.join(",");
            lines.join("\n").into_bytes()
        },
        says: "mnist_train.csv, line 5, column 17: `2x` is not a pixel from 0 to 255",
    },
    Damage {
        file: "mnist_test.csv",
        to: |bytes| bytes[..bytes.iter().rposition(|&byte| byte == b',').unwrap()].to_vec(),
        says: "mnist_test.csv, line 101, column 785: the line ends after 784 fields",
    },
];

#[test]
fn damaged_data_are_refused() {
    for (place, damages) in [(Place::with_idx(), IDX_DAMAGE), (Place::with_csv(), CSV_DAMAGE)] {
        for Damage { file, to, says } in damages {
            let (file, whole) = (format!("data/{file}"), place.read(&format!("data/{file}")));
            place.write(&file, to(whole.clone()));
            refused(&place, place.train(&words("--save w --metrics m.jsonl --plot p.svg")), says);
            if file.ends_with(".csv") {
                // This pipeline parses a line when its batch is due.
                refused(&place, place.train(&words("--pipeline overlapped --save w")), says);
            }
            place.write(&file, whole);
        }
    }
    let place = Place::with_idx();
    fs::remove_file(place.path("data/t10k-labels-idx1-ubyte")).unwrap();
    refused(
        &place,
        place.train(&[]),
        "the data set in data is incomplete: t10k-labels-idx1-ubyte is missing",
    );
    let place = Place::empty();
    refused(&place, place.train(&[]), "no data set in data | train-images-idx3-ubyte | mnist_train.csv");
}

#[test]
fn another_data_set_is_refused() {
    let place = Place::with_run();
    let (images, mut labels) = digits(100, 2);
    labels[99] = (labels[99] + 1) % 10;
    place.write("data/t10k-labels-idx1-ubyte", idx_labels(100, &labels));
    let says = "the data set is not the one | 633 training and 100 test images | --data";
    refused(&place, place.train(&["--resume", "c"]), says);
    place.write("data/t10k-images-idx3-ubyte", idx_images(99, &images[..99 * SIDE * SIDE]));
    place.write("data/t10k-labels-idx1-ubyte", idx_labels(99, &labels[..99]));
    refused(&place, place.train(&["--resume", "c"]), "99 test images | expected 633 training and 100 test");
}

/// Replaces bytes with as many others.
fn replaced(bytes: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    [&bytes[..at], to, &bytes[at + from.len()..]].concat()
}

fn with_last_weight(mut bytes: Vec<u8>, value: f32) -> Vec<u8> {
    let last = bytes.len() - 4;
    bytes[last..].copy_from_slice(&value.to_le_bytes());
    bytes
}

#[test]
fn damaged_weights_are_refused() {
    let place = Place::with_run();
    let whole = place.read("w");
    for (bytes, says) in [
        (whole[..whole.len() - 1].to_vec(), "w is not an intact safetensors file | copy it again"),
        (b"these are no weights".to_vec(), "w is not an intact safetensors file"),
        (with_last_weight(whole.clone(), f32::NAN), "has the weight or bias NaN"),
        (with_last_weight(whole.clone(), f32::INFINITY), "has the weight or bias inf"),
        (replaced(&whole, b"[16,784]", b"[784,16]"), "tensor `0.bias` has the shape [16], expected [784]"),
    ] {
        place.write("w", bytes);
        refused(&place, place.train(&words("--load w --save new")), says);
        refused(&place, place.predict(&words("--model w 0")), says);
    }
    // Finite weights whose sums overflow.
    let mut bytes = whole;
    let header = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    for value in bytes[8 + header..].chunks_exact_mut(4) {
        value.copy_from_slice(&3.4e38f32.to_le_bytes());
    }
    place.write("w", bytes);
    let says = "the weights in w are so large that";
    refused(&place, place.train(&words("--load w --epochs 0")), &format!("{says} | NaN"));
    refused(&place, place.predict(&words("--model w 0")), &format!("{says} | a probability is NaN"));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error() {
    let place = Place::with_idx();
    let mut command = place.train(&["--save", "new"]);
    command.stdout(fs::File::create("/dev/full").unwrap());
    refused(&place, command, "could not write to the standard output: No space left on device");
}

/// A path that is not a regular file is written to and not replaced. Its write errors count, but cost no weights.
#[cfg(target_os = "linux")]
#[test]
fn outputs_may_be_devices() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::with_idx();
    let train = |more: &str| place.train(&words(&format!("--hidden 16 --epochs 2 {more}")));
    succeeds(train("--save /dev/null --plot /dev/null"));
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let output = train("--save /dev/full").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/dev/full"), "{said}");
    // Each epoch's line once, among what the program prints.
    let printed = succeeds(train("--metrics /dev/stdout"));
    assert_eq!(printed.matches("\"test_accuracy\"").count(), 2, "{printed}");

    succeeds(train("--save alone"));
    for what in ["metrics", "timeline"] {
        let output = train(&format!("--save {what} --{what} /dev/full")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let error = format!("could not write the {what} to /dev/full: No space left on device");
        assert!(said.contains(&format!("warning: {error}")), "{said}");
        assert!(said.contains(&format!("\nerror: {error}")), "{said}");
        assert!(place.read(what) == place.read("alone"), "{what}");
    }
}
