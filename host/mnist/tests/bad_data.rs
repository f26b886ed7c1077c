//! `train-mnist` on data that are wrong: an error that names the place, exit code 1, nothing written.

use std::fs;

use crate::common::{Place, digits, idx_images, idx_labels};

/// Trains with every output asked for, and expects a refusal that leaves none of them.
#[track_caller]
fn refused(place: &Place, needles: &[&str]) {
    let flags = ["--save", "w.safetensors", "--metrics", "m.jsonl", "--plot", "p.svg"];
    place.refuses(place.train(&flags), needles);
}

#[test]
fn truncated_images() {
    let place = Place::with_idx();
    let bytes = place.read("data/train-images-idx3-ubyte");
    place.write("data/train-images-idx3-ubyte", &bytes[..bytes.len() - 1]);
    let promised = format!("ends at offset {}, its header of 633 images of 28 x 28 pixels", bytes.len() - 1);
    refused(&place, &["train-images-idx3-ubyte is truncated", &promised, "fetch it again"]);
}

#[test]
fn truncated_header() {
    let place = Place::with_idx();
    place.write("data/t10k-labels-idx1-ubyte", [0, 0, 8, 1, 0, 0]);
    refused(&place, &["t10k-labels-idx1-ubyte is truncated", "ends at offset 6", "needs 8 bytes"]);
}

#[test]
fn truncated_gzip() {
    use std::io::Write;
    let place = Place::with_idx();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&place.read("data/t10k-images-idx3-ubyte")).unwrap();
    let bytes = gzip.finish().unwrap();
    place.write("data/t10k-images-idx3-ubyte", &bytes[..bytes.len() / 2]);
    refused(&place, &["could not read data/t10k-images-idx3-ubyte"]);
}

#[test]
fn wrong_magic() {
    let place = Place::with_idx();
    let labels = place.read("data/t10k-labels-idx1-ubyte");
    place.write("data/t10k-images-idx3-ubyte", labels);
    refused(
        &place,
        &["t10k-images-idx3-ubyte does not hold IDX images", "offset 0 is 0x00000801, expected 0x00000803"],
    );
}

#[test]
fn counts_that_disagree() {
    let place = Place::with_idx();
    let (_, labels) = digits(632, 1);
    place.write("data/train-labels-idx1-ubyte", idx_labels(632, &labels));
    refused(
        &place,
        &["train-images-idx3-ubyte holds 633 images", "train-labels-idx1-ubyte holds 632 labels"],
    );
}

#[test]
fn bytes_after_the_end() {
    let place = Place::with_idx();
    let mut bytes = place.read("data/train-labels-idx1-ubyte");
    bytes.push(3);
    place.write("data/train-labels-idx1-ubyte", bytes);
    refused(&place, &["train-labels-idx1-ubyte is too long", "more follow at offset 641"]);
}

#[test]
fn no_images() {
    let place = Place::with_idx();
    place.write("data/train-images-idx3-ubyte", idx_images(0, &[]));
    refused(&place, &["train-images-idx3-ubyte is empty", "at least one is needed"]);
}

#[test]
fn label_over_nine() {
    let place = Place::with_idx();
    let (_, mut labels) = digits(633, 1);
    labels[17] = 10;
    place.write("data/train-labels-idx1-ubyte", idx_labels(633, &labels));
    refused(
        &place,
        &["train-labels-idx1-ubyte has the label 10 at offset 25 (item 17)", "labels go from 0 to 9"],
    );
}

#[test]
fn csv_with_a_bad_field() {
    let place = Place::with_csv();
    let text = String::from_utf8(place.read("data/mnist_train.csv")).unwrap();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let mut fields: Vec<&str> = lines[4].split(',').collect();
    fields[16] = "2x";
    lines[4] = fields.join(",");
    place.write("data/mnist_train.csv", lines.join("\n"));
    let needle = "mnist_train.csv, line 5, column 17: `2x` is not a pixel from 0 to 255";
    refused(&place, &[needle]);
    // By this one the line is parsed when its batch is due.
    place.refuses(place.train(&["--pipeline", "overlapped", "--save", "w.safetensors"]), &[needle]);
}

#[test]
fn csv_with_a_short_line() {
    let place = Place::with_csv();
    let text = String::from_utf8(place.read("data/mnist_test.csv")).unwrap();
    let end = text.trim_end().rfind(',').unwrap();
    place.write("data/mnist_test.csv", &text[..end]);
    refused(&place, &["mnist_test.csv, line 101, column 785: the line ends after 784 fields"]);
}

#[test]
fn half_a_data_set() {
    let place = Place::with_idx();
    fs::remove_file(place.path("data/t10k-labels-idx1-ubyte")).unwrap();
    refused(&place, &["the data set in data is incomplete: t10k-labels-idx1-ubyte is missing"]);
}

#[test]
fn no_data_set() {
    let place = Place::empty();
    refused(&place, &["no data set in data", "train-images-idx3-ubyte", "mnist_train.csv"]);
}
