//! Programs with flags and files that make no sense: an error that names them, exit code 1 or 2, nothing written.

use crate::common::{Place, succeeds};

/// A place with weights of a 784-16-10 network in `w.safetensors`.
fn with_weights() -> Place {
    let place = Place::with_idx();
    succeeds(place.train(&["--hidden", "16", "--epochs", "1", "--save", "w.safetensors"]));
    place
}

#[track_caller]
fn refused(flags: &[&str], needles: &[&str]) {
    let place = Place::with_idx();
    let flags = [flags, &["--save", "new.safetensors"]].concat();
    place.refuses(place.train(&flags), needles);
}

#[test]
fn batch_size_zero() {
    refused(&["--batch-size", "0"], &["'0' for '--batch-size", "at least 1 image"]);
}

#[test]
fn batch_size_over_the_data_set() {
    refused(&["--batch-size", "634"], &["--batch-size 634 cannot be used", "only 633 training images"]);
    refused(&["--batch-size", "4294967295"], &["only 633 training images"]);
    refused(
        &["--batch-size", "4294967296"],
        &["'4294967296' for '--batch-size", "at most 4294967295 images"],
    );
}

#[test]
fn hidden_zero() {
    refused(&["--hidden", "0"], &["--hidden 0 cannot be used", "at least 1 unit"]);
    refused(&["--hidden", "300,0,10"], &["--hidden 300,0,10 cannot be used"]);
}

#[test]
fn hidden_too_wide() {
    refused(&["--hidden", "4000000000"], &["--hidden 4000000000 cannot be used", "choose narrower layers"]);
    let most = u64::MAX.to_string();
    refused(&["--hidden", &format!("{most},{most}")], &["cannot be used", "choose narrower layers"]);
}

#[test]
fn learning_rate() {
    for rate in ["NaN", "inf", "0", "-0.1"] {
        refused(&["--lr", rate], &["--lr ", "cannot be used", "finite and above 0"]);
    }
}

#[test]
fn momentum() {
    for momentum in ["1", "-0.5", "NaN"] {
        refused(&["--momentum", momentum], &["--momentum ", "at least 0 and below 1, at most 0.99999994"]);
    }
}

#[test]
fn label_smoothing() {
    for share in ["1", "-0.1", "NaN"] {
        let needles = [
            &format!("--label-smoothing {share} cannot be used"),
            "at least 0 and below 1, at most 0.99999994",
        ];
        refused(&["--label-smoothing", share], &needles);
    }
}

#[test]
fn warm_up_of_the_learning_rate() {
    for part in ["1", "-0.1", "NaN", "20"] {
        let needles =
            [&format!("--lr-warmup {part} cannot be used"), "at least 0 and below 1; 0.1 is the first tenth"];
        refused(&["--lr-warmup", part], &needles);
    }
    refused(
        &["--lr-schedule", "cosine"],
        &["cosine", "constant", "exponential", "linear", "sqrt", "trapezoid"],
    );
}

#[test]
fn decay_of_the_learning_rate() {
    for decay in ["0", "1.5", "-1", "NaN"] {
        refused(&["--lr-decay", decay], &["--lr-decay ", "above 0 and at most 1"]);
    }
}

#[test]
fn no_epochs() {
    refused(&["--epochs", "0"], &["--epochs 0 cannot be used", "--load"]);
    let with_plot = ["--epochs", "0", "--load", "w.safetensors", "--plot", "p.svg"];
    refused(&with_plot, &["--epochs 0 cannot be used", "nothing to plot"]);
}

#[test]
fn more_epochs_than_are_counted() {
    refused(
        &["--epochs", "4294967295", "--hidden", "8"],
        &["at most 4294967294 epochs", "these have had 0; train fewer"],
    );
}

#[test]
fn words_for_numbers() {
    refused(&["--batch-size", "many"], &["'many' for '--batch-size", "must be whole, such as 64"]);
    refused(&["--hidden", "300,,10"], &["--hidden", "`` is not a width"]);
    refused(&["--hidden", "300,ten"], &["--hidden", "`ten` is not a width"]);
    refused(&["--epochs", "-1"], &["-1", "--epochs"]);
    refused(
        &["--pipeline", "quick"],
        &["quick", "naive", "deferred", "overlapped", "fused", "graph", "resident"],
    );
    refused(&["--no-such-flag"], &["--no-such-flag"]);
}

#[test]
fn results_that_cannot_be_written() {
    refused(&["--plot", "missing/plot.svg"], &["--plot missing/plot.svg cannot be used", "No such file"]);
    refused(&["--metrics", "data"], &["--metrics data cannot be used", "it is a folder"]);
    refused(&["--plot", "new.safetensors"], &["--save writes the same file"]);
}

