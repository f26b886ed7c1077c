//! Checkpoints through the program: what a resumed run takes over, what it refuses, and what happens when a checkpoint
//! is damaged, cannot be written, or would hold a training that has diverged.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Place, SIDE, digits, idx_images, idx_labels, succeeds};
use ferrowarp_mnist::checkpoint;
use ferrowarp_mnist::model::LayerParameters;
use gpu_kernels::mlp::batch;

const SMALL: [&str; 8] = ["--hidden", "16", "--batch-size", "20", "--lr", "0.1", "--seed", "7"];
/// Steps of an epoch of [`SMALL`]: 633 images in batches of 20.
const STEPS: usize = 32;

fn flags<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&SMALL[..], more].concat()
}

/// A place with a run of two epochs, whose checkpoints are in `c`, a step apart, and its weights in `w`.
fn with_run() -> Place {
    let place = Place::with_idx();
    let more = ["--epochs", "2", "--checkpoint", "c", "--checkpoint-every", "5", "--save", "w"];
    succeeds(place.train(&flags(&more)));
    place
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
    let place = with_run();
    assert_eq!(names(&place, "c"), [55, 60, 64].map(file));
    succeeds(place.train(&flags(&["--epochs", "3", "--checkpoint", "d", "--checkpoint-keep", "2"])));
    assert_eq!(names(&place, "d"), [2 * STEPS, 3 * STEPS].map(file));
}

#[test]
fn checkpoints_do_not_change_the_weights() {
    let place = with_run();
    succeeds(place.train(&flags(&["--epochs", "2", "--save", "without"])));
    assert!(place.read("w") == place.read("without"), "writing checkpoints changes the weights");
}

#[test]
fn a_resumed_run_takes_its_settings_over() {
    let place = with_run();
    fs::remove_file(place.path("c").join(file(64))).unwrap();
    let printed = succeeds(place.train(&["--resume", "c", "--save", "again"]));
    let needle = format!("continuing from c/{}: 60 steps are done, 28 of them in epoch 2", file(60));
    assert!(printed.contains(&needle), "{printed}");
    assert!(printed.contains("epoch 2/2: ") && !printed.contains("epoch 1/2: "), "{printed}");
    assert!(place.read("w") == place.read("again"), "the resumed run ends elsewhere");
    assert_eq!(names(&place, "c"), [55, 60, 64].map(file));
}

#[test]
fn a_complete_run_is_resumed_to_its_end() {
    let place = with_run();
    let printed =
        succeeds(place.train(&["--resume", "c", "--save", "again", "--metrics", "m", "--plot", "p"]));
    assert!(!printed.contains("epoch 2/2: "), "{printed}");
    assert!(place.read("w") == place.read("again"), "there was nothing to train");
    assert_eq!(String::from_utf8(place.read("m")).unwrap().lines().count(), 2);
    assert!(place.read("p").starts_with(b"<svg "));
}

#[test]
fn more_epochs_go_on_as_if_they_had_been_planned() {
    let place = with_run();
    let printed = succeeds(place.train(&["--resume", "c", "--epochs", "3", "--save", "longer"]));
    assert!(printed.contains("the run now has 3 epochs instead of 2"), "{printed}");
    succeeds(place.train(&flags(&["--epochs", "3", "--save", "planned"])));
    assert!(place.read("longer") == place.read("planned"), "the resumed run ends elsewhere");
    let needles = ["--epochs 1 cannot be used", "is in epoch 3 of its run", "at least that"];
    place.refuses(place.train(&["--resume", "c", "--epochs", "1"]), &needles);
}

#[test]
fn a_resumed_run_goes_on_in_another_folder() {
    let place = with_run();
    fs::remove_file(place.path("c").join(file(64))).unwrap();
    let flags = ["--resume", "c", "--checkpoint", "d", "--checkpoint-every", "2", "--save", "again"];
    succeeds(place.train(&flags));
    assert_eq!(names(&place, "c"), [55, 60].map(file));
    assert_eq!(names(&place, "d"), [62, 64].map(file));
    assert!(place.read("w") == place.read("again"), "the resumed run ends elsewhere");
}

#[test]
fn the_weights_of_a_checkpoint_start_another_run() {
    let place = with_run();
    let newest = format!("c/{}", file(64));
    let more = ["--batch-size", "50", "--epochs", "1", "--save"];
    succeeds(place.train(&[&["--load", &newest], &more[..], &["from_checkpoint"]].concat()));
    succeeds(place.train(&[&["--load", "w"], &more[..], &["from_weights"]].concat()));
    assert!(place.read("from_checkpoint") == place.read("from_weights"), "these are the same weights");
    succeeds(place.predict(&["--model", &newest, "0"]));
}

