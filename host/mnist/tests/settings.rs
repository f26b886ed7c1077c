//! Settings that change what is learnt, on every pipeline, and what a resumed run keeps of them.

use std::fs;

use crate::common::{Place, SIDE, digits, idx_images, idx_labels, succeeds, words};
use ferrowarp_mnist::checkpoint::{self, Training};
use ferrowarp_mnist::model::Parameters;

const PIPELINES: [&str; 5] = ["naive", "overlapped", "fused", "graph", "resident"];

fn load(place: &Place, name: &str) -> (Parameters, Training) {
    let checkpoint = checkpoint::load(&place.path(name)).unwrap();
    (checkpoint.parameters, checkpoint.training.unwrap())
}

/// Trains in batches of 20, of which an epoch has 31, and a short one.
fn train(place: &Place, pipeline: &str, more: &str) -> String {
    let on = format!("--pipeline {pipeline} --hidden 16,12 --batch-size 20 --seed 7 {more}");
    succeeds(place.train(&words(&on)))
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

/// Removes the checkpoints after step `last`, and resumes from there. The weights must be those of `whole`.
fn resume_from(place: &Place, last: u64, whole: &str, pipeline: &str) {
    for step in checkpoints(place, "c").into_iter().filter(|step| *step > last) {
        fs::remove_file(place.path(&format!("c/step-{step:010}.checkpoint"))).unwrap();
    }
    let printed = succeeds(place.train(&["--resume", "c", "--save", "again"]));
    assert!(printed.contains(&format!("{last} steps are done")), "{printed}");
    assert!(
        place.read(whole) == place.read("again"),
        "{pipeline}: resumed from step {last} it ends elsewhere"
    );
}

/// An epoch is one step, so one run per rate, one after the other, equals a run of several epochs.
#[test]
fn a_schedule_is_a_step_at_each_rate() {
    for (schedule, warmup, rates) in [
        ("linear", "0", [0.6875, 0.5625, 0.4375, 0.3125, 0.1875, 0.0625]),
        ("linear", "0.5", [0.125, 0.375, 0.625, 0.625, 0.375, 0.125]),
        ("trapezoid", "0", [0.75, 0.75, 0.75, 0.625, 0.375, 0.125]),
        ("constant", "0.5", [0.125, 0.375, 0.625, 0.75, 0.75, 0.75]),
    ] {
        let place = Place::with_idx();
        let run = |more: String| {
            succeeds(place.train(&words(&format!("--hidden 16 --batch-size 633 --lr-schedule {more}"))))
        };
        run(format!("{schedule} --epochs 6 --seed 7 --lr 0.75 --lr-warmup {warmup} --save whole"));
        for (step, rate) in rates.into_iter().enumerate() {
            let from = if step == 0 { "--seed 7".to_owned() } else { format!("--load {step}") };
            run(format!("constant --epochs 1 --lr {rate} --save {} {from}", step + 1));
        }
        let ((whole, training), (parts, _)) = (load(&place, "whole"), load(&place, "6"));
        assert!(whole == parts, "{schedule} after a warm-up of {warmup}: the rates are others");
        assert_eq!((training.lr_schedule.to_string(), training.lr_decay), (schedule.to_owned(), 1.0));
        assert_eq!(training.lr_warmup.to_string(), warmup);
    }
}

/// From within the warm-up, which ends in the middle of the 39th of 96 steps, and from after it.
#[test]
fn a_resumed_run_keeps_its_rates() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        let every = "--checkpoint c --checkpoint-every 20 --checkpoint-keep 9 --save w";
        train(&place, pipeline, &format!("--lr 0.3 --lr-schedule sqrt --lr-warmup 0.4 --epochs 2 {every}"));
        assert_eq!(checkpoints(&place, "c"), [20, 40, 60, 64]);
        for last in [60, 20] {
            resume_from(&place, last, "w", pipeline);
        }
    }
}

/// Even where only the warm-up depends on the length.
#[test]
fn a_resumed_run_keeps_its_length() {
    for how in ["--lr-schedule trapezoid", "--lr-warmup 0.2"] {
        let place = Place::with_idx();
        train(&place, "fused", &format!("{how} --epochs 3 --checkpoint c"));
        let needles = ["--epochs 4 cannot be used", "are for 3 epochs; choose 3", "--load"];
        place.refuses(place.train(&["--resume", "c", "--epochs", "4"]), &needles);
    }
}

