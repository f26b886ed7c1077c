//! Schedules of the learning rate, images that are held out and presets, through the program.

use std::fs;

use crate::common::{Place, SIDE, digits, idx_images, idx_labels, succeeds};
use ferrowarp_mnist::LrSchedule;
use ferrowarp_mnist::checkpoint::{self, Training};
use ferrowarp_mnist::model::{Parameters, Pipeline};
use ferrowarp_mnist::train::{Config, Preset};

const SMALL: [&str; 8] = ["--hidden", "16", "--batch-size", "20", "--lr", "0.3", "--seed", "7"];

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

fn load(place: &Place, name: &str) -> (Parameters, Training) {
    let checkpoint = checkpoint::load(&place.path(name)).unwrap();
    (checkpoint.parameters, checkpoint.training.unwrap())
}

/// An epoch is one step, so that runs at one rate, one after the other, are a run of several.
#[test]
fn a_schedule_is_a_step_at_each_rate() {
    for (schedule, warmup, rates) in [
        ("linear", "0", ["0.6875", "0.5625", "0.4375", "0.3125", "0.1875", "0.0625"]),
        ("linear", "0.5", ["0.125", "0.375", "0.625", "0.625", "0.375", "0.125"]),
        ("trapezoid", "0", ["0.75", "0.75", "0.75", "0.625", "0.375", "0.125"]),
        ("constant", "0.5", ["0.125", "0.375", "0.625", "0.75", "0.75", "0.75"]),
    ] {
        let place = Place::with_idx();
        let on = ["--hidden", "16", "--batch-size", "633", "--lr-schedule"];
        let run = |more: &[&str]| succeeds(place.train(&[&on[..], more].concat()));
        let whole =
            ["--epochs", "6", "--seed", "7", "--lr", "0.75", "--lr-warmup", warmup, "--save", "whole"];
        run(&[&[schedule], &whole[..]].concat());
        for (step, rate) in rates.into_iter().enumerate() {
            let (before, after) = (step.to_string(), (step + 1).to_string());
            let from = if step == 0 { ["--seed", "7"] } else { ["--load", &before] };
            run(&[&["constant", "--epochs", "1", "--lr", rate, "--save", &after], &from[..]].concat());
        }
        let ((whole, training), (parts, _)) = (load(&place, "whole"), load(&place, "6"));
        assert!(whole == parts, "{schedule} after a warm-up of {warmup}: the rates are others");
        assert_eq!((training.lr_schedule.to_string(), training.lr_decay), (schedule.to_owned(), 1.0));
        assert_eq!(training.lr_warmup.to_string(), warmup);
    }
}

/// From within the warm-up, and from after it in the midst of an epoch.
#[test]
fn a_resumed_run_keeps_its_rates() {
    for pipeline in ["naive", "overlapped", "fused", "graph", "resident"] {
        let place = Place::with_idx();
        let on =
            ["--pipeline", pipeline, "--hidden", "16,12", "--batch-size", "20", "--lr", "0.3", "--seed", "7"];
        let more = ["--lr-schedule", "sqrt", "--lr-warmup", "0.4", "--epochs", "3", "--checkpoint", "c"];
        let every = ["--checkpoint-every", "20", "--checkpoint-keep", "9", "--save", "w"];
        succeeds(place.train(&[&on[..], &more, &every].concat()));
        // An epoch is 32 steps; the warm-up ends in the midst of the 39th.
        assert_eq!(checkpoints(&place, "c"), [20, 40, 60, 80, 96]);
        for last in [60, 20] {
            for step in checkpoints(&place, "c").into_iter().filter(|step| *step > last) {
                fs::remove_file(place.path(&format!("c/step-{step:010}.checkpoint"))).unwrap();
            }
            let printed = succeeds(place.train(&["--resume", "c", "--save", "again"]));
            assert!(printed.contains(&format!("{last} steps are done")), "{printed}");
            assert!(
                place.read("w") == place.read("again"),
                "{pipeline}: resumed from step {last} it ends elsewhere"
            );
        }
    }
}

/// Even where only the warm-up depends on it.
#[test]
fn a_resumed_run_keeps_its_length() {
    for how in [["--lr-schedule", "trapezoid"], ["--lr-warmup", "0.2"]] {
        let place = Place::with_idx();
        succeeds(place.train(&flags(&[&how[..], &["--epochs", "3", "--checkpoint", "c"]].concat())));
        let needles = ["--epochs 4 cannot be used", "are for 3 epochs; choose 3", "--load"];
        place.refuses(place.train(&["--resume", "c", "--epochs", "4"]), &needles);
        if how[0] == "--lr-schedule" {
            let needles = ["--lr-schedule constant cannot be used to resume", "whose run has trapezoid"];
            place.refuses(place.train(&["--resume", "c", "--lr-schedule", "constant"]), &needles);
        }
    }
}

