//! Runs that end at a target accuracy, and runs of several seeds.

use crate::common::{Place, succeeds, words};
use ferrowarp_report::EpochRecord;

fn train(place: &Place, more: &str) -> String {
    succeeds(place.train(&words(&format!("--hidden 32,16 --batch-size 20 --lr 0.3 {more}"))))
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
    let reached = "60 % reached in epoch ";
    let target = "--epochs 9 --target-accuracy 60";
    let printed = train(&place, &format!("{target} --save reached --metrics m --checkpoint c"));
    let [epochs, training, tests] = numbers(&printed, reached)[..] else { panic!("{printed}") };
    // A test of 100 images can take less than the millisecond that is printed.
    assert!(epochs < 9.0 && training > 0.0 && tests >= 0.0, "{printed}");
    let metrics = String::from_utf8(place.read("m")).unwrap();
    let records: Vec<EpochRecord> = metrics.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), epochs as usize);
    let (last, before) = records.split_last().unwrap();
    let missed = before.iter().all(|record| record.test_accuracy < 0.6);
    assert!(last.test_accuracy >= 0.6 && missed, "{metrics}");
    let seconds: f64 = records.iter().map(|record| record.seconds).sum();
    assert!((seconds - training).abs() <= 0.001, "{seconds} and {training}");
    train(&place, &format!("--epochs {epochs} --save whole"));
    assert!(place.read("reached") == place.read("whole"), "other weights than after {epochs} epochs");

    // A resumed run has reached it too. Without a target it goes on.
    let resumed = succeeds(place.train(&words(&format!("{target} --resume c --save again"))));
    assert!(!resumed.contains("train loss"), "{resumed}");
    assert_eq!(numbers(&resumed, reached), numbers(&printed, reached));
    assert!(place.read("reached") == place.read("again"));
    let further = succeeds(place.train(&words("--resume c --epochs 9")));
    assert!(further.contains("epoch 9/9"), "{further}");
}

#[test]
fn a_target_that_is_too_high_is_reported() {
    let place = Place::with_idx();
    let printed = succeeds(place.train(&words("--hidden 16 --lr 1e-6 --epochs 2 --target-accuracy 100")));
    assert!(printed.contains("epoch 2/2"), "{printed}");
    assert!(printed.contains("100 % not reached; train longer with --epochs"), "{printed}");
}

#[test]
fn seeds_are_trained_one_after_the_other() {
    let place = Place::with_idx();
    let printed = train(&place, "--epochs 1 --seeds 4..6 --target-accuracy 99.9 --pipeline graph");
    assert_eq!(printed.matches("training and 100 test images").count(), 1, "{printed}");
    let accuracies = [4, 5, 6].map(|seed| {
        assert!(printed.contains(&format!("seed {seed}\nepoch 1/1: ")), "{printed}");
        let alone = train(&place, &format!("--epochs 1 --seed {seed} --pipeline graph"));
        numbers(&alone, "test accuracy ")[0]
    });
    let [mean, min, max] = numbers(&printed, "test accuracy, %: ")[..] else { panic!("{printed}") };
    assert!((mean - accuracies.iter().sum::<f64>() / 3.0).abs() < 0.006, "{mean} of {accuracies:?}");
    assert_eq!(
        [min, max],
        [accuracies.into_iter().fold(100.0, f64::min), accuracies.into_iter().fold(0.0, f64::max)]
    );
    for line in ["test loss: ", "train loss: ", "training without tests, s: "] {
        let [mean, min, max] = numbers(&printed, line)[..] else { panic!("{printed}") };
        assert!(0.0 < min && min <= mean && mean <= max, "{printed}");
    }
    let reached = accuracies.iter().filter(|accuracy| **accuracy >= 99.9).count();
    assert!(printed.contains(&format!("{reached} of 3 reached 99.9 %")), "{printed}");
}
