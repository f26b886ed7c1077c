//! Tests `self-check` on a failing GPU (one error, exit code 1, no further calls), and the kernels that it launches on a
//! working one.
//!
//! The GPU is a fake driver with kernels that do nothing, so all results are wrong; only the program's behaviour matters.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{FakeGpu, text};

fn gpu() -> FakeGpu {
    let kernels = gpu_kernels::KERNELS.iter().filter(|kernel| !kernel.cpu_only);
    FakeGpu::new(kernels.map(|kernel| kernel.name), "")
}

/// The program on this GPU.
fn self_check(gpu: &FakeGpu, flags: &[&str], faults: &str) -> Command {
    // Soiling memory would add launches.
    let mut command = gpu.self_check(&[&["--no-soil"], flags].concat(), faults);
    command.env("FERROWARP_PTX", "ptx");
    command
}

#[test]
fn it_stops_at_a_fault() {
    let gpu = gpu();
    for (faults, says) in [
        ("kernel 7 700", "error: Fake GPU cannot be used any more, because it failed before (kernel "),
        ("kernel 7 hang", "did not end within the time limit of 300ms"),
    ] {
        let output = self_check(&gpu, &["--time-limit", "0.3"], faults).output().unwrap();
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
    let lines = text(&self_check(&gpu(), &flags, "").output().unwrap());
    assert!(!lines.contains("no kernel") && !lines.contains("for the CPU executor alone"), "{lines}");
    let words: BTreeSet<&str> = lines.split([' ', ':']).collect();
    for kernel in gpu_kernels::KERNELS.iter() {
        assert_eq!(words.contains(kernel.name), !kernel.cpu_only, "{}", kernel.name);
    }
}
