//! Runs that are killed or interrupted at any moment, and continue as if they had not been.
#![cfg(unix)]

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::common::{Place, Random, signal, started, stopped, succeeds, words};
use ferrowarp_mnist::checkpoint::{self, Snapshot};
use ferrowarp_report::EpochRecord;

/// Kills of a run of each pipeline.
const KILLS: u32 = 4;

/// Runs of about a hundred steps, with momentum and without.
const RUNS: [&str; 2] = [
    "--hidden 24,16 --batch-size 20 --epochs 2 --momentum 0.5 --lr 0.1 --seed 3",
    "--hidden 32,16 --batch-size 25 --epochs 3 --seed 5",
];

const OUTPUTS: &str = "--metrics metrics.jsonl --save weights --checkpoint checkpoints --checkpoint-every 3";

fn without_times(mut record: EpochRecord) -> EpochRecord {
    (record.seconds, record.test_seconds, record.images_per_second) = (0.0, 0.0, 0.0);
    record
}

/// What must not depend on interruptions.
#[derive(PartialEq)]
struct Ending {
    weights: Vec<u8>,
    metrics: Vec<EpochRecord>,
    tested: String,
    last: Snapshot,
}

impl Ending {
    fn of(place: &Place, printed: &str) -> Ending {
        let tested = printed.lines().find(|line| line.starts_with("test accuracy"));
        let mut last = checkpoint::newest(&place.path("checkpoints")).unwrap().snapshot;
        last.progress.seconds = 0.0;
        last.records = last.records.into_iter().map(without_times).collect();
        let metrics = String::from_utf8(place.read("metrics.jsonl")).unwrap();
        Ending {
            weights: place.read("weights"),
            metrics: metrics.lines().map(|line| without_times(serde_json::from_str(line).unwrap())).collect(),
            tested: tested.expect("the run prints its accuracy").to_owned(),
            last,
        }
    }
}

fn names(place: &Place) -> Vec<String> {
    let Ok(entries) = fs::read_dir(place.path("checkpoints")) else { return Vec::new() };
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect()
}

/// Whether a checkpoint is being written right now.
fn is_writing(place: &Place) -> bool {
    names(place).iter().any(|name| name.starts_with(".checkpoint-"))
}

fn checkpoints(place: &Place) -> usize {
    names(place).iter().filter(|name| name.ends_with(".checkpoint")).count()
}

/// Starts the run until it is killed before it has ended: `moment` after its start or, if `in_write`, in the first write of
/// a checkpoint after that.
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

fn kills_change_nothing(flags: &str, seed: u64) {
    let flags = words(flags);
    let place = Place::with_idx();
    let started = Instant::now();
    let printed = succeeds(place.train(&flags));
    let duration = started.elapsed();
    let whole = Ending::of(&place, &printed);
    let keep = checkpoints(&place);
    assert_eq!(keep, ferrowarp_mnist::train::DEFAULT_KEEP);

    let mut random = Random(seed);
    for kill in 0..KILLS {
        for file in ["weights", "metrics.jsonl"] {
            fs::remove_file(place.path(file)).unwrap();
        }
        // One random moment in each part of the run's duration.
        let within = (random.next() % 1000) as f64 / 1000.0;
        let moment = duration.mul_f64((f64::from(kill) + within) / f64::from(KILLS));
        kill_once(&place, &flags, moment, kill % 2 == 1);
        let mut resume: &[&str] = &[];
        if checkpoints(&place) > 0 {
            resume = &["--resume", "checkpoints"];
            let skipped = checkpoint::newest(&place.path("checkpoints")).unwrap().skipped;
            assert!(skipped.is_empty(), "a file under its final name is not complete: {skipped:?}");
        }
        let result = Ending::of(&place, &succeeds(place.train(&[&flags, resume].concat())));
        assert!(result == whole, "seed {seed}, kill {kill} after {moment:?}: the resumed run ends elsewhere");
        assert_eq!((checkpoints(&place), is_writing(&place)), (keep, false), "{:?}", names(&place));
    }
}

#[test]
fn kills_change_nothing_on_any_pipeline() {
    for (run, pipeline, seed) in [
        (0, "fused", 1),
        (0, "deferred", 2),
        (0, "graph", 3),
        (1, "naive", 4),
        (1, "overlapped", 5),
        (1, "resident", 6),
    ] {
        kills_change_nothing(&format!("{} {OUTPUTS} --pipeline {pipeline}", RUNS[run]), seed);
    }
}

/// A run that is killed in every second write of a checkpoint, so it advances by one checkpoint each time.
#[test]
fn a_run_that_is_killed_again_and_again_ends() {
    let flags = format!("{} {OUTPUTS}", RUNS[0]);
    let flags = words(&flags);
    let (killed, whole) = (Place::with_idx(), Place::with_idx());
    let whole = Ending::of(&whole, &succeeds(whole.train(&flags)));
    let newest = || names(&killed).into_iter().filter(|name| !name.starts_with('.')).max();
    let mut kills = 0;
    let result = loop {
        let resume: &[&str] = if checkpoints(&killed) > 0 { &["--resume", "checkpoints"] } else { &[] };
        let begun_at = newest();
        let mut child = killed.train(&[&flags[..], resume].concat()).spawn().unwrap();
        while child.try_wait().unwrap().is_none() && !(newest() > begun_at && is_writing(&killed)) {
            std::thread::sleep(Duration::from_micros(100));
        }
        let _ = child.kill();
        let Output { status, stdout, .. } = child.wait_with_output().unwrap();
        if status.success() {
            break Ending::of(&killed, &String::from_utf8(stdout).unwrap());
        }
        assert_eq!(status.code(), None, "the run failed without a signal");
        kills += 1;
    };
    assert!(kills > 3, "{kills}");
    assert!(result == whole, "after {kills} kills the run ends elsewhere");
}