#[test]
fn other_settings_are_refused() {
    let place = with_run();
    let newest = format!("c/{}", file(64));
    for (flag, value, found) in [
        ("--hidden", "17", "16"),
        ("--hidden", "16,16", "16"),
        ("--batch-size", "64", "20"),
        ("--lr", "0.3", "0.1"),
        ("--lr-decay", "0.5", "0.7"),
        ("--lr-schedule", "linear", "exponential"),
        ("--lr-warmup", "0.1", "0"),
        ("--momentum", "0.5", "0"),
        ("--label-smoothing", "0.1", "0"),
        ("--seed", "0", "7"),
        ("--pipeline", "naive", "fused"),
    ] {
        let cannot = format!("{flag} {value} cannot be used to resume from {newest}, whose run has {found}");
        let cure = format!("omit {flag} to continue with {found}");
        place.refuses(place.train(&["--resume", "c", flag, value]), &[&cannot, &cure]);
    }
    // What the run has may be named.
    succeeds(place.train(&flags(&["--resume", "c", "--pipeline", "fused", "--momentum", "0"])));
}

#[test]
fn another_data_set_is_refused() {
    let place = with_run();
    let (images, mut labels) = digits(100, 2);
    labels[99] = (labels[99] + 1) % 10;
    place.write("data/t10k-labels-idx1-ubyte", idx_labels(100, &labels));
    let needles = ["the data set is not the one", "633 training and 100 test images", "--data"];
    place.refuses(place.train(&["--resume", "c"]), &needles);
    place.write("data/t10k-images-idx3-ubyte", idx_images(99, &images[..99 * SIDE * SIDE]));
    place.write("data/t10k-labels-idx1-ubyte", idx_labels(99, &labels[..99]));
    place.refuses(place.train(&["--resume", "c"]), &["99 test images", "expected 633 training and 100 test"]);
}

#[test]
fn a_damaged_checkpoint_is_told_and_the_one_before_is_taken() {
    let place = with_run();
    let newest = place.path("c").join(file(64));
    let bytes = fs::read(&newest).unwrap();
    let mut flipped = bytes.clone();
    flipped[bytes.len() / 2] ^= 4;
    for (damage, needle) in
        [(&bytes[..bytes.len() - 1], "it is truncated"), (&flipped, "its checksum is wrong"), (b"", "empty")]
    {
        fs::write(&newest, damage).unwrap();
        let output = place.train(&["--resume", "c", "--save", "again"]).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{message}");
        let warning = format!("warning: c/{} cannot be used: ", file(64));
        assert!(message.starts_with(&warning) && message.contains(needle), "{message}");
        assert!(String::from_utf8(output.stdout).unwrap().contains(&file(60)));
        assert!(place.read("w") == place.read("again"), "the resumed run ends elsewhere");
        let found = checkpoint::newest(&place.path("c")).unwrap();
        assert!(found.skipped.is_empty(), "the damaged file is replaced");
    }
    for steps in [55, 60, 64] {
        place.write(&format!("c/{}", file(steps)), "x");
    }
    let needles = ["none of the 3 checkpoints in c can be used", &file(64), "is not a checkpoint"];
    place.refuses(place.train(&["--resume", "c"]), &needles);
}

#[test]
fn a_checkpoint_under_the_name_of_another_step_does_not_hide_the_newest() {
    let place = with_run();
    fs::copy(place.path("c").join(file(60)), place.path("c/step-9999999999.checkpoint")).unwrap();
    let output = place.train(&["--resume", "c", "--save", "again"]).output().unwrap();
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{message}");
    let needle =
        format!("its name is that of step 9999999999, but it holds step 60; rename it to {}", file(60));
    assert!(message.contains(&needle), "{message}");
    assert!(String::from_utf8(output.stdout).unwrap().contains(&file(64)));
}

