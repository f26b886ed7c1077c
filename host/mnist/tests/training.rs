//! From a data set to trained weights and back, through the programs.

use crate::common::{Place, SIDE, digits, succeeds};
use serde_json::Value;

const PIPELINES: [&str; 5] = ["naive", "deferred", "overlapped", "fused", "graph"];

const SMALL: [&str; 6] = ["--hidden", "32,16", "--batch-size", "20", "--lr", "0.3"];

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

fn metrics(place: &Place, name: &str) -> Vec<Value> {
    let text = String::from_utf8(place.read(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn two_epochs_learn_and_write_everything() {
    let place = Place::with_idx();
    let printed = succeeds(place.train(&flags(&[
        "--epochs",
        "2",
        "--save",
        "w.safetensors",
        "--metrics",
        "m.jsonl",
        "--plot",
        "p.svg",
    ])));
    for needle in [
        "633 training and 100 test images of 28 x 28 pixels from data",
        "epoch 1/2: train loss ",
        "epoch 2/2: train loss ",
        "images/s",
        "test accuracy ",
        "where the time went",
        "host to device",
        "weights in w.safetensors",
    ] {
        assert!(printed.contains(needle), "`{needle}` is not in: {printed}");
    }
    // Not a terminal: no bar, no control characters.
    assert!(!printed.contains('\u{1b}') && !printed.contains('\r'), "{printed:?}");

    let metrics = metrics(&place, "m.jsonl");
    assert_eq!(metrics.iter().map(|epoch| epoch["epoch"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2]);
    let number = |epoch: usize, key: &str| metrics[epoch][key].as_f64().unwrap();
    assert!(number(1, "train_loss") < number(0, "train_loss"));
    assert!(number(1, "test_accuracy") >= 0.95, "{metrics:?}");
    assert!(number(1, "seconds") > 0.0 && number(1, "images_per_second") > 0.0);
    assert!(place.read("p.svg").starts_with(b"<svg "));
    // Nothing else came to be.
    let mut names: Vec<String> = place.listing().keys().map(|path| path.display().to_string()).collect();
    names.retain(|name| !name.contains("/data"));
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn one_seed_gives_the_same_bytes_and_another_does_not() {
    let place = Place::with_idx();
    for (seed, name) in [("5", "a"), ("5", "b"), ("6", "c")] {
        succeeds(place.train(&flags(&[
            "--epochs",
            "1",
            "--seed",
            seed,
            "--momentum",
            "0.5",
            "--save",
            name,
        ])));
    }
    assert!(place.read("a") == place.read("b"), "two runs with one seed differ");
    assert!(place.read("a") != place.read("c"), "two seeds give the same weights");
}

#[test]
fn csv_and_idx_give_the_same_weights() {
    let (idx, csv) = (Place::with_idx(), Place::with_csv());
    for pipeline in PIPELINES {
        for place in [&idx, &csv] {
            let flags =
                flags(&["--epochs", "1", "--save", "w", "--pipeline", pipeline, "--checkpoint", pipeline]);
            succeeds(place.train(&flags));
        }
        assert!(idx.read("w") == csv.read("w"), "{pipeline}: the format of the data matters");
    }
}

#[test]
fn a_resumed_run_ends_where_the_whole_one_does() {
    let place = Place::with_idx();
    succeeds(place.train(&flags(&["--epochs", "2", "--seed", "9", "--save", "whole"])));
    succeeds(place.train(&flags(&["--epochs", "1", "--seed", "9", "--save", "half"])));
    // Sizes and seed are those of the file.
    let resumed =
        ["--batch-size", "20", "--lr", "0.3", "--epochs", "1", "--load", "half", "--save", "resumed"];
    let printed = succeeds(place.train(&resumed));
    assert!(printed.contains("epoch 2/2: "), "{printed}");
    assert!(place.read("whole") == place.read("resumed"), "resuming changes the weights");
}

#[test]
fn no_epoch_tests_the_loaded_weights() {
    let place = Place::with_idx();
    let line = |printed: &str| {
        printed.lines().find(|line| line.starts_with("test accuracy")).map(str::to_owned).unwrap()
    };
    let trained = line(&succeeds(place.train(&flags(&["--epochs", "1", "--save", "w"]))));
    let tested = succeeds(place.train(&["--epochs", "0", "--load", "w", "--save", "again"]));
    assert_eq!(line(&tested), trained);
    let tensors = |name: &str| {
        let bytes = place.read(name);
        let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        bytes[8 + header..].to_vec()
    };
    assert!(tensors("w") == tensors("again"), "testing changes the weights");
}

#[test]
fn all_pipelines_learn_the_same() {
    let place = Place::with_idx();
    for pipeline in PIPELINES {
        succeeds(place.train(&flags(&["--epochs", "1", "--pipeline", pipeline, "--metrics", pipeline])));
        let (naive, other) = (metrics(&place, "naive"), metrics(&place, pipeline));
        for key in ["train_loss", "test_loss"] {
            let (a, b) = (naive[0][key].as_f64().unwrap(), other[0][key].as_f64().unwrap());
            assert!((a - b).abs() <= 1e-3 * a.abs(), "{pipeline}, {key}: {a} and {b}");
        }
    }
}

#[test]
fn a_timeline_is_drawn_of_every_pipeline() {
    let place = Place::with_idx();
    for (pipeline, epochs, title) in [
        ("naive", "1", "the first 32 steps of epoch 1"),
        ("overlapped", "3", "the first 32 steps of epoch 2"),
        ("graph", "2", "the first 32 steps of epoch 2"),
    ] {
        let more = ["--epochs", epochs, "--pipeline", pipeline, "--timeline", "t.svg"];
        let printed = succeeds(place.train(&flags(&more)));
        assert!(printed.contains("timeline in t.svg"), "{printed}");
        let svg = String::from_utf8(place.read("t.svg")).unwrap();
        assert!(
            svg.starts_with("<svg ")
                && svg.contains(&format!("pipeline {pipeline}, precision f32, {title} on ")),
            "{svg}"
        );
        // A lane without spans is left out; only `overlapped` decodes and copies in every step.
        let lanes = match pipeline {
            "overlapped" => &["load", "copy", "kernels", "host"][..],
            "naive" => &["kernels", "host", "fetch"],
            _ => &["kernels", "host"],
        };
        for lane in lanes {
            assert!(svg.contains(&format!("\n{lane}\n")), "{pipeline}, {lane}: {svg}");
        }
    }
    let needles = ["--epochs 0 cannot be used", "leave --plot, --metrics, --timeline and --profile away"];
    place.refuses(place.train(&["--epochs", "0", "--load", "w", "--timeline", "new.svg"]), &needles);
}

/// The class that `predict` marks for every image it shows.
fn marked(printed: &str) -> Vec<u8> {
    let lines = printed.lines().filter(|line| line.ends_with(" <"));
    lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

#[test]
fn predictions_agree_with_the_labels() {
    let place = Place::with_idx();
    succeeds(place.train(&flags(&["--epochs", "3", "--save", "w"])));
    let (_, labels) = digits(100, 2);
    let indices: Vec<String> = (0..20).map(|index| index.to_string()).collect();
    let arguments = [&["--model", "w"], &indices.iter().map(String::as_str).collect::<Vec<_>>()[..]].concat();
    let printed = succeeds(place.predict(&arguments));
    assert_eq!(marked(&printed), labels[..20]);
    assert!(printed.contains(&format!("test image 0, labelled {}", labels[0])), "{printed}");
    assert!(printed.contains('█'), "{printed}");
    // Ten probabilities that are 100 % together.
    let percent = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap();
    let sum: f64 = printed.lines().filter(|line| line.contains(" %")).take(10).map(percent).sum();
    assert!((sum - 100.0).abs() < 0.02, "{sum}");
}

#[test]
fn a_png_is_predicted_like_the_image_it_holds() {
    let place = Place::with_idx();
    succeeds(place.train(&flags(&["--epochs", "3", "--save", "w"])));
    let (images, labels) = digits(100, 2);
    let image = &images[..SIDE * SIDE];
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIDE as u32, SIDE as u32);
    encoder.set_color(png::ColorType::Rgb);
    // Dark on light, as on paper.
    let paper: Vec<u8> = image.iter().flat_map(|&ink| [255 - ink; 3]).collect();
    encoder.write_header().unwrap().write_image_data(&paper).unwrap();
    place.write("digit.png", bytes);
    let printed = succeeds(place.predict(&["--model", "w", "--as-is", "digit.png", "0"]));
    assert_eq!(marked(&printed), [labels[0], labels[0]]);
    let tables: Vec<Vec<&str>> = printed
        .split("digit.png")
        .nth(1)
        .unwrap()
        .split("test image 0")
        .map(|part| part.lines().filter(|line| line.contains(" %")).collect())
        .collect();
    assert_eq!(tables[0], tables[1]);
}

#[test]
fn a_network_without_hidden_layers_learns_and_comes_back() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        let flags = ["--hidden", "", "--batch-size", "20", "--pipeline", pipeline, "--momentum", "0.5"];
        let train = |more: &[&str]| succeeds(place.train(&[&flags[..], more].concat()));
        let whole = train(&["--epochs", "2", "--save", "whole", "--checkpoint", "c"]);
        assert!(whole.contains("epoch 2/2: "), "{whole}");
        let accuracy = |printed: &str| {
            let after = printed.split("test accuracy ").last().unwrap();
            after.split(' ').next().unwrap().parse::<f64>().unwrap()
        };
        assert!(accuracy(&whole) > 95.0, "{whole}");
        let predicted = succeeds(place.predict(&["--model", "whole", "0"]));
        assert!(predicted.contains("test image 0"), "{predicted}");

        train(&["--epochs", "1", "--checkpoint", "parts"]);
        train(&["--epochs", "2", "--resume", "parts", "--save", "parts.weights"]);
        assert!(place.read("whole") == place.read("parts.weights"), "{pipeline}");
        let tested = train(&["--epochs", "0", "--load", "whole"]);
        assert_eq!(accuracy(&tested), accuracy(&whole));
        place.refuses(
            place.train(&["--resume", "c", "--epochs", "3", "--hidden", "16"]),
            &["--hidden 16 cannot be used", "whose run has \"\""],
        );
    }
}

/// After a few steps all units are 0 whatever the image.
const COLLAPSES: [&str; 8] = ["--hidden", "32,16", "--batch-size", "20", "--lr", "3", "--momentum", "0.9"];

#[test]
fn a_network_that_has_stopped_learning_is_told_once() {
    let place = Place::with_idx();
    let output =
        place.train(&[&COLLAPSES[..], &["--lr-decay", "1", "--epochs", "4"]].concat()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let needle = "the network gives every test image the same answer: it has stopped learning";
    assert_eq!(said.matches(needle).count(), 1, "{said}");
    assert!(said.contains("with a learning rate below 3, or less momentum"), "{said}");
}

#[test]
fn the_default_learning_rate_suits_the_momentum() {
    let place = Place::with_idx();
    let run = |more: &[&str]| {
        let flags = ["--hidden", "32,16", "--batch-size", "20", "--epochs", "2", "--momentum", "0.9"];
        let output = place.train(&[&flags[..], more].concat()).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty());
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = run(&["--save", "by-default"]);
    assert!(
        printed.contains("learning rate 0.03, derived from a momentum of 0.9; set another with --lr"),
        "{printed}"
    );
    let printed = run(&["--lr", "0.03", "--save", "named"]);
    assert!(!printed.contains("derived from a momentum"), "{printed}");
    assert!(place.read("by-default") == place.read("named"));
}

/// Velocities of a network that has stopped learning shrink for ever.
#[test]
fn no_velocity_is_subnormal() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        let more = ["--epochs", "40", "--checkpoint", "c", "--pipeline", pipeline];
        succeeds(place.train(&[&COLLAPSES[..], &more].concat()));
        let found = ferrowarp_mnist::checkpoint::newest(&place.path("c")).unwrap();
        let velocities = found.snapshot.velocities.unwrap();
        let all = velocities.layers.iter().flat_map(|layer| layer.weights.iter().chain(&layer.biases));
        assert!(all.clone().any(|velocity| *velocity == 0.0), "{pipeline}: the network still learns");
        assert_eq!(all.filter(|velocity| velocity.is_subnormal()).count(), 0, "{pipeline}");
    }
}
