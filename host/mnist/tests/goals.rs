//! Runs that end when they are good enough, and runs of several seeds.

use crate::common::{Place, succeeds};

const SMALL: [&str; 6] = ["--hidden", "32,16", "--batch-size", "20", "--lr", "0.3"];

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

/// The numbers of the line that begins like this.
fn numbers(printed: &str, begin: &str) -> Vec<f64> {
    let line = printed.lines().find_map(|line| line.strip_prefix(begin));
    let line = line.unwrap_or_else(|| panic!("no line begins with `{begin}`: {printed}"));
    let is_part = |c: char| c.is_ascii_digit() || c == '.';
    let words = line.split(|c| !is_part(c)).filter(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    words.map(|word| word.trim_end_matches('.').parse().unwrap()).collect()
}

#[test]
fn a_run_ends_with_the_epoch_that_reaches_its_target() {
    let place = Place::with_idx();
    let more = ["--epochs", "9", "--target-accuracy", "60", "--save", "reached", "--metrics", "m"];
    let printed = succeeds(place.train(&flags(&more)));
    let [epochs, training, tests] = numbers(&printed, "60 % reached in epoch ")[..] else {
        panic!("{printed}")
    };
    // A test of 100 images can take less than the millisecond that is printed.
    assert!(epochs < 9.0 && training > 0.0 && tests >= 0.0, "{printed}");
    let metrics = String::from_utf8(place.read("m")).unwrap();
    let records: Vec<serde_json::Value> =
        metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), epochs as usize);
    let accuracy = |record: &serde_json::Value| record["test_accuracy"].as_f64().unwrap();
    let (last, before) = records.split_last().unwrap();
    assert!(accuracy(last) >= 0.6 && before.iter().all(|record| accuracy(record) < 0.6), "{metrics}");
    let seconds: f64 = records.iter().map(|record| record["seconds"].as_f64().unwrap()).sum();
    assert!((seconds - training).abs() <= 0.001, "{seconds} and {training}");

    // The weights are those of a run of as many epochs.
    let epochs = (epochs as usize).to_string();
    succeeds(place.train(&flags(&["--epochs", &epochs, "--save", "whole"])));
    assert!(place.read("reached") == place.read("whole"));
}

#[test]
fn a_target_that_is_too_high_is_told() {
    let place = Place::with_idx();
    let flags = ["--hidden", "16", "--lr", "1e-6", "--epochs", "2", "--target-accuracy", "100"];
    let printed = succeeds(place.train(&flags));
    assert!(printed.contains("epoch 2/2"), "{printed}");
    assert!(printed.contains("100 % not reached; train longer with --epochs"), "{printed}");
}

#[test]
fn a_resumed_run_that_has_reached_its_target_trains_no_more() {
    let place = Place::with_idx();
    let target = ["--epochs", "9", "--target-accuracy", "60"];
    let first =
        succeeds(place.train(&flags(&[&target[..], &["--checkpoint", "c", "--save", "first"]].concat())));
    let resumed = succeeds(place.train(&[&target[..], &["--resume", "c", "--save", "again"]].concat()));
    assert!(!resumed.contains("train loss"), "{resumed}");
    let reached = "60 % reached in epoch ";
    assert_eq!(numbers(&resumed, reached), numbers(&first, reached));
    assert!(place.read("first") == place.read("again"));
    // Without a target it goes on.
    let further = succeeds(place.train(&["--resume", "c", "--epochs", "9"]));
    assert!(further.contains("epoch 9/9"), "{further}");
}

#[test]
fn targets_that_are_none_are_refused() {
    let place = Place::with_idx();
    for target in ["0", "-1", "100.5", "NaN", "inf"] {
        let needles = ["--target-accuracy", target, "in percent of the test images, above 0 and at most 100"];
        place.refuses(place.train(&["--target-accuracy", target]), &needles);
    }
    succeeds(place.train(&flags(&["--epochs", "1", "--save", "w"])));
    let needles = ["--target-accuracy 98 cannot be used", "nothing is trained"];
    place.refuses(place.train(&["--epochs", "0", "--load", "w", "--target-accuracy", "98"]), &needles);
}

#[test]
fn seeds_are_trained_one_after_the_other() {
    let place = Place::with_idx();
    let more = ["--epochs", "1", "--seeds", "4..6", "--target-accuracy", "99.9", "--pipeline", "graph"];
    let printed = succeeds(place.train(&flags(&more)));
    assert_eq!(printed.matches("training and 100 test images").count(), 1, "{printed}");
    let mut accuracies = Vec::new();
    for seed in ["4", "5", "6"] {
        assert!(printed.contains(&format!("seed {seed}\nepoch 1/1: ")), "{printed}");
        let more = ["--epochs", "1", "--seed", seed, "--pipeline", "graph"];
        let alone = succeeds(place.train(&flags(&more)));
        accuracies.push(numbers(&alone, "test accuracy ")[0]);
    }
    let [mean, min, max] = numbers(&printed, "test accuracy, %: ")[..] else { panic!("{printed}") };
    assert!((mean - accuracies.iter().sum::<f64>() / 3.0).abs() < 0.006, "{mean} of {accuracies:?}");
    assert_eq!(
        [min, max],
        [accuracies.iter().copied().fold(100.0, f64::min), accuracies.iter().copied().fold(0.0, f64::max)]
    );
    for line in ["test loss: ", "train loss: ", "training without tests, s: "] {
        let [mean, min, max] = numbers(&printed, line)[..] else { panic!("{printed}") };
        assert!(0.0 < min && min <= mean && mean <= max, "{printed}");
    }
    let reached = accuracies.iter().filter(|accuracy| **accuracy >= 99.9).count();
    assert!(printed.contains(&format!("{reached} of 3 reached 99.9 %")), "{printed}");
}

#[test]
fn seeds_refuse_what_makes_no_sense() {
    let place = Place::with_idx();
    for more in [
        ["--seed", "3"],
        ["--load", "w"],
        ["--save", "w"],
        ["--metrics", "m"],
        ["--plot", "p"],
        ["--checkpoint", "c"],
        ["--resume", "c"],
    ] {
        place.refuses(
            place.train(&[&["--seeds", "1..8"], &more[..]].concat()),
            &["--seeds", more[0], "cannot be used with"],
        );
    }
    for (seeds, needle) in [
        ("8..1", "8 is not below 1"),
        ("3..3", "use --seed for a single seed"),
        ("3", "`3` is not a range of seeds; write, for example, 1..8"),
        ("a..b", "is not a range of seeds"),
        ("-1..3", "is not a range of seeds"),
    ] {
        place.refuses(place.train(&[&format!("--seeds={seeds}")]), &[needle]);
    }
}
