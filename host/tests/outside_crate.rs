//! A crate outside the workspace that depends on `ferrowarp`, and has a kernel of its own: it builds, links and runs with
//! nothing set in the environment, in a folder with a space in its name.

use std::path::{Path, PathBuf};
use std::process::Command;

use cuda_std::launch::LaunchConfig;
use cuda_std::{kernel, thread};
use ptx_emulator::{Emulator, PtxModule};

/// The crate's files, in `tests/outside`.
const FILES: [&str; 5] =
    ["Cargo.toml", "build.rs", "kernels/Cargo.toml", "kernels/src/lib.rs", "src/main.rs"];

/// The crate, in a folder that no configuration of ours reaches; what it depends on lies in this repository.
fn outside_crate(folder: &Path) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).canonicalize().unwrap();
    let outside = folder.join("a crate outside");
    for file in FILES {
        let text = std::fs::read_to_string(here.join("tests/outside").join(file)).unwrap();
        let root = here.parent().unwrap().display().to_string();
        let text = text.replace("../../../../cuda", &format!("{root}/cuda"));
        let text = text.replace("../../../cuda", &format!("{root}/cuda"));
        let text = text.replace("\"../..\"", &format!("\"{}\"", here.display()));
        std::fs::create_dir_all(outside.join(file).parent().unwrap()).unwrap();
        std::fs::write(outside.join(file), text).unwrap();
    }
    // So that nothing has to be looked up in a registry.
    std::fs::copy(here.join("../Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    std::fs::copy(here.join("../Cargo.lock"), outside.join("kernels/Cargo.lock")).unwrap();
    outside
}

/// Cargo in that folder, with the search path and a home alone; the two others are where rustup's image has no home.
fn cargo(outside: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("cargo");
    command.current_dir(outside).args(arguments).arg("--offline").env_clear();
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "PIP_CERT"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {log}");
    String::from_utf8(output.stdout).unwrap()
}

/// The launch of the crate's kernel, for the emulator, which has the kernel itself from its PTX.
///
/// # Safety
/// `y` holds as many elements as `x`; at least as many threads are launched.
#[kernel]
unsafe fn twice(x: &[f32], y: *mut f32) {
    let i = thread::index_1d() as usize;
    if i < x.len() {
        // SAFETY: `y` is as long as `x`.
        unsafe { *y.add(i) = f32::NAN };
    }
}

#[test]
fn an_outside_crate_builds_and_runs_with_nothing_set() {
    let folder = tempfile::tempdir().unwrap();
    let outside = outside_crate(folder.path());
    // What it compiled is kept for the next run, and for other crates outside.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside");
    let said = cargo(&outside, &["run", "--target-dir", target.to_str().unwrap()]);
    assert_eq!(said, "[2.0, 4.0, 6.0]\n[0.5, 0.5, 0.5, 0.5]\n");

    let tree = cargo(&outside, &["tree", "--edges", "normal", "--prefix", "none"]);
    let packages: std::collections::BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split(" (*)").next()).collect();
    assert!(packages.len() <= 60, "{} packages: {packages:#?}", packages.len());

    // The PTX that its build script made.
    let scripts = target.join("debug/build").read_dir().unwrap();
    let scripts = scripts.map(|script| script.unwrap());
    let scripts = scripts.filter(|script| script.file_name().to_string_lossy().starts_with("outside-"));
    let outs = scripts.map(|script| script.path().join("out"));
    let ptx = outs.filter_map(|out| out.read_dir().ok()).flatten().map(|file| file.unwrap().path());
    let ptx = ptx.filter(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    let newest = ptx.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap();
    let emulator = Emulator::new(PtxModule::parse(&std::fs::read_to_string(newest).unwrap()).unwrap());
    let (x, mut y) = ([1.0f32, 2.0, 3.0], [0.0f32; 3]);
    // SAFETY: as many elements in both, and a thread for each.
    unsafe { twice::launch(&emulator, LaunchConfig::cover(3, 32), &x, &mut y) }.unwrap();
    assert_eq!(y, [2.0, 4.0, 6.0]);
}
