//! Runs that are killed or interrupted at any moment, and go on as if nothing had been.
#![cfg(unix)]

use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::{Place, Random, signal, started, stopped, succeeds};
use ferrowarp_mnist::checkpoint::{self, Snapshot};
use serde_json::Value;

/// Kills of a run of each rung of the ladder.
const KILLS: u32 = 5;

const WITH_MOMENTUM: [&str; 16] = [
    "--hidden",
    "24,16",
    "--batch-size",
    "20",
    "--epochs",
    "2",
    "--momentum",
    "0.5",
    "--lr",
    "0.1",
    "--seed",
    "3",
    "--metrics",
    "metrics.jsonl",
    "--save",
    "weights",
];

const PLAIN: [&str; 12] = [
    "--hidden",
    "32",
    "--batch-size",
    "25",
    "--epochs",
    "3",
    "--seed",
    "5",
    "--metrics",
    "metrics.jsonl",
    "--save",
    "weights",
];

const CHECKPOINTS: [&str; 4] = ["--checkpoint", "checkpoints", "--checkpoint-every", "3"];

/// The lines of the metrics without what depends on the clock.
fn metrics(place: &Place) -> Vec<Value> {
    let text = String::from_utf8(place.read("metrics.jsonl")).unwrap();
    let without_times = |line| {
        let mut epoch: Value = serde_json::from_str(line).unwrap();
        let keys = ["seconds", "test_seconds", "images_per_second"];
        assert!(keys.iter().all(|&key| epoch.as_object_mut().unwrap().remove(key).is_some()), "{line}");
        epoch
    };
    text.lines().map(without_times).collect()
}

/// What must not depend on interruptions.
#[derive(PartialEq)]
struct Ending {
    weights: Vec<u8>,
    metrics: Vec<Value>,
    tested: String,
    last: Snapshot,
}

impl Ending {
    fn of(place: &Place, printed: &str) -> Ending {
        let tested = printed.lines().find(|line| line.starts_with("test accuracy"));
        let mut last = checkpoint::newest(&place.path("checkpoints")).unwrap().snapshot;
        last.progress.seconds = 0.0;
        for record in &mut last.records {
            (record.seconds, record.test_seconds, record.images_per_second) = (0.0, 0.0, 0.0);
        }
        Ending {
            weights: place.read("weights"),
            metrics: metrics(place),
            tested: tested.expect("the run tells its accuracy").to_owned(),
            last,
        }
    }
}

/// Whether a checkpoint is being written right now.
fn is_writing(place: &Place) -> bool {
    names(place).iter().any(|name| name.starts_with(".checkpoint-"))
}

fn checkpoints(place: &Place) -> usize {
    names(place).iter().filter(|name| name.ends_with(".checkpoint")).count()
}