#[test]
fn a_factor_belongs_to_one_schedule() {
    let place = Place::with_idx();
    for schedule in ["linear", "constant"] {
        let needles = [
            "--lr-decay 0.5 cannot be used",
            &format!("exponential, not to {schedule}"),
            "--lr-schedule exponential",
        ];
        place.refuses(place.train(&flags(&["--lr-schedule", schedule, "--lr-decay", "0.5"])), &needles);
    }
}

/// Losses of training are those of the targets that are learnt, those of a test are not.
#[test]
fn smoothed_targets_are_learnt_in_parts_as_in_one_go() {
    for pipeline in ["naive", "overlapped", "fused", "graph", "resident"] {
        let place = Place::with_idx();
        let on =
            ["--pipeline", pipeline, "--hidden", "16,12", "--batch-size", "20", "--lr", "0.1", "--seed", "7"];
        let run = |more: &[&str]| succeeds(place.train(&[&on[..], more].concat()));
        let two =
            ["--epochs", "2", "--checkpoint", "c", "--checkpoint-every", "20", "--checkpoint-keep", "9"];
        let printed = run(&[&two[..], &["--label-smoothing", "0.2", "--save", "smoothed"]].concat());
        let ((smoothed, training), _) =
            (load(&place, "smoothed"), run(&["--epochs", "2", "--save", "plain"]));
        assert_eq!(training.label_smoothing, 0.2);
        assert!(smoothed != load(&place, "plain").0, "{pipeline}: nothing is smoothed");
        for step in [40, 60, 64] {
            fs::remove_file(place.path(&format!("c/step-{step:010}.checkpoint"))).unwrap();
        }
        succeeds(place.train(&["--resume", "c", "--save", "again"]));
        assert!(place.read("smoothed") == place.read("again"), "{pipeline}: the resumed run ends elsewhere");
        let test_loss = |printed: &str| printed.split("test loss ").last().unwrap()[..6].to_owned();
        let tested = run(&["--load", "smoothed", "--epochs", "0"]);
        assert_eq!(test_loss(&printed), test_loss(&tested), "{pipeline}");
    }
}

#[test]
fn held_out_images_are_tested_and_not_learnt() {
    const HELD_OUT: usize = 133;
    let place = Place::with_idx();
    let (images, labels) = digits(633, 1);
    let split = 633 - HELD_OUT;
    fs::create_dir(place.path("by-hand")).unwrap();
    let halves = [("train", 0..split), ("t10k", split..633)];
    for (name, range) in halves {
        let (pixels, count) =
            (&images[range.start * SIDE * SIDE..range.end * SIDE * SIDE], range.len() as u32);
        place.write(&format!("by-hand/{name}-images-idx3-ubyte"), idx_images(count, pixels));
        place.write(&format!("by-hand/{name}-labels-idx1-ubyte"), idx_labels(count, &labels[range]));
    }
    let csv = Place::with_csv();
    for pipeline in ["fused", "overlapped"] {
        let more = ["--pipeline", pipeline, "--epochs", "1"];
        let held_out = flags(&[&more[..], &["--hold-out", "133", "--save", "w"]].concat());
        let printed = succeeds(place.train(&held_out));
        assert!(printed.contains("500 training and 133 test images"), "{printed}");
        assert!(printed.contains("held out from the training images"), "{printed}");
        let program = env!("CARGO_BIN_EXE_train-mnist");
        let by_hand = flags(&[&more[..], &["--save", "v"]].concat());
        let by_hand = place.program(program, &["--device", "cpu", "--data", "by-hand"], &by_hand);
        let expected = succeeds(by_hand);
        let result =
            |printed: &str| printed.lines().find(|line| line.starts_with("test accuracy")).map(str::to_owned);
        assert!(result(&printed).is_some() && result(&printed) == result(&expected), "{printed}{expected}");
        assert!(place.read("w") == place.read("v"), "{pipeline}: other images were learnt");
        succeeds(csv.train(&held_out));
        assert!(csv.read("w") == place.read("w"), "{pipeline}: other images of the CSV file were learnt");
    }
    for images in ["0", "633", "700"] {
        let needle =
            format!("--hold-out {images} cannot be used: cannot hold {images} of 633 training images out");
        place.refuses(place.train(&flags(&["--hold-out", images])), &[&needle]);
    }
}

