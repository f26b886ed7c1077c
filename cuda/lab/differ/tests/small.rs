//! A small set of what `cargo lab differ` compares: some programs, some crates, and an error of each kind.

use std::path::Path;
use std::process::{Command, Output};

use differ::report::Report;

/// Runs `differ` with these arguments, and gives what it says and its report.
fn differ(part: &str, arguments: &[&str]) -> (Output, Report) {
    let work = Path::new(env!("CARGO_TARGET_TMPDIR")).join("differ").join(part);
    std::fs::create_dir_all(&work).unwrap();
    let json = work.join(format!("{part}.json"));
    let _ = std::fs::remove_file(&json);
    let mut command = Command::new(env!("CARGO_BIN_EXE_differ"));
    command.arg(part).args(arguments).arg("--work").arg(&work).arg("--json").arg(&json);
    let output = command.output().unwrap();
    let text = std::fs::read(&json).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output, serde_json::from_slice(&text).unwrap())
}

/// Both back ends have compared at least `least` results, and nothing differs.
#[track_caller]
fn assert_clean(output: &Output, report: &Report, least: u64) {
    assert!(output.status.success() && report.found.is_empty(), "{output:?}");
    let names: Vec<&str> = report.backends.iter().map(|of| of.backend.as_str()).collect();
    assert_eq!(names, ["nvvm", "llvm"]);
    for of in &report.backends {
        assert!(of.compared >= least && (of.differ, of.refused) == (0, 0), "{of:?}");
    }
}

#[test]
fn programs() {
    let (output, report) = differ("programs", &["--programs", "8", "--seed", "500000", "--jobs", "1"]);
    assert_clean(&output, &report, 8);
    // libNVVM took all memory for this one, when other passes ran before it.
    let (output, report) = differ("programs", &["--programs", "1", "--seed", "4912", "--jobs", "1"]);
    assert_clean(&output, &report, 1);
}

#[test]
fn planted_errors() {
    let kinds = ["store", "sub", "remainder", "index"];
    let (output, report) =
        differ("planted", &["--backend", "llvm", "--programs", "12", "--only", &kinds.join(",")]);
    assert!(output.status.success() && report.backends.len() == 1, "{output:?}");
    assert_eq!((report.backends[0].compared, report.backends[0].differ), (4, 4), "{report:?}");
    for (found, edit) in report.found.iter().zip(kinds) {
        assert!(found.starts_with(edit), "{found}");
    }
}

#[test]
fn crates() {
    let (output, report) = differ("crates", &["--crates", "sha2,ryu,heapless"]);
    assert_clean(&output, &report, 3000);
}