fn names(place: &Place) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place.path("checkpoints")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Starts the run again and again until it is killed before it has ended: `moment` after its start or, `in_write`, in
/// the first write of a checkpoint after that.
fn kill_once(place: &Place, flags: &[&str], mut moment: Duration, in_write: bool) {
    loop {
        let _ = fs::remove_dir_all(place.path("checkpoints"));
        let started = Instant::now();
        let mut child = place.train(flags).spawn().unwrap();
        while started.elapsed() < moment || (in_write && !is_writing(place)) {
            if child.try_wait().unwrap().is_some() {
                break;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
        let has_ended = child.try_wait().unwrap().is_some();
        // `kill` is SIGKILL.
        let _ = child.kill();
        child.wait().unwrap();
        if !has_ended {
            return;
        }
        assert!(!moment.is_zero(), "the run writes no checkpoint");
        moment /= 2;
    }
}

/// Ends a run that was killed.
fn go_on(place: &Place, flags: &[&str]) -> String {
    let resume = ["--resume", "checkpoints"];
    let is_there = checkpoints(place) > 0;
    succeeds(place.train(&[flags, if is_there { &resume[..] } else { &[] }].concat()))
}

fn kills_change_nothing(flags: &[&str], seed: u64) {
    let flags = [flags, &CHECKPOINTS].concat();
    let place = Place::with_idx();
    let started = Instant::now();
    let printed = succeeds(place.train(&flags));
    let duration = started.elapsed();
    let whole = Ending::of(&place, &printed);
    let keep = checkpoints(&place);
    assert_eq!(keep, ferrowarp_mnist::train::DEFAULT_KEEP);

    let mut random = Random(seed);
    let mut resumed = 0;
    for kill in 0..KILLS {
        for file in ["weights", "metrics.jsonl"] {
            fs::remove_file(place.path(file)).unwrap();
        }
        // One random moment in each part of the run's duration.
        let within = (random.next() % 1000) as f64 / 1000.0;
        let moment = duration.mul_f64((f64::from(kill) + within) / f64::from(KILLS));
        kill_once(&place, &flags, moment, kill % 2 == 1);
        if checkpoints(&place) > 0 {
            resumed += 1;
            let found = checkpoint::newest(&place.path("checkpoints")).unwrap();
            assert!(
                found.skipped.is_empty(),
                "a file under its last name is not complete: {:?}",
                found.skipped
            );
        }
        let result = Ending::of(&place, &go_on(&place, &flags));
        assert!(result == whole, "seed {seed}, kill {kill} after {moment:?}: the resumed run ends elsewhere");
        assert_eq!((checkpoints(&place), is_writing(&place)), (keep, false), "{:?}", names(&place));
    }
    assert!(resumed >= KILLS / 4, "only {resumed} of the runs were killed after a checkpoint");
}

#[test]
fn kills_change_nothing_with_momentum() {
    for (pipeline, seed) in [("fused", 1), ("deferred", 2), ("graph", 3)] {
        kills_change_nothing(&[&WITH_MOMENTUM[..], &["--pipeline", pipeline]].concat(), seed);
    }
}

#[test]
fn kills_change_nothing_without_momentum() {
    for (pipeline, seed) in [("naive", 4), ("overlapped", 5), ("graph", 6)] {
        kills_change_nothing(&[&PLAIN[..], &["--pipeline", pipeline]].concat(), seed);
    }
}

/// A run that is killed in every second write of a checkpoint, and so gets on by one checkpoint each time.
#[test]
fn a_run_that_is_killed_again_and_again_ends() {
    let flags = [&WITH_MOMENTUM[..], &CHECKPOINTS].concat();
    let (killed, whole) = (Place::with_idx(), Place::with_idx());
    let whole = Ending::of(&whole, &succeeds(whole.train(&flags)));
    let mut kills = 0;
    let result = loop {
        let before = checkpoints(&killed);
        let resume: &[&str] = if before > 0 { &["--resume", "checkpoints"] } else { &[] };
        let newest = |place: &Place| names(place).into_iter().filter(|name| !name.starts_with('.')).max();
        let begun_at = newest(&killed);
        let mut child = killed.train(&[&flags[..], resume].concat()).spawn().unwrap();
        // A new checkpoint, and the next one begun.
        while child.try_wait().unwrap().is_none() && !(newest(&killed) > begun_at && is_writing(&killed)) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let _ = child.kill();
        let Output { status, stdout, .. } = child.wait_with_output().unwrap();
        if status.success() {
            break Ending::of(&killed, &String::from_utf8(stdout).unwrap());
        }
        assert_eq!(status.code(), None, "the run failed by itself");
        kills += 1;
    };
    assert!(kills > 3, "{kills}");
    assert!(result == whole, "after {kills} kills the run ends elsewhere");
}

fn interrupted_run(name: &str, code: i32) {
    let long =
        [&["--epochs", "80"], &WITH_MOMENTUM[6..], &["--hidden", "24,16", "--batch-size", "20"]].concat();
    let place = Place::with_idx();
    succeeds(place.train(&[&long[..], &["--checkpoint", "whole"]].concat()));
    let whole = place.read("weights");
    fs::remove_file(place.path("weights")).unwrap();

    let child = place.train(&[&long[..], &["--checkpoint", "checkpoints"]].concat()).spawn().unwrap();
    while checkpoints(&place) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, name);
    let (exit_code, message) = stopped(child);
    assert_eq!(exit_code, Some(code), "{message}");
    assert!(message.starts_with("interrupted: stopped after step "), "{message}");
    assert!(message.contains("the state is in checkpoints/step-"), "{message}");
    assert!(message.contains(", the weights in weights;"), "{message}");
    let saved = checkpoint::load(&place.path("weights")).unwrap();
    let found = checkpoint::newest(&place.path("checkpoints")).unwrap();
    assert!(saved.parameters == found.snapshot.parameters && saved.training == Some(found.snapshot.training));

    let command = message.lines().last().unwrap().trim();
    assert!(command.ends_with("--checkpoint checkpoints --resume checkpoints"), "{command}");
    let printed = succeeds(place.program("sh", &["-c", command], &[]));
    assert!(printed.contains("continuing from checkpoints/step-"), "{printed}");
    assert!(place.read("weights") == whole, "the resumed run ends elsewhere");
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    interrupted_run("INT", 130);
}

#[test]
fn a_run_that_the_system_ends_says_how_to_go_on() {
    interrupted_run("TERM", 143);
}

/// The end of a terminal or of a connection. A process that `nohup` started ignores it, and so do its children.
#[cfg(target_os = "linux")]
#[test]
fn a_run_whose_terminal_closes_says_how_to_go_on() {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap().trim();
    if u64::from_str_radix(ignored, 16).unwrap() & 1 == 0 {
        interrupted_run("HUP", 129);
    }
}

#[test]
fn a_run_whose_output_closes_keeps_its_weights_and_its_state() {
    let place = Place::with_idx();
    let (child, lines) = started(&place, &["--epochs", "100000", "--save", "w", "--checkpoint", "c"]);
    drop(lines);
    let (code, message) = stopped(child);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("the weights so far are in w"), "{message}");
    assert!(message.contains("error: could not write the line of the epoch: Broken pipe"), "{message}");
    let state = checkpoint::newest(&place.path("c")).unwrap().snapshot;
    assert!(checkpoint::load(&place.path("w")).unwrap().parameters == state.parameters);
}

