//! A crate outside the workspace that depends on `ferrowarp`, and has a kernel of its own: it builds, links and runs with
//! nothing set in the environment, in a folder with a space in its name.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::{kernel, thread};
use ptx_emulator::{Emulator, PtxModule};

/// The crate's files, in `tests/outside`.
const FILES: [&str; 6] =
    ["Cargo.toml", "build.rs", "kernels/Cargo.toml", "kernels/src/lib.rs", "src/main.rs", "src/bin/first.rs"];

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
    // The profiles of a crate of `cargo xtask new`, whose test shares what is compiled here.
    let profiles = std::fs::read_to_string(here.join("../xtask/template/workspace.in")).unwrap();
    let profiles =
        profiles.replace("[workspace]\nmembers = [\"kernels\"]\n", "").replace("{name}-kernels", "kernels");
    let manifest = std::fs::read_to_string(outside.join("Cargo.toml")).unwrap();
    std::fs::write(outside.join("Cargo.toml"), manifest + &profiles).unwrap();
    // So that nothing has to be looked up in a registry.
    std::fs::copy(here.join("../Cargo.lock"), outside.join("Cargo.lock")).unwrap();
    std::fs::copy(here.join("../Cargo.lock"), outside.join("kernels/Cargo.lock")).unwrap();
    outside
}

