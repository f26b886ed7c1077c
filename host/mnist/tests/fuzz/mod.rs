//! The inputs that fuzzing began with and those it found, on every build: `fuzz/corpus/` through the functions that
//! libFuzzer calls (`cargo xtask fuzz`).
//!
//! `UPDATE_EXPECT=1 cargo test -p ferrowarp-mnist --test all fuzz::` writes the seeds again, by the encoders of `fuzz/seeds.rs`.

mod seeds;
#[path = "../../../fuzz/src/lib.rs"]
mod targets;
mod texts;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use targets::{TARGETS, Target};

/// No input needs a hundredth of it, even unoptimised; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most memory that all of them may need, in bytes, and that a fuzzed parser may.
const MEMORY: u64 = 1 << 30;
/// What is committed has to stay small, in bytes.
const CORPORA: u64 = 1 << 20;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

fn corpus(target: &Target) -> PathBuf {
    fuzz_folder().join("corpus").join(target.name)
}

/// The names of what lies in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs the target on a thread of its own. A hang is reported with the target's name, and so is a panic.
fn run(target: Target, bytes: Vec<u8>) -> Result<bool, &'static str> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send((target.run)(&bytes)));
    receiver.recv_timeout(PATIENCE).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => "does not end",
        mpsc::RecvTimeoutError::Disconnected => "panics",
    })
}

/// The most memory this process has had, in bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

#[test]
fn the_corpora_are_replayed() {
    let (mut failures, mut size) = (Vec::new(), 0);
    for target in TARGETS {
        let (mut accepted, mut refused) = (0, 0);
        for name in names(&corpus(target)) {
            let bytes = fs::read(corpus(target).join(&name)).unwrap();
            size += bytes.len() as u64;
            match run(*target, bytes) {
                Ok(true) => accepted += 1,
                Ok(false) => refused += 1,
                Err(what) => failures.push(format!("corpus/{}/{name} {what}", target.name)),
            }
        }
        assert!(accepted > 0 && refused > 0, "{}: {accepted} accepted, {refused} refused", target.name);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(size < CORPORA, "the corpora have {size} bytes, at most {CORPORA}");
    let peak = peak_memory();
    assert!(peak.is_none_or(|peak| peak < MEMORY), "{peak:?} bytes of memory were needed, at most {MEMORY}");
}

#[test]
fn seeds_are_accepted() {
    for target in TARGETS {
        let seeds = seeds::of(target.name);
        assert!(!seeds.is_empty(), "{} has no seed", target.name);
        for (name, bytes) in seeds {
            assert_eq!(run(*target, bytes.clone()), Ok(true), "{}: {name}", target.name);
            write_if_asked(target, &format!("seed-{name}"), &bytes);
        }
        for (name, bytes) in seeds::hostile(target.name) {
            assert_eq!(run(*target, bytes.clone()), Ok(false), "{}: {name}", target.name);
            write_if_asked(target, &format!("hostile-{name}"), &bytes);
        }
    }
}

fn write_if_asked(target: &Target, name: &str, bytes: &[u8]) {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::create_dir_all(corpus(target)).unwrap();
        fs::write(corpus(target).join(name), bytes).unwrap();
    }
}

/// A target is a line of the table, a program, a section of the manifest, and a folder.
#[test]
fn every_target_is_whole() {
    let table: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(table.len(), TARGETS.len());
    assert_eq!(names(&fuzz_folder().join("corpus")), table);
    let programs = names(&fuzz_folder().join("fuzz_targets"));
    assert_eq!(programs, table.iter().map(|name| format!("{name}.rs")).collect());
    let manifest = fs::read_to_string(fuzz_folder().join("Cargo.toml")).unwrap();
    let named = manifest.lines().filter_map(|line| line.strip_prefix("path = \"fuzz_targets/"));
    assert_eq!(named.map(|name| name.trim_end_matches('"').to_owned()).collect::<BTreeSet<_>>(), programs);
    for name in table {
        let program = fs::read_to_string(fuzz_folder().join(format!("fuzz_targets/{name}.rs"))).unwrap();
        assert!(program.contains(&format!("ferrowarp_fuzz::{name}(bytes);")), "{name} runs another target");
    }
}
