//! From a data set to trained weights and back, through the programs.

use crate::common::networks::values;
use crate::common::{Place, SIDE, digits, succeeds, words};
use ferrowarp_mnist::checkpoint;
use ferrowarp_report::EpochRecord;

const PIPELINES: [&str; 5] = ["naive", "deferred", "overlapped", "fused", "graph"];

fn train(place: &Place, more: &str) -> String {
    succeeds(place.train(&words(&format!("--hidden 32,16 --batch-size 20 --lr 0.3 {more}"))))
}

fn metrics(place: &Place, name: &str) -> Vec<EpochRecord> {
    let text = String::from_utf8(place.read(name)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The line with the result of the test.
fn result(printed: &str) -> &str {
    printed.lines().find(|line| line.starts_with("test accuracy")).unwrap()
}

#[test]
fn two_epochs_learn_and_write_everything() {
    let place = Place::with_idx();
    let printed = train(&place, "--epochs 2 --save w.safetensors --metrics m.jsonl --plot p.svg");
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
    let [first, second] = &metrics[..] else { panic!("{metrics:?}") };
    assert_eq!([first.epoch, second.epoch], [1, 2]);
    assert!(second.train_loss < first.train_loss && second.test_accuracy >= 0.95, "{metrics:?}");
    assert!(second.seconds > 0.0 && second.images_per_second > 0.0, "{metrics:?}");
    assert!(place.read("p.svg").starts_with(b"<svg "));
    let mut names: Vec<String> = place.listing().keys().map(|path| path.display().to_string()).collect();
    names.retain(|name| !name.contains("/data"));
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn one_seed_gives_the_same_bytes_and_another_does_not() {
    let place = Place::with_idx();
    for (seed, name) in [("5", "a"), ("5", "b"), ("6", "c")] {
        train(&place, &format!("--epochs 1 --seed {seed} --momentum 0.5 --save {name}"));
    }
    assert!(place.read("a") == place.read("b"), "two runs with one seed differ");
    assert!(place.read("a") != place.read("c"), "two seeds give the same weights");
}

/// From IDX files and from CSV files.
#[test]
fn all_pipelines_learn_the_same() {
    let (idx, csv) = (Place::with_idx(), Place::with_csv());
    for pipeline in PIPELINES {
        let flags = format!(
            "--epochs 1 --pipeline {pipeline} --metrics {pipeline} --save w --checkpoint c-{pipeline}"
        );
        train(&idx, &flags);
        train(&csv, &flags);
        assert!(idx.read("w") == csv.read("w"), "{pipeline}: the format of the data matters");
        let (naive, other) = (&metrics(&idx, "naive")[0], &metrics(&idx, pipeline)[0]);
        for (a, b) in [(naive.train_loss, other.train_loss), (naive.test_loss, other.test_loss)] {
            assert!((a - b).abs() <= 1e-3 * a.abs(), "{pipeline}: {a} and {b}");
        }
    }
}

#[test]
fn loaded_weights_are_trained_further_or_tested() {
    let place = Place::with_idx();
    let whole = train(&place, "--epochs 2 --seed 9 --save whole");
    train(&place, "--epochs 1 --seed 9 --save half");
    // The widths and the seed are those of the file.
    let printed =
        succeeds(place.train(&words("--batch-size 20 --lr 0.3 --epochs 1 --load half --save resumed")));
    assert!(printed.contains("epoch 2/2: "), "{printed}");
    assert!(place.read("whole") == place.read("resumed"), "resuming changes the weights");

    let tested = succeeds(place.train(&words("--epochs 0 --load whole --save again")));
    assert_eq!(result(&tested), result(&whole));
    let [before, after] =
        ["whole", "again"].map(|name| checkpoint::load(&place.path(name)).unwrap().parameters);
    assert!(before == after, "testing changes the weights");
}

#[test]
fn a_timeline_is_drawn_of_every_pipeline() {
    let place = Place::with_idx();
    // A lane without spans is omitted; only `overlapped` decodes and copies in every step.
    for (pipeline, epochs, title, lanes) in [
        ("naive", 1, "the first 32 steps of epoch 1", &["kernels", "host", "fetch"][..]),
        ("overlapped", 3, "the first 32 steps of epoch 2", &["load", "copy", "kernels", "host"]),
        ("graph", 2, "the first 32 steps of epoch 2", &["kernels", "host"]),
    ] {
        let printed = train(&place, &format!("--epochs {epochs} --pipeline {pipeline} --timeline t.svg"));
        assert!(printed.contains("timeline in t.svg"), "{printed}");
        let svg = String::from_utf8(place.read("t.svg")).unwrap();
        let title = format!("pipeline {pipeline}, precision f32, {title} on ");
        assert!(svg.starts_with("<svg ") && svg.contains(&title), "{svg}");
        for lane in lanes {
            assert!(svg.contains(&format!("\n{lane}\n")), "{pipeline}, {lane}: {svg}");
        }
    }
}

/// The class that `predict` marks for every image it shows.
fn marked(printed: &str) -> Vec<u8> {
    let lines = printed.lines().filter(|line| line.ends_with(" <"));
    lines.map(|line| line.split_whitespace().next().unwrap().parse().unwrap()).collect()
}

#[test]
fn predictions_agree_with_the_labels() {
    let place = Place::with_idx();
    train(&place, "--epochs 3 --save w");
    let (images, labels) = digits(100, 2);
    let indices: Vec<String> = (0..20).map(|index| index.to_string()).collect();
    let printed = succeeds(place.predict(&words(&format!("--model w {}", indices.join(" ")))));
    assert_eq!(marked(&printed), labels[..20]);
    assert!(printed.contains(&format!("test image 0, labelled {}", labels[0])), "{printed}");
    assert!(printed.contains('█'), "{printed}");
    // Ten probabilities that add up to 100 %.
    let percent = |line: &str| line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap();
    let sum: f64 = printed.lines().filter(|line| line.contains(" %")).take(10).map(percent).sum();
    assert!((sum - 100.0).abs() < 0.02, "{sum}");

    // The same image as a picture, dark on light.
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, SIDE as u32, SIDE as u32);
    encoder.set_color(png::ColorType::Rgb);
    let paper: Vec<u8> = images[..SIDE * SIDE].iter().flat_map(|&ink| [255 - ink; 3]).collect();
    encoder.write_header().unwrap().write_image_data(&paper).unwrap();
    place.write("digit.png", bytes);
    let printed = succeeds(place.predict(&words("--model w --as-is digit.png 0")));
    assert_eq!(marked(&printed), [labels[0], labels[0]]);
    let (picture, index) = printed.split_once("test image 0").unwrap();
    let [picture, index] =
        [picture, index].map(|part| part.lines().filter(|line| line.contains(" %")).collect::<Vec<_>>());
    assert_eq!(picture, index);
}

#[test]
fn a_network_without_hidden_layers_learns_and_is_loaded() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        let train = |more: &str| {
            let flags = format!("--hidden \"\" --batch-size 20 --pipeline {pipeline} --momentum 0.5 {more}");
            succeeds(place.train(&words(&flags)))
        };
        let whole = train("--epochs 2 --save whole --checkpoint c");
        let accuracy: f64 = result(&whole).split(' ').nth(2).unwrap().parse().unwrap();
        assert!(accuracy > 95.0, "{whole}");
        assert!(succeeds(place.predict(&words("--model whole 0"))).contains("test image 0"));
        train("--epochs 1 --checkpoint parts");
        train("--epochs 2 --resume parts --save parts.weights");
        assert!(place.read("whole") == place.read("parts.weights"), "{pipeline}");
        assert_eq!(result(&train("--epochs 0 --load whole")), result(&whole));
        place.refuses(
            place.train(&words("--resume c --epochs 3 --hidden 16")),
            &["--hidden 16 cannot be used", "whose run has \"\""],
        );
    }
}