#[test]
fn an_interrupted_run_prints_how_to_continue() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or("1");
    // A process that `nohup` started ignores a closed terminal, and so do its children.
    let hangup = u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 0;
    for (name, code) in [("INT", 130), ("TERM", 143), ("HUP", 129)].into_iter().take(2 + usize::from(hangup))
    {
        interrupted_run(name, code);
    }
}

fn interrupted_run(name: &str, code: i32) {
    let long = "--hidden 24,16 --batch-size 20 --epochs 60 --momentum 0.5 --lr 0.1 --seed 3 --save weights";
    let place = Place::with_idx();
    succeeds(place.train(&words(&format!("{long} --checkpoint whole"))));
    let whole = place.read("weights");
    fs::remove_file(place.path("weights")).unwrap();

    let child = place.train(&words(&format!("{long} --checkpoint checkpoints"))).spawn().unwrap();
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
fn a_run_that_cannot_write_keeps_its_weights_and_its_state() {
    let place = Place::with_idx();
    let flags = words("--epochs 100000 --save w --checkpoint c");
    let (child, lines) = started(&place, &flags);
    drop(lines);
    let (code, message) = stopped(child);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("the weights so far are in w"), "{message}");
    assert!(message.contains("error: could not write the line of the epoch: Broken pipe"), "{message}");
    let state = checkpoint::newest(&place.path("c")).unwrap().snapshot;
    assert!(checkpoint::load(&place.path("w")).unwrap().parameters == state.parameters);

    let place = Place::with_idx();
    let (child, mut lines) = started(&place, &flags);
    while checkpoint::newest(&place.path("c")).is_err() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // The run may write a file between the last one that is removed and the folder.
    while place.path("c").exists() {
        let _ = fs::remove_dir_all(place.path("c"));
    }
    let _ = io::copy(&mut lines, &mut io::sink());
    let (code, message) = stopped(child);
    assert_eq!(code, Some(1), "{message}");
    assert!(message.contains("error: could not write the checkpoint c/"), "{message}");
    checkpoint::load(&place.path("w")).unwrap();
}

/// Runs that end at Ctrl-C, after a line of their output, and parts of what they print about their results.
#[test]
fn an_interrupted_run_reports_its_files() {
    for (flags, line, says) in [
        (
            "--epochs 1000 --hidden 24 --save w",
            "",
            ["the weights so far are in w; to be able to continue", ""],
        ),
        // The first epoch takes far longer than the signal.
        (
            "--hidden 1000,1000 --batch-size 50 --plot p.svg --metrics m",
            "",
            ["nothing was saved; nothing was written for --plot;", "with --checkpoint"],
        ),
        ("--epochs 100000 --hidden 8 --plot p.svg", " 2/100000: ", ["; the plot so far is in p.svg;", ""]),
        ("--seeds 0..1000000 --hidden 8 --epochs 1", "seed 2", ["", ""]),
    ] {
        let place = Place::with_idx();
        let (child, mut output) = started(&place, &words(flags));
        let mut printed = String::new();
        while !printed.contains(line) {
            assert_ne!(output.read_line(&mut printed).unwrap(), 0, "the run ends before `{line}`");
        }
        signal(&child, "INT");
        output.read_to_string(&mut printed).unwrap();
        let (code, message) = stopped(child);
        assert_eq!(code, Some(130), "{message}");
        assert!(says.iter().all(|part| message.contains(part)), "{message}");
        if flags.starts_with("--seeds") {
            assert!(printed.contains(" networks\ntest accuracy, %: "), "{printed}");
        }
        let has_plot = message.contains("is in p.svg");
        assert_eq!(
            has_plot,
            fs::read(place.path("p.svg")).is_ok_and(|plot| plot.starts_with(b"<svg")),
            "{message}"
        );
    }
}

/// Opening a pipe waits for its reader, and a signal does not end that. The first step of the other run takes far longer
/// than both signals.
#[test]
fn a_second_signal_ends_the_run_at_once() {
    let place = Place::with_idx();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let (mut child, _output) = started(&place, &words("--epochs 1 --hidden 8 --save pipe"));
    let said = child.stderr.take().unwrap();
    signal(&child, "INT");
    let mut lines = BufReader::new(said).lines();
    assert!(lines.any(|line| line.unwrap().contains("a second signal ends the program at once")));
    signal(&child, "INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));

    let flags = words("--hidden 3000,3000 --batch-size 633 --checkpoint checkpoints");
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
fn threads_are_limited_to_the_number_of_cores() {
    let place = Place::with_idx();
    let mut command = place.train(&words("--hidden 16 --epochs 1"));
    command.env("RAYON_NUM_THREADS", "1000000");
    assert!(succeeds(command).contains("epoch 1/1"));
}