/// Cargo in that folder, with the search path and a home alone; the two others are where rustup's image has no home.
fn cargo(outside: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(outside).args(arguments).arg("--offline").env_clear();
    for name in ["PATH", "HOME", "CARGO_HOME", "RUSTUP_HOME", "PIP_CERT"] {
        command.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    // Paths of sources are not what the test is about, and nothing is edited.
    command.env("CARGO_PROFILE_DEV_STRIP", "true").env("CARGO_PROFILE_DEV_DEBUG", "false");
    command.env("CARGO_INCREMENTAL", "0");
    command
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {log}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the crates outside are compiled into, which is kept for the next run, and for the test of `cargo xtask new`.
fn target_dir() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("outside")
}

/// The tests share a target directory, which one of them moves away for a moment.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
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

/// A folder that is moved away, and moved back when the value is dropped.
struct Hidden {
    folder: PathBuf,
    away: PathBuf,
}

impl Hidden {
    fn new(folder: PathBuf) -> Hidden {
        let away = folder.with_extension("away");
        // Left by a run that was killed.
        let _ = std::fs::remove_dir_all(&away);
        std::fs::rename(&folder, &away).unwrap();
        Hidden { folder, away }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = std::fs::rename(&self.away, &self.folder);
    }
}

#[test]
fn an_outside_crate_builds_and_runs_with_nothing_set() {
    let (folder, _alone) = (tempfile::tempdir().unwrap(), alone());
    let outside = outside_crate(folder.path());
    let target = target_dir();
    output(&mut cargo(&outside, &["build", "--target-dir", target.to_str().unwrap()]));
    let tree = output(&mut cargo(&outside, &["tree", "--edges", "normal", "--prefix", "none"]));
    let packages: std::collections::BTreeSet<&str> =
        tree.lines().filter_map(|line| line.split(" (*)").next()).collect();
    assert!(packages.len() <= 60, "{} packages: {packages:#?}", packages.len());

    // The program alone, where neither its source nor what was built is.
    let moved = folder.path().join("elsewhere");
    std::fs::create_dir(&moved).unwrap();
    std::fs::copy(target.join("debug/outside"), moved.join("outside")).unwrap();
    let sources = Hidden::new(outside);
    let built = Hidden::new(target);
    let mut program = Command::new(moved.join("outside"));
    program.current_dir(&moved).arg(&moved).env_clear();
    let said = program.output().unwrap();
    drop((sources, built));
    let log = String::from_utf8_lossy(&said.stderr);
    assert!(said.status.success(), "{log}");
    assert_eq!(String::from_utf8_lossy(&said.stdout), "[0.0, 0.0, 1.0, -inf]\n[0.5, 0.5, 1.0, 0.0]\n");

    // The first program of the documents: three blocks of four threads for ten numbers.
    let first = output(Command::new(target_dir().join("debug/first")).env_clear());
    assert_eq!(first, "[0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0]\n");

    // It holds the PTX of its kernels, nothing of the library's where there is no GPU, and no path of the build.
    let program = std::fs::read(moved.join("outside")).unwrap();
    let out = b"/build/outside-";
    assert!(!program.windows(out.len()).any(|bytes| bytes == out), "it holds the path of OUT_DIR");
    let files = moved.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let own: Vec<String> = files.filter(|name| name.ends_with(".ptx")).collect();
    assert_eq!(own, ["kernels.compute_75.ptx"]);

    let text = std::fs::read_to_string(moved.join(&own[0])).unwrap();
    let emulator = Emulator::new(PtxModule::parse(&text).unwrap());
    let (x, mut y) = ([1.0f32, 2.0, 3.0], [0.0f32; 3]);
    // SAFETY: as many elements in both, and a thread for each.
    unsafe { twice::launch(&emulator, LaunchConfig::cover(3, 32), &x, &mut y) }.unwrap();
    assert_eq!(y, [2.0, 4.0, 6.0]);
}

/// As the first chapter quotes it.
#[test]
fn a_block_of_2048_threads_is_refused() {
    let (x, mut y) = ([1.0f32; 3], [0.0f32; 3]);
    // SAFETY: as many elements in both; nothing runs.
    let error = unsafe { twice::launch(&Executor::new(), LaunchConfig::new(1, 2048), &x, &mut y) };
    let message = "
        launch of twice failed: the block (2048, 1, 1) is over the device's limit of (1024, 1024, 64)
    ";
    assert_eq!(error.unwrap_err().to_string(), message.trim());
}

/// The library's build script builds what is asked for. What `build-ptx` built before is taken from its cache.
#[test]
fn the_librarys_kernels_come_with_it_if_they_are_asked_for() {
    let (folder, _alone) = (tempfile::tempdir().unwrap(), alone());
    let outside = outside_crate(folder.path());
    let (target, caches) = (target_dir(), folder.path().join("caches/ferrowarp"));
    std::fs::create_dir_all(&caches).unwrap();
    let own = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    std::os::unix::fs::symlink(own, caches.join("kernels")).unwrap();
    let mut build = cargo(&outside, &["build", "--target-dir", target.to_str().unwrap()]);
    build.env("FERROWARP_ARCH", "compute_90").env("XDG_CACHE_HOME", caches.parent().unwrap());
    build.env("FERROWARP_TOOLS", cuda_builder::CudaBuilder::tools_dir_in(own));
    output(&mut build);
    let all = folder.path().join("all");
    std::fs::create_dir(&all).unwrap();
    // Where no other PTX is near.
    let moved = folder.path().join("outside");
    std::fs::copy(target.join("debug/outside"), &moved).unwrap();
    let mut program = Command::new(&moved);
    program.current_dir(folder.path()).arg(&all).env_clear();
    let said = program.output().unwrap();
    let log = String::from_utf8_lossy(&said.stderr);
    assert_eq!(
        String::from_utf8_lossy(&said.stdout),
        "[0.0, 0.0, 1.0, -inf]\n[0.5, 0.5, 1.0, 0.0]\n",
        "{log}"
    );
    let names: Vec<String> =
        all.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    for part in
        ["kernels", "softmax_kernels", "matmul_kernels", "attention_kernels", "norm_kernels", "axis_kernels"]
    {
        assert!(names.iter().any(|name| name.starts_with(&format!("{part}."))), "{part} is not in {names:?}");
    }
    assert!(!names.iter().any(|name| name.contains("mlp") || name.contains("lessons")), "{names:?}");

    // What an earlier build left is not taken when nothing is asked for.
    output(&mut cargo(&outside, &["build", "--target-dir", target.to_str().unwrap()]));
    std::fs::copy(target.join("debug/outside"), moved).unwrap();
    let said = program.output().unwrap();
    let log = String::from_utf8_lossy(&said.stderr);
    assert!(!said.status.success() && log.contains("no PTX found"), "{log}");
}

/// A program for `sh`, in the folder of the search path.
fn script(path: &Path, text: &str) {
    std::fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
}

/// The build script alone, with an `nvidia-smi` and a cargo that only say what they are asked.
#[test]
fn kernels_are_built_for_the_gpus_that_nvidia_smi_lists() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["bin", "xtask/ptx", "host"] {
        std::fs::create_dir_all(at(name)).unwrap();
    }
    std::fs::write(at("xtask/ptx/Cargo.toml"), "").unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("build.rs");
    let mut rustc = Command::new("rustc");
    output(rustc.args(["--edition=2024", "-o"]).arg(at("build")).arg(source));
    // It writes one file, where it is told to.
    script(
        &at("cargo"),
        "for last; do :; done\nmkdir -p \"$last\" && echo \"$@\" in $CARGO_TARGET_DIR >\"$last/k.compute_75.ptx\"",
    );
    let nothing = |text: &str| (text.to_owned(), 0, None);
    for (said, status, archs) in [
        ("9.0\n".to_owned(), 0, Some("compute_90")),
        ("9.0\n8.6\n12.0\n9.0\n".to_owned(), 0, Some("compute_120,compute_86,compute_90")),
        ("[N/A]\n7.5\n".to_owned(), 0, Some("compute_75")),
        ("9.0\n".to_owned(), 1, None),
        nothing("No devices were found\n"),
        nothing("Field \"compute_cap\" is not a valid field to query.\n"),
        nothing("NVIDIA-SMI has failed, version 580.82\n"),
        nothing(""),
    ] {
        std::fs::write(at("said"), &said).unwrap();
        script(&at("bin/nvidia-smi"), &format!("/bin/cat '{}'\nexit {status}", at("said").display()));
        // What an earlier build left is not embedded.
        std::fs::create_dir_all(at("out/kernels")).unwrap();
        std::fs::write(at("out/kernels/old.compute_75.ptx"), "").unwrap();
        let mut build = Command::new(at("build"));
        build.env_clear().env("PATH", format!("{}:/usr/bin:/bin", at("bin").display()));
        build.env("CARGO", at("cargo")).env("CARGO_MANIFEST_DIR", at("host")).env("OUT_DIR", at("out"));
        output(&mut build);
        let brought = std::fs::read_to_string(at("out/brought.rs")).unwrap();
        assert_eq!(brought.contains("k.compute_75.ptx"), archs.is_some(), "{said}: {brought}");
        if let Some(archs) = archs {
            let asked = std::fs::read_to_string(at("out/kernels/k.compute_75.ptx")).unwrap();
            assert!(asked.contains(&format!(" --arch {archs} ")), "{said}: {asked}");
            // Caches where nobody can write are done without.
            for (caches, used) in
                [(at("caches"), at("caches/ferrowarp/kernels")), ("/proc".into(), at("out/builder"))]
            {
                let log = output(build.env("XDG_CACHE_HOME", &caches));
                let asked = std::fs::read_to_string(at("out/kernels/k.compute_75.ptx")).unwrap();
                assert!(asked.trim_end().ends_with(&format!(" in {}", used.display())), "{asked}");
                let note = "warning=/proc/ferrowarp/kernels cannot be written, so the kernels are built for this project alone";
                assert_eq!(log.contains(note), caches == Path::new("/proc"), "{log}");
            }
        } else {
            assert_eq!(brought, "&[\n]\n", "{said}");
        }
    }
}

