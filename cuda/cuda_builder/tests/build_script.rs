//! The builder in a real `build.rs`: the program holds the PTX, and cargo runs the script again when a kernel changes.

mod common;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::{builder, tools};

/// Copies the crate out of the source tree: its lock file is the workspace's, and a kernel of it is changed.
fn copy_of_application(name: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let from = here.join("tests/fixtures/application");
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    for file in ["build.rs", "source/lib.rs", "src/main.rs", "kernels/Cargo.toml"] {
        let target = to.join(file);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        std::fs::copy(from.join(file), target).unwrap();
    }
    let manifest = std::fs::read_to_string(from.join("Cargo.toml")).unwrap();
    let real = manifest.replace("\"../../..\"", &format!("\"{}\"", here.display()));
    std::fs::write(to.join("Cargo.toml"), real).unwrap();
    std::fs::copy(here.join("../../Cargo.lock"), to.join("Cargo.lock")).unwrap();
    // The script watches the folder of the kernels, and one without this file gets it in the first build.
    std::fs::write(to.join("kernels/Cargo.lock"), LOCK).unwrap();
    to
}

/// The lock file of the kernels, which need no other crate.
const LOCK: &str =
    "version = 4\n\n[[package]]\nname = \"application-kernels\"\nversion = \"0.0.0\"\n";

fn run(application: &Path, tools: &Path) -> Output {
    command(application, tools).output().unwrap()
}

fn command(application: &Path, tools: &Path) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .current_dir(application)
        .args(["run", "--verbose", "--offline", "--target-dir", "target"])
        .env("FERROWARP_TOOLS", tools)
        .env_remove("CARGO_TARGET_DIR");
    command
}

/// What the program prints, and whether its build script had not to run.
fn ptx_of(application: &Path) -> (String, bool) {
    let output = run(application, &tools());
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    (String::from_utf8(output.stdout).unwrap(), log.contains("Fresh fixture-application"))
}

#[test]
fn a_build_script_builds_the_kernels() {
    // So that the script has nothing to download.
    builder("build-script").build().unwrap();
    let application = copy_of_application("application");
    let (ptx, _) = ptx_of(&application);
    assert!(ptx.contains(".target sm_75") && ptx.contains(".entry answer"), "{ptx}");
    assert!(ptx.contains("1234567"), "{ptx}");
    assert_eq!(ptx_of(&application), (ptx, true));

    let kernels = application.join("source/lib.rs");
    let source = std::fs::read_to_string(&kernels).unwrap();
    std::fs::write(&kernels, source.replace("1234567", "7654321")).unwrap();
    let (changed, is_fresh) = ptx_of(&application);
    assert!(!is_fresh);
    assert!(changed.contains("7654321") && !changed.contains("1234567"), "{changed}");

    // Where the package is missing and cannot be fetched, the script fails, and says what to do.
    let nowhere = tempfile::tempdir().unwrap();
    let output = command(&application, nowhere.path()).env("PIP_NO_INDEX", "1").output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{log}");
    assert!(log.contains("downloading nvidia-nvvm 13.5.37 with pip failed"), "{log}");
    assert!(log.contains("PIP_FIND_LINKS=FOLDER"), "{log}");
}

/// A user who has set nothing: what is fetched goes into his folder of caches, for all his projects.
#[test]
fn nothing_has_to_be_set() {
    // The package, where it would be after the first build of this user; the download itself is tests/download.rs's.
    builder("build-script").build().unwrap();
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join(".cache")).unwrap();
    std::os::unix::fs::symlink(tools(), home.path().join(".cache/ferrowarp")).unwrap();
    let cargo_home = std::env::home_dir().unwrap().join(".cargo");
    let rustup_home = std::env::home_dir().unwrap().join(".rustup");
    let application = copy_of_application("application-of-a-user");
    let mut command = command(&application, Path::new(""));
    for name in
        ["FERROWARP_TOOLS", "XDG_CACHE_HOME", "LIBNVVM_PATH", "CUDA_HOME", "CUDA_PATH", "RUSTUP_TOOLCHAIN"]
    {
        command.env_remove(name);
    }
    for (name, default) in [("CARGO_HOME", cargo_home), ("RUSTUP_HOME", rustup_home)] {
        command.env(name, std::env::var_os(name).map_or(default, PathBuf::from));
    }
    let output = command.env("HOME", home.path()).env("PIP_NO_INDEX", "1").output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{log}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(".entry answer"), "{log}");
    assert!(!application.join("target/ferrowarp-tools").exists());
}