/// The training loss is that of the smoothed targets, the test loss is not.
#[test]
fn smoothed_targets_are_learnt_in_parts_as_at_once() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        let every = "--checkpoint c --checkpoint-every 20 --checkpoint-keep 9";
        let printed = train(
            &place,
            pipeline,
            &format!("--lr 0.1 --epochs 2 {every} --label-smoothing 0.2 --save smoothed"),
        );
        train(&place, pipeline, "--lr 0.1 --epochs 2 --save plain");
        let (smoothed, training) = load(&place, "smoothed");
        assert_eq!(training.label_smoothing, 0.2);
        assert!(smoothed != load(&place, "plain").0, "{pipeline}: nothing is smoothed");
        resume_from(&place, 20, "smoothed", pipeline);
        let test_loss = |printed: &str| printed.split("test loss ").last().unwrap()[..6].to_owned();
        let tested = train(&place, pipeline, "--load smoothed --epochs 0");
        assert_eq!(test_loss(&printed), test_loss(&tested), "{pipeline}");
    }
}

#[test]
fn held_out_images_are_tested_and_not_learnt() {
    let (place, csv) = (Place::with_idx(), Place::with_csv());
    let (images, labels) = digits(633, 1);
    fs::create_dir(place.path("by-hand")).unwrap();
    for (name, range) in [("train", 0..500), ("t10k", 500..633)] {
        let pixels = &images[range.start * SIDE * SIDE..range.end * SIDE * SIDE];
        let count = range.len() as u32;
        place.write(&format!("by-hand/{name}-images-idx3-ubyte"), idx_images(count, pixels));
        place.write(&format!("by-hand/{name}-labels-idx1-ubyte"), idx_labels(count, &labels[range]));
    }
    for pipeline in ["fused", "overlapped"] {
        let held_out = "--epochs 1 --hold-out 133 --save w";
        let printed = train(&place, pipeline, held_out);
        assert!(printed.contains("500 training and 133 test images"), "{printed}");
        assert!(printed.contains("held out from the training images"), "{printed}");
        let by_hand = format!(
            "--device cpu --data by-hand --pipeline {pipeline} --hidden 16,12 --batch-size 20 --seed 7 --epochs 1 --save v"
        );
        let program = env!("CARGO_BIN_EXE_train-mnist");
        let expected = succeeds(place.program(program, &words(&by_hand), &[]));
        let result =
            |printed: &str| printed.lines().find(|line| line.starts_with("test accuracy")).map(str::to_owned);
        assert!(result(&printed).is_some() && result(&printed) == result(&expected), "{printed}{expected}");
        assert!(place.read("w") == place.read("v"), "{pipeline}: other images were learnt");
        train(&csv, pipeline, held_out);
        assert!(csv.read("w") == place.read("w"), "{pipeline}: other images of the CSV file were learnt");
    }
}

#[test]
fn a_short_batch_can_be_dropped() {
    for pipeline in PIPELINES {
        let place = Place::with_idx();
        train(&place, pipeline, "--lr 0.1 --drop-last --epochs 1 --save dropped");
        let every = "--checkpoint-every 31 --checkpoint-keep 9";
        train(&place, pipeline, &format!("--lr 0.1 --epochs 1 --checkpoint d --save whole {every}"));
        assert_eq!(checkpoints(&place, "d"), [31, 32]);
        let ((dropped, training), (whole, _)) = (load(&place, "dropped"), load(&place, "whole"));
        let before = load(&place, "d/step-0000000031.checkpoint").0;
        assert!(training.drop_last && dropped == before, "{pipeline}");
        assert!(dropped != whole, "{pipeline}: the short batch was not dropped, or never there");

        let every = "--checkpoint c --checkpoint-every 20 --checkpoint-keep 9";
        train(&place, pipeline, &format!("--lr 0.1 --drop-last --epochs 2 --save two {every}"));
        assert_eq!(checkpoints(&place, "c"), [20, 40, 60, 62]);
        resume_from(&place, 40, "two", pipeline);
    }
}
