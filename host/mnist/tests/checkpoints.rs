//! Checkpoints through the program: what a resumed run takes over, what it refuses, and what happens when a checkpoint
//! is damaged, cannot be written, or would hold a training that has diverged.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Place, SIDE, digits, idx_images, succeeds, words};
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::LayerParameters;
use gpu_kernels::mlp::batch;

/// A run with 32 steps per epoch: 633 images in batches of 20.
const SMALL: &str = "--hidden 16 --batch-size 20 --lr 0.1 --seed 7";

fn small(place: &Place, more: &str) -> Command {
    place.train(&words(&format!("{SMALL} {more}")))
}

fn names(place: &Place, dir: &str) -> Vec<String> {
    let entries = fs::read_dir(place.path(dir)).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn file(steps: usize) -> String {
    format!("step-{steps:010}.checkpoint")
}

/// Runs `command`, which must fail with all of `needles` in its message.
#[track_caller]
fn fails(mut command: Command, needles: &[&str]) -> String {
    let output = command.output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(!message.contains("panicked"), "{message}");
    for needle in needles {
        assert!(message.contains(needle), "`{needle}` is not in: {message}");
    }
    message
}

#[test]
fn the_last_checkpoints_are_kept_and_one_is_at_the_end() {
    let place = Place::with_run();
    assert_eq!(names(&place, "c"), [55, 60, 64].map(file));
    succeeds(small(&place, "--epochs 3 --checkpoint d --checkpoint-keep 2 --save planned"));
    assert_eq!(names(&place, "d"), [64, 96].map(file));
    succeeds(small(&place, "--epochs 2 --save without"));
    assert!(place.read("w") == place.read("without"), "writing checkpoints changes the weights");
    // As if three epochs had been planned.
    let printed = succeeds(place.train(&words("--resume c --epochs 3 --save longer")));
    assert!(printed.contains("the run now has 3 epochs instead of 2"), "{printed}");
    assert!(place.read("longer") == place.read("planned"), "the resumed run ends elsewhere");
}

#[test]
fn a_resumed_run_keeps_its_settings() {
    let place = Place::with_run();
    // The complete run has nothing left to train. What the run has may be repeated.
    let printed =
        succeeds(small(&place, "--resume c --pipeline fused --momentum 0 --save again --metrics m --plot p"));
    assert!(!printed.contains("epoch 2/2: "), "{printed}");
    assert!(place.read("w") == place.read("again"), "there was nothing to train");
    assert_eq!(String::from_utf8(place.read("m")).unwrap().lines().count(), 2);
    assert!(place.read("p").starts_with(b"<svg "));

    fs::remove_file(place.path("c").join(file(64))).unwrap();
    succeeds(place.train(&words("--resume c --checkpoint d --checkpoint-every 2 --save elsewhere")));
    assert_eq!(names(&place, "c"), [55, 60].map(file));
    assert_eq!(names(&place, "d"), [62, 64].map(file));
    assert!(place.read("w") == place.read("elsewhere"), "the run in another folder ends elsewhere");

    let printed = succeeds(place.train(&words("--resume c --save again")));
    let needle = format!("continuing from c/{}: 60 steps are done, 28 of them in epoch 2", file(60));
    assert!(printed.contains(&needle), "{printed}");
    assert!(printed.contains("epoch 2/2: ") && !printed.contains("epoch 1/2: "), "{printed}");
    assert!(place.read("w") == place.read("again"), "the resumed run ends elsewhere");
    assert_eq!(names(&place, "c"), [55, 60, 64].map(file));
}

#[test]
fn the_weights_of_a_checkpoint_start_another_run() {
    let place = Place::with_run();
    let newest = format!("c/{}", file(64));
    for (from, to) in [(&*newest, "from_checkpoint"), ("w", "from_weights")] {
        succeeds(place.train(&words(&format!("--load {from} --batch-size 50 --epochs 1 --save {to}"))));
    }
    assert!(place.read("from_checkpoint") == place.read("from_weights"), "these are the same weights");
    succeeds(place.predict(&["--model", &newest, "0"]));
}

#[test]
fn a_damaged_checkpoint_is_reported_and_the_one_before_is_taken() {
    let place = Place::with_run();
    let newest = place.path("c").join(file(64));
    let bytes = fs::read(&newest).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() - 1000] ^= 4;
    for (damage, needle) in [
        (&bytes[..bytes.len() - 1], "not an intact"),
        (&flipped, "its checksum is wrong"),
        (b"", "not an intact"),
    ] {
        fs::write(&newest, damage).unwrap();
        let output = place.train(&["--resume", "c", "--save", "again"]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{message}");
        let warning = format!("warning: c/{}", file(64));
        assert!(message.starts_with(&warning) && message.contains(needle), "{message}");
        assert!(String::from_utf8(output.stdout).unwrap().contains(&file(60)));
        assert!(place.read("w") == place.read("again"), "the resumed run ends elsewhere");
        let found = checkpoint::newest(&place.path("c")).unwrap();
        assert!(found.skipped.is_empty(), "the damaged file is replaced");
    }
    for steps in [55, 60, 64] {
        place.write(&format!("c/{}", file(steps)), "x");
    }
    let needles =
        ["none of the 3 checkpoints in c can be used", &file(64), "is not an intact safetensors file"];
    place.refuses(place.train(&["--resume", "c"]), &needles);
}

#[test]
fn a_checkpoint_under_the_name_of_another_step_does_not_hide_the_newest() {
    let place = Place::with_run();
    fs::copy(place.path("c").join(file(60)), place.path("c/step-9999999999.checkpoint")).unwrap();
    let output = place.train(&["--resume", "c", "--save", "again"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    let needle =
        format!("its name is that of step 9999999999, but it holds step 60; rename it to {}", file(60));
    assert!(message.contains(&needle), "{message}");
    assert!(String::from_utf8(output.stdout).unwrap().contains(&file(64)));
}

/// As a full disk does, a limit on the size of files makes a write fail after its first bytes.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_run_and_keeps_what_there_is() {
    let place = Place::with_idx();
    let limited = |bytes: u64| {
        let command = format!(
            "trap '' XFSZ; prlimit --fsize={bytes} --pid $$ && exec \"$0\" --device cpu --data data {SMALL} --epochs 1 \
             --checkpoint c --checkpoint-every 30 --save w"
        );
        place.program("sh", &["-c", &command, env!("CARGO_BIN_EXE_train-mnist")], &[])
    };
    succeeds(small(&place, "--epochs 1 --checkpoint measured --checkpoint-every 30"));
    let size = |steps| fs::metadata(place.path("measured").join(file(steps))).unwrap().len();
    let needles = ["could not write the checkpoint c/step-0000000030.checkpoint", "File too large"];
    fails(limited(size(30) / 2), &needles);
    assert!(names(&place, "c").is_empty());

    // The first checkpoint fits under the limit, and the one with the first epoch's record does not.
    let needles = [
        "could not write the checkpoint c/step-0000000032.checkpoint",
        &format!("the last good checkpoint is c/{}", file(30)),
        "make room, or name another folder with --checkpoint",
        "File too large",
        &format!("note: c/{} is intact; continue with:", file(30)),
    ];
    fails(limited(size(30).midpoint(size(32))), &needles);
    assert_eq!(names(&place, "c"), [file(30)]);
    assert!(checkpoint::newest(&place.path("c")).unwrap().skipped.is_empty());
    assert!(place.path("w").exists(), "the last checkpoint is no reason to lose the result");
    // With room, the run goes on.
    succeeds(place.train(&["--resume", "c", "--save", "again"]));
    assert!(place.read("w") == place.read("again"), "the resumed run ends elsewhere");
}

/// The step of an epoch in which one image makes the loss infinite.
const BAD_STEP: usize = 18;

/// A place where one image, of the training or of the test, is the only one whose first pixel is not black, and where
/// `spoil` has changed weights that have had an epoch. They are in `start`.
fn with_bad_start(bad: (&str, usize), spoil: impl Fn(&mut LayerParameters)) -> Place {
    let place = Place::with_idx();
    for (name, count, seed) in [("train", 633, 1), ("t10k", 100, 2)] {
        let (mut images, _) = digits(count, seed);
        for (index, image) in images.chunks_mut(SIDE * SIDE).enumerate() {
            image[0] = if (name, index) == bad { 255 } else { 0 };
        }
        place.write(&format!("data/{name}-images-idx3-ubyte"), idx_images(count as u32, &images));
    }
    succeeds(small(&place, "--epochs 1 --save start"));
    let mut start = checkpoint::load(&place.path("start")).unwrap();
    spoil(&mut start.parameters.layers[0]);
    checkpoint::save(&place.path("start"), &start.parameters, &start.training.unwrap()).unwrap();
    place
}

/// The first pixel's weights as large as can be. No step moves them before the image that has this pixel.
fn cliff(layer: &mut LayerParameters) {
    layer.weights[..layer.outputs].fill(f32::MAX);
}

/// A place where the step [`BAD_STEP`] of the second epoch meets the image with the first pixel.
fn with_a_cliff() -> Place {
    let bad = batch::permuted(20 * (BAD_STEP as u32 - 1) + 11, 633, 7, 1) as usize;
    with_bad_start(("train", bad), cliff)
}

#[test]
fn a_run_that_diverges_names_the_step_and_the_last_good_checkpoint() {
    let diverged = format!("error: training diverged in epoch 2 at step {BAD_STEP}: the loss is ");
    for every in [1, 4, 17, 18, 1000] {
        let place = with_a_cliff();
        let run = format!("--load start --checkpoint c --checkpoint-every {every} --save w");
        // The steps after which the loss of the next step is finite.
        let good = (0..BAD_STEP - 1).rev().find(|steps| steps % every == 0).filter(|&steps| steps > 0);
        let newest = good.map(|steps| format!("c/{}", file(steps)));
        let last_good = match &newest {
            Some(path) => format!("the last good checkpoint is {path}"),
            None => "no checkpoint was written before".to_owned(),
        };
        fails(small(&place, &run), &[&diverged, "choose a learning rate below 0.07", &last_good]);
        assert!(!place.path("w").exists());
        let Some(newest) = newest else { continue };
        let found = checkpoint::newest(&place.path("c")).unwrap();
        assert_eq!(Some(&*newest), found.path.strip_prefix(place.path("")).ok().and_then(Path::to_str));
        assert!(found.skipped.is_empty());
        // Bit for bit the same run, so it ends in the same way.
        fails(place.train(&["--resume", "c"]), &[&diverged, &last_good]);
    }
}

#[test]
fn without_checkpoints_the_same_step_is_named() {
    let place = with_a_cliff();
    let needle = format!("training diverged in epoch 2 at step {BAD_STEP}: the loss is ");
    for pipeline in ["fused", "naive", "deferred", "overlapped", "graph"] {
        fails(small(&place, &format!("--load start --pipeline {pipeline}")), &[&needle, "no checkpoint"]);
    }
}

#[test]
fn a_test_that_diverges_leaves_no_checkpoint_of_its_epoch() {
    let place = with_bad_start(("t10k", 50), cliff);
    let needles = [
        "training diverged in epoch 2 at step 32: the loss of the test images after it is ",
        &format!("the last good checkpoint is c/{}", file(16)),
    ];
    fails(small(&place, "--load start --checkpoint c --checkpoint-every 16 --save w"), &needles);
    assert_eq!(names(&place, "c"), [file(16)]);
}

/// A unit with a bias of minus infinity is silent, so no loss shows it.
#[test]
fn an_infinite_weight_is_not_saved() {
    let place = with_bad_start(("train", 0), |_| ());
    succeeds(small(&place, "--load start --checkpoint c"));
    let mut found = checkpoint::newest(&place.path("c")).unwrap();
    found.snapshot.parameters.layers[0].biases[0] = f32::NEG_INFINITY;
    fs::write(&found.path, found.snapshot.to_bytes().unwrap()).unwrap();
    let before = names(&place, "c");
    fails(
        place.train(&["--resume", "c", "--epochs", "9"]),
        &["training diverged", "a weight after it is -inf"],
    );
    assert_eq!(names(&place, "c"), before);
}
