//! Runs the inputs in `fuzz/corpus/` through the functions that libFuzzer calls (`cargo fuzz`), on every build: the
//! inputs that fuzzing began with, and those that it found.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use targets::{TARGETS, Target};

/// No input needs a hundredth of it, even without optimisation; one that does hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// The most memory that a fuzzed parser may need, in bytes.
const MEMORY: u64 = 1 << 30;
/// The most bytes of all inputs.
const CORPORA: u64 = 1 << 20;

fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz")
}

/// The names in a folder.
fn names(folder: &Path) -> BTreeSet<String> {
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Runs the target on a separate thread, to report a hang or a panic with the input's name.
fn run(target: Target, bytes: Vec<u8>) -> Result<bool, &'static str> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send((target.run)(&bytes)));
    receiver.recv_timeout(PATIENCE).map_err(|error| match error {
        mpsc::RecvTimeoutError::Timeout => "does not end",
        mpsc::RecvTimeoutError::Disconnected => "panics",
    })
}

/// The most memory this process has had, in bytes, where the system reports it.
fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<u64>().ok()? * 1024)
}

/// Files named `seed-..` are valid, those named `hostile-..` are not.
#[test]
fn the_corpora_are_replayed() {
    let (mut failures, mut size) = (Vec::new(), 0);
    for target in TARGETS {
        let corpus = fuzz_folder().join("corpus").join(target.name);
        let mut seeds = 0;
        for name in names(&corpus) {
            let bytes = fs::read(corpus.join(&name)).unwrap();
            size += bytes.len() as u64;
            let wrong = match run(*target, bytes) {
                Ok(false) if name.starts_with("seed-") => "is refused",
                Ok(true) if name.starts_with("hostile-") => "is accepted",
                Err(what) => what,
                Ok(_) => {
                    seeds +=
                        usize::from(name.starts_with("seed-")) + usize::from(name.starts_with("hostile-"));
                    continue;
                }
            };
            failures.push(format!("corpus/{}/{name} {wrong}", target.name));
        }
        assert!(seeds >= 2, "{} has {seeds} seeds", target.name);
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(size < CORPORA, "the corpora have {size} bytes, at most {CORPORA}");
    let peak = peak_memory();
    assert!(peak.is_none_or(|peak| peak < MEMORY), "{peak:?} bytes of memory were needed, at most {MEMORY}");
}

/// A target is a line of the table, a program, a section of the manifest, and a folder.
#[test]
fn every_target_is_complete() {
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