/// After a few steps, all units are 0 for every image. The velocities then shrink forever.
#[test]
fn a_network_that_has_stopped_learning_is_reported_once() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        let collapses =
            "--hidden 32,16 --batch-size 20 --lr 3 --momentum 0.9 --lr-decay 1 --epochs 40 --checkpoint c";
        let output = place.train(&words(&format!("{collapses} --pipeline {pipeline}"))).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let needle = "the network gives every test image the same answer: it has stopped learning";
        assert_eq!(said.matches(needle).count(), 1, "{said}");
        assert!(said.contains("with a learning rate below 3, or less momentum"), "{said}");
        let velocities = checkpoint::newest(&place.path("c")).unwrap().snapshot.velocities.unwrap();
        let velocities = values(&velocities);
        assert!(velocities.contains(&0.0), "{pipeline}: the network still learns");
        assert!(!velocities.iter().any(|velocity| velocity.is_subnormal()), "{pipeline}");
    }
}

#[test]
fn the_default_learning_rate_suits_the_momentum() {
    let place = Place::with_idx();
    let run = |more: &str| {
        let flags = format!("--hidden 32,16 --batch-size 20 --epochs 2 --momentum 0.9 {more}");
        succeeds(place.train(&words(&flags)))
    };
    let printed = run("--save by-default");
    let note = "learning rate 0.03, derived from a momentum of 0.9; set another with --lr";
    assert!(printed.contains(note), "{printed}");
    assert!(!run("--lr 0.03 --save named").contains("derived from a momentum"));
    assert!(place.read("by-default") == place.read("named"));
}