/// No report of the training's progress can be written.
#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output() {
    let place = Place::with_idx();
    let mut command = place.train(&["--save", "new.safetensors"]);
    command.stdout(std::fs::File::create("/dev/full").unwrap());
    place.refuses(command, &["could not write to the standard output: No space left on device"]);
}

#[test]
fn a_rate_that_makes_training_diverge() {
    refused(
        &["--lr", "1e30", "--hidden", "16"],
        &["training diverged in epoch 1", "choose a learning rate below 1"],
    );
}

#[test]
fn corrupt_weights() {
    let place = with_weights();
    let mut bytes = place.read("w.safetensors");
    bytes.truncate(bytes.len() - 1);
    place.write("w.safetensors", &bytes);
    let needles = ["w.safetensors is not an intact safetensors file", "copy it again"];
    place.refuses(place.train(&["--load", "w.safetensors", "--save", "new.safetensors"]), &needles);
    place.refuses(place.predict(&["--model", "w.safetensors", "0"]), &needles);
    place.write("w.safetensors", "these are no weights");
    place.refuses(place.train(&["--load", "w.safetensors"]), &needles);
    place.refuses(place.train(&["--load", "none"]), &["could not read the weights in none", "No such file"]);
}

#[test]
fn weights_of_another_shape() {
    let place = with_weights();
    place.refuses(
        place.train(&["--load", "w.safetensors", "--hidden", "17", "--save", "new.safetensors"]),
        &["w.safetensors are those of a 784-16-10 network, but 784-17-10 was requested"],
    );
    place.refuses(
        place.train(&["--load", "w.safetensors", "--hidden", "16,16", "--save", "new.safetensors"]),
        &["784-16-10 network, but 784-16-16-10 was requested"],
    );
}

#[test]
fn weights_that_are_no_numbers() {
    for (value, shown) in [(f32::NAN, "NaN"), (f32::INFINITY, "inf")] {
        let place = with_weights();
        let mut bytes = place.read("w.safetensors");
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&value.to_le_bytes());
        place.write("w.safetensors", bytes);
        let needle = format!("has the weight or bias {shown}");
        place.refuses(place.train(&["--load", "w.safetensors", "--save", "new.safetensors"]), &[&needle]);
        place.refuses(place.predict(&["--model", "w.safetensors", "0"]), &[&needle]);
    }
}

#[test]
fn outputs_over_what_the_run_reads() {
    let place = with_weights();
    for flags in [
        &["--load", "w.safetensors", "--save", "w.safetensors"][..],
        &["--load", "w.safetensors", "--plot", "./w.safetensors"],
        &["--metrics", "data/train-labels-idx1-ubyte"],
        &["--save", "data/../data/t10k-images-idx3-ubyte"],
    ] {
        place.refuses(place.train(flags), &["cannot be used: the run reads", "name another file"]);
    }
    let over = ["--checkpoint", "c", "--save", "c/step-0000000001.checkpoint"];
    std::fs::create_dir(place.path("c")).unwrap();
    place.refuses(place.train(&over), &["it is one of the checkpoints"]);
    place.refuses(place.train(&["--save", "a", "--plot", "./a"]), &["--save writes the same file"]);
}

#[test]
fn outputs_that_cannot_be_files() {
    let place = Place::with_idx();
    place.refuses(place.train(&["--save", "new/"]), &["new/", "ends like a folder"]);
    place.refuses(place.train(&["--save", &"n".repeat(256)]), &["nnnn"]);
}

/// A path that is not a regular file is not replaced, and its write errors count.
#[cfg(unix)]
#[test]
fn outputs_to_devices_and_pipes() {
    use std::os::unix::fs::FileTypeExt as _;
    let place = Place::with_idx();
    let run = ["--hidden", "16", "--epochs", "2"];
    succeeds(place.train(&[&run[..], &["--save", "/dev/null", "--plot", "/dev/null"]].concat()));
    assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let mut full = place.train(&[&run[..], &["--save", "/dev/full"]].concat());
    let output = full.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("/dev/full"), "{said}");
    // Each epoch's line once, among what the program prints.
    let printed = succeeds(place.train(&[&run[..], &["--metrics", "/dev/stdout"]].concat()));
    assert_eq!(printed.matches("\"test_accuracy\"").count(), 2, "{printed}");
}