#[test]
fn an_error_in_a_kernel_is_shown_as_rustc_writes_it() {
    let (folder, _alone) = (tempfile::tempdir().unwrap(), alone());
    let outside = outside_crate(folder.path());
    let source = outside.join("kernels/src/lib.rs");
    let text = std::fs::read_to_string(&source).unwrap();
    // The method is the host's alone: the host's build has no error.
    std::fs::write(&source, text.replace("2.0 * x[i]", "x[i].sqrt()").replace("#![no_std]", "")).unwrap();
    let build = |color: &str| {
        let target = target_dir();
        let mut command =
            cargo(&outside, &["build", "--target-dir", target.to_str().unwrap(), "--color", color]);
        let output = command.env("RUST_BACKTRACE", "1").output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let log = build("never");
    let (_, said) = log.split_once("--- stderr\n").unwrap();
    assert!(said.trim_start().starts_with("error[E0599]: no method named `sqrt` found"), "{log}");
    assert!(said.contains("--> src/lib.rs:15:"), "{log}");
    // rustc says what to import.
    assert!(said.contains("use cuda_std::GpuFloat;"), "{log}");
    // Only a few lines of cargo come before it.
    let (_, before) = log.split_once("error: failed to run custom build command for `outside").unwrap();
    let before = before.split_once("--- stderr").unwrap().0;
    assert!(before.lines().count() <= 10 && !before.contains("has been working on"), "{before}");
    for noise in
        ["Compiling core", "Compiling ferrowarp-cuda-std v0.1.0\n", "panicked", "stack backtrace", "rerun-if"]
    {
        assert!(!said.contains(noise) && !before.contains(noise), "{noise}: {log}");
    }
    assert!(!said.contains('\u{1b}'), "{said}");
    let coloured = build("always");
    assert!(
        coloured.contains("\u{1b}[1m\u{1b}[38;5;9merror[E0599]")
            || coloured.contains("\u{1b}[1m\u{1b}[91merror[E0599]"),
        "{coloured:?}"
    );
}