#[test]
fn what_is_named_wins_over_a_preset() {
    let place = Place::with_idx();
    let preset = Preset::Record.applied_to(Config::new(Pipeline::Fused));
    succeeds(place.train(&["--preset", "record", "--hidden", "16", "--epochs", "1", "--save", "w"]));
    let (_, training) = load(&place, "w");
    assert_eq!((training.batch_size, training.lr), (preset.batch_size, preset.lr));
    assert_eq!((training.lr_schedule, training.lr_decay), (preset.lr_schedule, 1.0));
    assert_eq!((training.lr_warmup, training.label_smoothing), (preset.lr_warmup, preset.label_smoothing));
    assert!(preset.lr_warmup > 0.0 && preset.label_smoothing > 0.0);

    let named = ["--preset", "record", "--batch-size", "20", "--lr", "0.05", "--lr-schedule", "exponential"];
    let more = ["--hidden", "16", "--epochs", "2", "--target-accuracy", "100", "--save", "v"];
    let plain = ["--lr-decay", "0.5", "--lr-warmup", "0", "--label-smoothing", "0"];
    succeeds(place.train(&[&named[..], &plain, &more].concat()));
    let (_, training) = load(&place, "v");
    assert_eq!((training.batch_size.get(), training.lr, training.lr_decay), (20, 0.05, 0.5));
    assert_eq!(training.lr_schedule, LrSchedule::Exponential);
    assert_eq!((training.lr_warmup, training.label_smoothing), (0.0, 0.0));

    let momentum =
        ["--preset", "record", "--momentum", "0.5", "--hidden", "16", "--epochs", "1", "--save", "u"];
    succeeds(place.train(&momentum));
    assert_eq!(load(&place, "u").1.lr, Config::lr_for(preset.lr, 0.5));
}

#[test]
fn the_preset_is_what_was_chosen() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/results/record.md");
    let page = fs::read_to_string(path).unwrap();
    let preset = Preset::Record.applied_to(Config::new(Pipeline::Fused));
    let Config { batch_size, lr, lr_schedule, lr_warmup, label_smoothing, epochs, .. } = preset;
    let chosen = format!(
        "Chosen: batches of {batch_size}, learning rate {lr}, schedule {lr_schedule}, warm-up {lr_warmup}, label smoothing \
         {label_smoothing}, {epochs} epochs.\n"
    );
    assert!(page.contains(&chosen), "docs/results/record.md does not choose {chosen}");
}

#[test]
fn a_run_of_a_preset_is_resumed_with_it_or_without() {
    let place = Place::with_idx();
    // So narrow that both epochs are needed.
    let run = ["--preset", "record", "--hidden", "2", "--epochs", "2", "--target-accuracy", "100"];
    succeeds(place.train(&[&run[..], &["--checkpoint", "c", "--save", "w"]].concat()));
    for more in [&run[..], &[]] {
        succeeds(place.train(&[more, &["--resume", "c", "--save", "again"]].concat()));
        assert!(place.read("w") == place.read("again"), "there was nothing to train");
    }
    let other = ["--hidden", "2", "--epochs", "2", "--checkpoint", "d"];
    succeeds(place.train(&other));
    let needles = ["cannot be used to resume from", "whose run has"];
    place.refuses(place.train(&["--preset", "record", "--epochs", "2", "--resume", "d"]), &needles);
}

/// 633 images are 31 batches of 20, and 13 more.
#[test]
fn a_short_batch_can_be_left_out() {
    for pipeline in ["naive", "overlapped", "fused", "graph", "resident"] {
        let place = Place::with_idx();
        let on =
            ["--pipeline", pipeline, "--hidden", "16,12", "--batch-size", "20", "--lr", "0.1", "--seed", "7"];
        let run = |more: &[&str]| succeeds(place.train(&[&on[..], more].concat()));
        run(&["--drop-last", "--epochs", "1", "--save", "dropped"]);
        let every = ["--checkpoint-every", "31", "--checkpoint-keep", "9"];
        run(&[&["--epochs", "1", "--checkpoint", "c", "--save", "whole"], &every[..]].concat());
        let ((dropped, training), (whole, _)) = (load(&place, "dropped"), load(&place, "whole"));
        assert!(
            training.drop_last && dropped == load(&place, "c/step-0000000031.checkpoint").0,
            "{pipeline}"
        );
        assert!(dropped != whole, "{pipeline}: the short batch was not left out, or never there");
        assert_eq!(checkpoints(&place, "c"), [31, 32]);

        let every = ["--checkpoint-every", "20", "--checkpoint-keep", "9"];
        let flags = ["--drop-last", "--epochs", "2", "--checkpoint", "d", "--save", "two"];
        run(&[&flags[..], &every[..]].concat());
        assert_eq!(checkpoints(&place, "d"), [20, 40, 60, 62]);
        for step in [60, 62] {
            fs::remove_file(place.path(&format!("d/step-{step:010}.checkpoint"))).unwrap();
        }
        succeeds(place.train(&["--resume", "d", "--save", "resumed"]));
        assert!(place.read("two") == place.read("resumed"), "{pipeline}: the resumed run ends elsewhere");
    }
    let place = Place::with_idx();
    succeeds(place.train(&flags(&["--epochs", "2", "--checkpoint", "c"])));
    let needles = ["--drop-last true cannot be used to resume", "whose run has false"];
    place.refuses(place.train(&["--resume", "c", "--drop-last"]), &needles);
}

/// The steps of a folder's checkpoints.
fn checkpoints(place: &Place, folder: &str) -> Vec<u64> {
    let names = fs::read_dir(place.path(folder)).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let step = |name: String| name.strip_prefix("step-")?.strip_suffix(".checkpoint")?.parse().ok();
    let mut steps: Vec<u64> = names.filter_map(step).collect();
    steps.sort_unstable();
    steps
}
