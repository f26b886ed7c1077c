//! `cargo xtask new` makes a crate that builds, runs and passes its tests outside of this repository.

use std::path::Path;
use std::process::{Command, Output};

fn new(arguments: &[&str], folder: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_xtask"));
    command.arg("new").args(arguments).current_dir(folder).output().unwrap()
}

/// Cargo in the crate, offline and with nothing of this workspace in its environment; what it prints.
fn cargo(path: &Path, arguments: &[&str]) -> String {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let mut command = Command::new("cargo");
    command.current_dir(path).args(arguments).arg("--offline").arg("--target-dir").arg(target).env_clear();
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "PIP_CERT"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    // As in the test of a crate outside: neither compiles what the other one has compiled.
    command.env("CARGO_PROFILE_DEV_STRIP", "true").env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.env("CARGO_INCREMENTAL", "0");
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {log}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_new_crate_runs_and_passes_its_tests() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a folder/my-rows");
    std::fs::create_dir(folder.path().join("a folder")).unwrap();
    let created = new(&["a folder/my-rows"], folder.path());
    assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stderr));
    // So that nothing has to be looked up in a registry.
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    std::fs::copy(root.join("Cargo.lock"), path.join("Cargo.lock")).unwrap();

    let said = cargo(&path, &["run"]);
    assert!(said.starts_with("running on "), "{said}");
    let sums = said.split_once("sums to 1: [").unwrap().1.trim_end().trim_end_matches(']').split(", ");
    let sums: Vec<f32> = sums.map(|sum| sum.parse().unwrap()).collect();
    assert!(sums.len() == 4 && sums.iter().all(|sum| (sum - 1.0).abs() < 1e-5), "{said}");
    let said = cargo(&path, &["test", "--workspace"]);
    assert!(said.contains("test sums_are_those_of_a_loop ... ok"), "{said}");
    cargo(&path, &["build", "--benches"]);

    let again = new(&["my-rows"], &folder.path().join("a folder"));
    let error = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(!again.status.success() && error.contains("already exists: name a new folder"), "{error}");
    let wrong = new(&["Rows"], folder.path());
    assert!(String::from_utf8_lossy(&wrong.stderr).contains("`Rows` cannot be a crate's name"), "{wrong:?}");
}

#[test]
fn a_new_member_of_a_workspace_has_no_workspace_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("Cargo.toml"), "[workspace]\nmembers = [\"rows\", \"rows/kernels\"]\n")
        .unwrap();
    let created = new(&["rows", "--git"], folder.path());
    let said = String::from_utf8_lossy(&created.stdout).into_owned();
    assert!(created.status.success() && said.contains("`members` in "), "{said}");
    let manifest = std::fs::read_to_string(folder.path().join("rows/Cargo.toml")).unwrap();
    assert!(manifest.contains("ferrowarp = { git = \"https://"), "{manifest}");
    let mut metadata = Command::new("cargo");
    metadata.args(["metadata", "--no-deps", "--offline", "--format-version=1"]).current_dir(folder.path());
    let members = metadata.output().unwrap();
    let members = String::from_utf8(members.stdout).unwrap();
    assert!(
        members.contains("\"name\":\"rows\"") && members.contains("\"name\":\"rows-kernels\""),
        "{members}"
    );
}
