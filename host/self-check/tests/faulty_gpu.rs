//! `self-check` on a GPU that fails: one error, exit code 1, and nothing more is asked of it.
//!
//! The GPU is a driver whose kernels do nothing, so all results are wrong; what counts is what the program does.

#[path = "../../../cuda/cust/tests/support/mod.rs"]
mod support;

use std::fs;
use std::process::Command;

#[test]
fn it_stops_at_a_fault() {
    let folder = tempfile::tempdir().unwrap();
    let driver = support::build_fake_driver(folder.path());
    let entries =
        gpu_kernels::KERNELS.iter().map(|kernel| format!(".visible .entry {}() {{ ret; }}\n", kernel.name));
    let entries: String = entries.collect();
    fs::create_dir(folder.path().join("ptx")).unwrap();
    let module = format!(".version 8.6\n.target sm_90\n.address_size 64\n{entries}");
    fs::write(folder.path().join("ptx/gpu_kernels.compute_90.ptx"), module).unwrap();
    for (faults, says) in [
        ("kernel 7 700", "error: Fake GPU cannot be used any more, since it failed before (kernel "),
        ("kernel 7 hang", "did not end within the time limit of 300ms"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_self-check"));
        // Soil would be launches too.
        command.args(["--device", "cuda", "--no-soil", "--time-limit", "0.3"]).current_dir(folder.path());
        command.env("FERROWARP_LIBCUDA", &driver).env("FERROWARP_PTX", "ptx");
        command.env("FAKE_CUDA_IDLE", "1").env("FAKE_CUDA_FAULTS", faults);
        let output = command.output().unwrap();
        let (lines, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{faults}: {errors}");
        assert!(errors.contains(says) && errors.lines().count() == 1, "{faults}: {errors}");
        assert!(lines.lines().count() < 10, "{faults}: {lines}");
    }
}