#[test]
fn a_run_whose_checkpoints_cannot_be_written_keeps_its_weights() {
    let place = Place::with_idx();
    let (child, mut lines) = started(&place, &["--epochs", "100000", "--save", "w", "--checkpoint", "c"]);
    while checkpoint::newest(&place.path("c")).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    fs::remove_dir_all(place.path("c")).unwrap();
    let _ = io::copy(&mut lines, &mut io::sink());
    let (code, message) = stopped(child);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("error: could not write the checkpoint c/"), "{message}");
    checkpoint::load(&place.path("w")).unwrap();
}

#[test]
fn an_interrupted_run_without_checkpoints_keeps_its_weights_and_says_how_to_go_on() {
    let place = Place::with_idx();
    let (child, _output) = started(&place, &["--epochs", "1000", "--hidden", "24", "--save", "weights"]);
    signal(&child, "INT");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(130), "{message}");
    assert!(message.contains("the weights so far are in weights; to be able to continue"), "{message}");
    let predicted = succeeds(place.predict(&["--model", "weights", "0"]));
    assert!(predicted.contains("test image 0"), "{predicted}");
}

/// The first epoch takes far longer than the signal.
#[test]
fn an_interrupted_run_that_writes_nothing_says_so() {
    let place = Place::with_idx();
    let files = ["--plot", "p.svg", "--metrics", "m"];
    let slow = ["--hidden", "1000,1000", "--batch-size", "50"];
    let (child, _output) = started(&place, &[&slow[..], &files[..]].concat());
    signal(&child, "INT");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(130), "{message}");
    assert!(message.contains("nothing was saved") && message.contains("with --checkpoint"), "{message}");
    assert!(message.contains("; nothing was written for --plot;"), "{message}");
    assert!(!place.path("p.svg").exists());
}

#[test]
fn an_interrupted_run_draws_what_it_has() {
    let place = Place::with_idx();
    let flags = ["--epochs", "100000", "--hidden", "8", "--plot", "p.svg"];
    let (child, mut output) = started(&place, &flags);
    let mut line = String::new();
    while !line.contains(" 2/100000: ") {
        line.clear();
        assert_ne!(output.read_line(&mut line).unwrap(), 0, "the run ends before its second epoch");
    }
    signal(&child, "INT");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(130), "{message}");
    assert!(message.contains("; the plot so far is in p.svg;"), "{message}");
    assert!(!message.contains("--plot"), "{message}");
    let plot = String::from_utf8(place.read("p.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("784-8-10 in batches of"), "{plot}");
}

#[test]
fn interrupted_seeds_are_summed_up() {
    let place = Place::with_idx();
    let flags = ["--seeds", "0..1000000", "--hidden", "8", "--epochs", "1"];
    let (child, mut output) = started(&place, &flags);
    let mut line = String::new();
    while !line.starts_with("seed 2") {
        line.clear();
        output.read_line(&mut line).unwrap();
    }
    signal(&child, "INT");
    let printed = io::read_to_string(output).unwrap();
    assert!(printed.contains(" networks\ntest accuracy, %: "), "{printed}");
    let (code, message) = stopped(child);
    assert_eq!(code, Some(130), "{message}");
}

/// To open a pipe waits for its reader, and no signal ends that.
#[test]
fn an_interruption_that_has_to_wait_is_acknowledged() {
    let place = Place::with_idx();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let (mut child, output) = started(&place, &["--epochs", "1", "--hidden", "8", "--save", "pipe"]);
    let said = child.stderr.take().unwrap();
    signal(&child, "INT");
    let mut lines = BufReader::new(said).lines();
    assert!(lines.any(|line| line.unwrap().contains("a second signal ends the program at once")));
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(output);
}

/// The first step of this run takes far longer than both signals.
#[test]
fn a_second_interruption_ends_the_run_at_once() {
    let place = Place::with_idx();
    let flags = ["--hidden", "3000,3000", "--batch-size", "633", "--checkpoint", "checkpoints"];
    let (mut child, _output) = started(&place, &flags);
    signal(&child, "INT");
    std::thread::sleep(Duration::from_millis(50));
    assert!(child.try_wait().unwrap().is_none(), "the first signal ends the run at once");
    signal(&child, "INT");
    let (code, message) = stopped(child);
    assert_eq!((code, &*message), (Some(130), ""));
    assert_eq!(checkpoints(&place), 0);
}

#[test]
fn more_threads_than_there_are_cores_are_not_started() {
    let place = Place::with_idx();
    let mut command = place.train(&["--hidden", "16", "--epochs", "1"]);
    command.env("RAYON_NUM_THREADS", "1000000");
    let printed = succeeds(command);
    assert!(printed.contains("epoch 1/1"), "{printed}");
}
