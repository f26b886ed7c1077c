//! Tests `self-check` on a failing GPU (one error, exit code 1, no further calls), and the kernels that it launches on a
//! working one.
//!
//! The GPU is a fake driver with kernels that do nothing, so all results are wrong; only the program's behaviour matters.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// A folder with the fake driver, and PTX with the names of all GPU kernels.
fn gpu() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let driver = crate::driver::build_fake_driver(folder.path());
    let kernels = gpu_kernels::KERNELS.iter().filter(|kernel| !kernel.cpu_only);
    let entries: String =
        kernels.map(|kernel| format!(".visible .entry {}() {{ ret; }}\n", kernel.name)).collect();
    fs::create_dir(folder.path().join("ptx")).unwrap();
    let module = format!(".version 8.6\n.target sm_90\n.address_size 64\n{entries}");
    fs::write(folder.path().join("ptx/gpu_kernels.compute_90.ptx"), module).unwrap();
    (folder, driver)
}

/// The program on this GPU.
fn self_check((folder, driver): &(TempDir, PathBuf)) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_self-check"));
    // Soiling memory would add launches.
    command.args(["--device", "cuda", "--no-soil"]).current_dir(folder.path());
    command.env("FERROWARP_LIBCUDA", driver).env("FERROWARP_PTX", "ptx").env("FAKE_CUDA_IDLE", "1");
    command
}

#[test]
fn it_stops_at_a_fault() {
    let gpu = gpu();
    for (faults, says) in [
        ("kernel 7 700", "error: Fake GPU cannot be used any more, because it failed before (kernel "),
        ("kernel 7 hang", "did not end within the time limit of 300ms"),
    ] {
        let mut command = self_check(&gpu);
        let output = command.args(["--time-limit", "0.3"]).env("FAKE_CUDA_FAULTS", faults).output().unwrap();
        let (lines, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{faults}: {errors}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{faults}: {errors}");
        assert!(lines.lines().count() < 10, "{faults}: {lines}");
    }
}

/// All launched kernels exist, and all existing kernels are launched.
#[test]
fn it_checks_the_kernels_that_a_gpu_has() {
    // Computing the expected results of each case takes a minute.
    let flags = ["--no-fault-checks", "--launch-only", "--every", "1000"];
    let output = self_check(&gpu()).args(flags).output().unwrap();
    let lines = String::from_utf8_lossy(&output.stdout);
    assert!(!lines.contains("no kernel") && !lines.contains("for the CPU executor alone"), "{lines}");
    let words: BTreeSet<&str> = lines.split([' ', ':']).collect();
    for kernel in gpu_kernels::KERNELS.iter() {
        assert_eq!(words.contains(kernel.name), !kernel.cpu_only, "{}", kernel.name);
    }
}
