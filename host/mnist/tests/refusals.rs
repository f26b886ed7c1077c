//! Command lines, data and files that the programs refuse: one error that names them, exit code 1 or 2, nothing written.

use std::fs;
use std::process::Command;

use crate::common::{Place, SIDE, digits, idx_images, idx_labels, succeeds, words};

/// The command lines of a program in `refusals.txt`, and what the message says.
fn lines(program: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let text = include_str!("refusals.txt");
    let (_, section) = text.split_once(&format!("\n[{program}]\n")).unwrap();
    let lines = section.lines().take_while(|line| !line.is_empty()).filter(|line| !line.starts_with('#'));
    lines.map(|line| line.split_once(" => ").unwrap())
}

#[track_caller]
fn refused(place: &Place, command: Command, says: &str) {
    place.refuses(command, &says.split(" | ").collect::<Vec<_>>());
}

#[test]
fn settings_are_refused() {
    let place = Place::with_run();
    for (line, says) in lines("train-mnist") {
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
    for (line, says) in lines("predict") {
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
