//! The program `gallery`: its output file and its threads.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gallery");

/// The theory of one lesson into `out`: no kernel runs.
fn theory(out: &Path) -> Output {
    Command::new(PROGRAM).args(["--theory", "vector_add", "--out"]).arg(out).output().unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Vector addition on the CPU under a limit that the shell sets.
fn under(limit: &str, folder: &Path) -> Output {
    let line = format!("{limit}; exec \"$0\" --device cpu --quick vector_add --out \"$1\"");
    Command::new("sh").args(["-c", &line, PROGRAM]).arg(folder.join("a.json")).output().unwrap()
}

#[test]
fn a_link_stays_and_so_do_the_permissions_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
    fs::write(&file, "old").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    symlink("file", &link).unwrap();
    let output = theory(&link);
    assert!(output.status.success(), "{}", errors(&output));
    assert!(link.is_symlink());
    assert!(fs::read_to_string(&file).unwrap().starts_with('{'));
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_stream_is_written_to() {
    let output = theory(Path::new("/dev/stdout"));
    assert!(output.status.success() && output.stdout.starts_with(b"{"), "{}", errors(&output));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_a_lesson_runs() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["", "no/such/folder", "ends/"] {
        let out = folder.path().join(name);
        let mut command = Command::new(PROGRAM);
        command.args(["--device", "cpu", "--quick", "vector_add", "--out"]).arg(&out);
        let output = command.output().unwrap();
        let message = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{message}");
        let start = format!("error: --out {} cannot be used: no file can be written there", out.display());
        assert!(message.starts_with(&start), "{message}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn it_starts_no_more_threads_than_there_are_cores() {
    let folder = tempfile::tempdir().unwrap();
    // Each thread takes 2 MiB of addresses for its stack: thousands of them would not fit.
    let output =
        under("RAYON_NUM_THREADS=100000 && export RAYON_NUM_THREADS && ulimit -v 8000000", folder.path());
    assert!(output.status.success(), "{}", errors(&output));
}

#[test]
fn counting_without_a_compiler_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(PROGRAM);
    command.args(["--count", "vector_add", "--out"]).arg(folder.path().join("a.json"));
    command.env_clear().env("PATH", folder.path()).env("CARGO_TARGET_DIR", folder.path());
    let output = command.output().unwrap();
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("error: could not build the PTX of the kernels"), "{message}");
}