/// The training goes on, and its weights are those of a run without the file.
#[cfg(target_os = "linux")]
#[test]
fn a_file_that_cannot_be_written_costs_no_weights() {
    let place = Place::with_idx();
    let run = ["--hidden", "16", "--epochs", "2", "--save"];
    succeeds(place.train(&[&run[..], &["alone"]].concat()));
    for (flag, what) in [("--metrics", "the metrics"), ("--timeline", "the timeline")] {
        let output = place.train(&[&run[..], &[what, flag, "/dev/full"]].concat()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        let error = format!("could not write {what} to /dev/full: No space left on device");
        assert!(said.contains(&format!("warning: {error}")), "{said}");
        assert!(said.contains(&format!("\nerror: {error}")), "{said}");
        assert!(place.read(what) == place.read("alone"), "{flag}");
    }
}

#[test]
fn finite_weights_that_overflow() {
    let place = with_weights();
    let mut bytes = place.read("w.safetensors");
    let header = u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    for value in bytes[8 + header..].chunks_exact_mut(4) {
        value.copy_from_slice(&3.4e38f32.to_le_bytes());
    }
    place.write("w.safetensors", bytes);
    let needle = "the weights in w.safetensors are so large that";
    place.refuses(place.train(&["--load", "w.safetensors", "--epochs", "0"]), &[needle, "NaN"]);
    let mut command = place.predict(&["--model", "w.safetensors", "0"]);
    command.stdout(std::process::Stdio::null());
    place.refuses(command, &[needle, "a probability is NaN"]);
}

#[test]
fn weights_whose_tensors_do_not_fit() {
    let place = with_weights();
    // The same header with one shape changed, of equal length, so that the file stays intact as such.
    let bytes = place.read("w.safetensors");
    let (from, to) = (b"\"shape\":[16,784]", b"\"shape\":[784,16]");
    let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
    let changed = [&bytes[..at], to, &bytes[at + from.len()..]].concat();
    place.write("w.safetensors", changed);
    place.refuses(
        place.train(&["--load", "w.safetensors"]),
        &["tensor `0.bias` has the shape [16], expected [784]"],
    );
}

/// White pixels, `side` rows and columns of them.
fn blank_png(side: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let encoder = png::Encoder::new(&mut bytes, side, side);
    encoder.write_header().unwrap().write_image_data(&vec![255; (side * side) as usize]).unwrap();
    bytes
}

#[test]
fn images_that_predict_cannot_use() {
    let place = with_weights();
    let predict = |image: &str| place.predict(&["--model", "w.safetensors", image]);
    place.refuses(predict("100"), &["there is no test image 100", "indices go from 0 to 99"]);
    place.refuses(
        predict("none.png"),
        &["could not read none.png", "none.png is neither a picture nor an index"],
    );
    place.write("100", "a file");
    place.refuses(predict("100"), &["there is no test image 100", "a file of that name is ./100"]);
    place.refuses(predict("./100"), &["error: ./100 is something else, not a PNG file"]);
    place.write("blank.png", blank_png(28));
    place.refuses(predict("blank.png"), &["blank.png is blank"]);
    place.write("small.png", blank_png(27));
    let as_is = place.predict(&["--model", "w.safetensors", "--as-is", "small.png"]);
    place.refuses(as_is, &["small.png does not have the 28 x 28 pixels that --as-is needs"]);
    place.write("text.png", "no picture");
    place.refuses(predict("text.png"), &["error: text.png is something else, not a PNG file"]);
    place.write("photo.png", b"\xff\xd8\xff\xe0\0\x10JFIF");
    place.refuses(
        predict("photo.png"),
        &["error: photo.png is a JPEG picture, not a PNG file; convert the picture to PNG"],
    );
    place.write("cut.png", &blank_png(28)[..40]);
    place.refuses(
        predict("cut.png"),
        &["error: cut.png is a damaged PNG file; copy or export the picture again: "],
    );
    place.refuses(place.predict(&["--model", "w.safetensors"]), &["<IMAGE>"]);
}

/// Opening it would wait for its writer.
#[cfg(unix)]
#[test]
fn a_pipe_in_place_of_a_picture() {
    let place = with_weights();
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("a\u{1b}pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let mut command = place.predict(&["--model", "w.safetensors"]);
    command.arg(&pipe);
    // The escape in its name does not go to the terminal.
    place.refuses(command, &["it is a pipe; save the picture as a file", "a\\u{1b}pipe"]);
}

/// A name is bytes, whatever they mean.
#[cfg(target_os = "linux")]
#[test]
fn a_picture_whose_name_is_no_text() {
    use std::os::unix::ffi::OsStrExt as _;
    let place = with_weights();
    let name = std::ffi::OsStr::from_bytes(b"zwei-\xff.png");
    std::fs::write(place.path("").join(name), blank_png(28)).unwrap();
    let mut command = place.predict(&["--model", "w.safetensors", "--as-is"]);
    let output = command.arg(name).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("zwei-"));
}