#[test]
fn folders_that_cannot_be_used() {
    let place = with_run();
    place.write("file", "x");
    let checkpoint = |dir: &str| place.train(&flags(&["--checkpoint", dir]));
    for dir in ["file", "file/below"] {
        let needle = format!("{dir} cannot be used as a folder of checkpoints");
        place.refuses(checkpoint(dir), &[&needle, "choose one that can be created and written"]);
    }
    place.refuses(checkpoint("c"), &["c already holds checkpoints of a run", &file(64), "--resume c"]);
    place.refuses(place.train(&["--resume", "file"]), &["file cannot be used as a folder of checkpoints"]);
    place.refuses(place.train(&["--resume", "missing"]), &["missing cannot be used as a folder"]);
    place.refuses(place.train(&["--resume", "data"]), &["there is no checkpoint in data"]);
    for flag in ["--checkpoint-every", "--checkpoint-keep"] {
        place.refuses(place.train(&[flag, "3"]), &["--checkpoint <DIR>", "--resume <DIR>"]);
        let needle = format!("{flag} 0 cannot be used");
        place.refuses(place.train(&["--checkpoint", "d", flag, "0"]), &[&needle]);
    }
    place.refuses(place.train(&["--resume", "c", "--load", "w"]), &["--load", "--resume"]);
}

/// As a full disk does, a limit on the size of files makes a write fail after its first bytes.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_the_run_and_keeps_what_there_is() {
    let place = Place::with_idx();
    let limited = |bytes: u64| {
        let command = format!(
            "trap '' XFSZ; prlimit --fsize={bytes} --pid $$ && exec \"$0\" --device cpu --data data {} --epochs 1 \
             --checkpoint c --checkpoint-every 30 --save w",
            SMALL.join(" ")
        );
        place.program("sh", &["-c", &command, env!("CARGO_BIN_EXE_train-mnist")], &[])
    };
    succeeds(place.train(&flags(&["--epochs", "1", "--checkpoint", "measured", "--checkpoint-every", "30"])));
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

/// A user who may write everywhere cannot be kept from writing.
#[cfg(unix)]
#[test]
fn a_folder_without_permission() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::with_idx();
    fs::create_dir(place.path("c")).unwrap();
    fs::set_permissions(place.path("c"), fs::Permissions::from_mode(0o555)).unwrap();
    if fs::write(place.path("c/probe"), "").is_ok() {
        return;
    }
    place.refuses(
        place.train(&["--checkpoint", "c"]),
        &["c cannot be used as a folder of checkpoints", "Permission denied"],
    );
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
    succeeds(place.train(&flags(&["--epochs", "1", "--save", "start"])));
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
        let n = every.to_string();
        let run = flags(&["--load", "start", "--checkpoint", "c", "--checkpoint-every", &n, "--save", "w"]);
        // The steps after which the loss of the next step is finite.
        let good = (0..BAD_STEP - 1).rev().find(|steps| steps % every == 0).filter(|&steps| steps > 0);
        let newest = good.map(|steps| format!("c/{}", file(steps)));
        let last_good = match &newest {
            Some(path) => format!("the last good checkpoint is {path}"),
            None => "no checkpoint was written before".to_owned(),
        };
        fails(place.train(&run), &[&diverged, "choose a learning rate below 0.07", &last_good]);
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
        fails(place.train(&flags(&["--load", "start", "--pipeline", pipeline])), &[&needle, "no checkpoint"]);
    }
}

#[test]
fn a_test_that_diverges_leaves_no_checkpoint_of_its_epoch() {
    let place = with_bad_start(("t10k", 50), cliff);
    let run = flags(&["--load", "start", "--checkpoint", "c", "--checkpoint-every", "16", "--save", "w"]);
    let needles = [
        "training diverged in epoch 2 at step 32: the loss of the test images after it is ",
        &format!("the last good checkpoint is c/{}", file(16)),
    ];
    fails(place.train(&run), &needles);
    assert_eq!(names(&place, "c"), [file(16)]);
}

/// A unit with a bias of minus infinity is silent, so no loss shows it.
#[test]
fn an_infinite_weight_is_not_saved() {
    let place = with_bad_start(("train", 0), |_| ());
    succeeds(place.train(&flags(&["--load", "start", "--checkpoint", "c"])));
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

#[test]
fn a_learning_rate_that_diverges() {
    let place = Place::with_idx();
    for every in ["1", "1000"] {
        let _ = fs::remove_dir_all(place.path("c"));
        let run = ["--lr", "1e30", "--hidden", "16", "--checkpoint", "c", "--checkpoint-every", every];
        fails(
            place.train(&run),
            &["training diverged in epoch 1 at step 2: the loss is NaN", "no checkpoint"],
        );
        assert!(names(&place, "c").is_empty());
    }
}
