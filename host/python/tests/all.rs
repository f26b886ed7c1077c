//! Runs the tests in Python, on the CPU.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python with NumPy and pytest, and torch if it is to be tested too. Without it the tests are left out.
const VARIABLE: &str = "FERROWARP_PYTHON";

/// The package as it is imported from: its sources, and the library that cargo built with this test.
fn package() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let (from, to) =
        (Path::new(env!("CARGO_MANIFEST_DIR")).join("python/ferrowarp"), folder.join("ferrowarp"));
    std::fs::create_dir_all(&to).expect("a folder");
    for entry in from.read_dir().expect("the sources").flatten().filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), to.join(entry.file_name())).expect("a copy");
    }
    let program = std::env::current_exe().expect("a path");
    let library = format!("{}ferrowarp_python{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    // Next to this program: `cargo test` copies no library into the folder above.
    let built = program.with_file_name(library);
    // A program that has loaded the last one keeps it.
    let native = to.join("_native.abi3.so");
    let _ = std::fs::remove_file(&native);
    std::fs::copy(&built, native).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
    folder
}

#[test]
fn the_tests_in_python_pass() {
    let Some(python) = std::env::var_os(VARIABLE).filter(|python| !python.is_empty()) else {
        println!("left out: {VARIABLE} names no Python with NumPy and pytest");
        return;
    };
    let mut pytest = Command::new(&python);
    pytest.args([
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests"),
    ]);
    pytest.env("PYTHONPATH", package()).env("PYTHONDONTWRITEBYTECODE", "1");
    let output = pytest.output().unwrap_or_else(|error| panic!("{}: {error}", python.display()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
