//! `train-mnist` on a GPU that fails in mid-run: one error that says what and what to do, exit code 1, no result written,
//! and the checkpoints written before as they were.
//!
//! The GPU is a driver whose kernels do nothing, so the weights stay as they begin; what counts is what the program does.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Place, succeeds};
use ferrowarp_mnist::checkpoint::{self, Snapshot};

/// Far above what a run takes, and far below a hang.
const PATIENCE: Duration = Duration::from_secs(60);

/// Codes after which the context is broken, with the texts that an error must hold.
const CODES: &[(u32, &[&str])] = &[
    (46, &["Fake GPU was lost", "CUDA_ERROR_DEVICE_UNAVAILABLE (46)", "checkpoint"]),
    (214, &["reported a hardware error", "CUDA_ERROR_ECC_UNCORRECTABLE (214)", "checkpoint"]),
    (700, &["accessed an invalid address", "CUDA_ERROR_ILLEGAL_ADDRESS (700)", "compute-sanitizer"]),
    (702, &["watchdog", "CUDA_ERROR_LAUNCH_TIMEOUT (702)", "less work at once"]),
    (710, &["failed an assertion", "CUDA_ERROR_ASSERT (710)", "compute-sanitizer"]),
    (715, &["trapped", "CUDA_ERROR_ILLEGAL_INSTRUCTION (715)", "cargo xtask build-ptx"]),
    (716, &["accessed a misaligned address", "CUDA_ERROR_MISALIGNED_ADDRESS (716)", "compute-sanitizer"]),
    (717, &["wrong address space", "CUDA_ERROR_INVALID_ADDRESS_SPACE (717)", "compute-sanitizer"]),
    (718, &["invalid instruction address", "CUDA_ERROR_INVALID_PC (718)", "compute-sanitizer"]),
    (719, &["trapped", "CUDA_ERROR_LAUNCH_FAILED (719)", "compute-sanitizer"]),
    (999, &["Fake GPU was lost", "CUDA_ERROR_UNKNOWN (999)", "dmesg"]),
];

/// Calls in mid-run.
const PLACES: [&str; 6] = ["alloc 6", "set 5", "copy 8", "launch 12", "kernel 12", "sync 10"];

/// A data set, the fake driver, and PTX with the names of all kernels that a GPU runs.
struct Gpu {
    place: Place,
    driver: PathBuf,
}

impl Gpu {
    fn new() -> Gpu {
        let place = Place::with_idx();
        let driver = crate::driver::build_fake_driver(&place.path(""));
        std::fs::create_dir(place.path("ptx")).unwrap();
        let entries = gpu_kernels::KERNELS
            .iter()
            .filter(|kernel| !kernel.cpu_only)
            .map(|kernel| format!(".visible .entry {}() {{ ret; }}\n", kernel.name));
        let entries: String = entries.collect();
        let module = format!(".version 8.6\n.target sm_90\n.address_size 64\n{entries}");
        place.write("ptx/gpu_kernels.compute_90.ptx", module);
        Gpu { place, driver }
    }

    /// `train-mnist` on the GPU by one launch after the other, which fails as `faults` say.
    fn train(&self, faults: &str, flags: &[&str]) -> Command {
        self.train_by_default(faults, &[&["--pipeline", "fused"], flags].concat())
    }

    /// As above, by the pipeline that is the default there.
    fn train_by_default(&self, faults: &str, flags: &[&str]) -> Command {
        let first = ["--device", "cuda", "--data", "data", "--epochs", "3", "--hidden", "20"];
        let mut command = self.place.program(env!("CARGO_BIN_EXE_train-mnist"), &first, flags);
        command.env("FERROWARP_LIBCUDA", &self.driver).env("FERROWARP_PTX", "ptx");
        command.env("FAKE_CUDA_IDLE", "1").env("FAKE_CUDA_FAULTS", faults);
        command.env_remove("FERROWARP_SYNC").env_remove("CUDA_LAUNCH_BLOCKING");
        command
    }

    /// Runs a training that must fail, and returns its one error.
    fn fails(&self, faults: &str, flags: &[&str]) -> String {
        let mut child = self.train(faults, flags).spawn().unwrap();
        let start = Instant::now();
        while child.try_wait().unwrap().is_none() {
            if start.elapsed() > PATIENCE {
                child.kill().unwrap();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // An epoch's lines and one error fit into the pipes.
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{faults}: {errors}");
        // A note may stand before it that says how to resume.
        let error: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(error.len() == 1 && errors.trim_end().ends_with(error[0]), "{faults}: {errors}");
        assert!(!errors.contains("panicked at"), "{faults}: {errors}");
        error[0].to_owned()
    }

    /// The checkpoints of a folder, which holds nothing else, without what depends on the clock.
    fn checkpoints(&self, folder: &str) -> BTreeMap<OsString, Snapshot> {
        let entries = std::fs::read_dir(self.place.path(folder)).unwrap();
        let read = |path: PathBuf| {
            let mut snapshot = checkpoint::parse(&std::fs::read(&path).unwrap()).unwrap();
            snapshot.progress.seconds = 0.0;
            snapshot.records.clear();
            (path.file_name().unwrap().to_owned(), snapshot)
        };
        entries.map(|entry| read(entry.unwrap().path())).collect()
    }
}

#[test]
fn a_gpu_trains_by_the_highest_rung_that_can() {
    let gpu = Gpu::new();
    let output = gpu.train_by_default("", &[]).output().unwrap();
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{warnings}");
    let why = "the pipeline resident cannot run here, and graph runs instead: it takes two hidden layers";
    assert!(warnings.contains(why), "{warnings}");
}

#[test]
fn a_healthy_gpu_trains() {
    let gpu = Gpu::new();
    let text = succeeds(gpu.train("", &["--save", "w.safetensors"]));
    assert!(text.contains("running on Fake GPU"), "{text}");
    checkpoint::load(&gpu.place.path("w.safetensors")).unwrap();
}

#[test]
fn every_fault_in_mid_run_is_one_error() {
    let gpu = Gpu::new();
    for (code, says) in CODES {
        for place in PLACES {
            let command =
                gpu.train(&format!("{place} {code}"), &["--save", "w.safetensors", "--metrics", "m.jsonl"]);
            gpu.place.refuses(command, says);
        }
    }
}

#[test]
fn errors_that_pass_end_the_run_as_well() {
    let gpu = Gpu::new();
    let alloc = gpu.fails("alloc 6 2", &["--save", "w.safetensors"]);
    assert!(
        alloc.contains("CUDA_ERROR_OUT_OF_MEMORY (2)") && alloc.contains("1024 of 2048 MiB are free"),
        "{alloc}"
    );
    let launch = gpu.fails("launch 12 701", &["--save", "w.safetensors"]);
    assert!(
        launch.contains("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)") && launch.contains("(grid ("),
        "{launch}"
    );
    assert!(launch.contains("the kernel needs 72 registers"), "{launch}");
    assert!(!gpu.place.path("w.safetensors").exists());
}

#[test]
fn blocking_launches_name_the_kernel() {
    let gpu = Gpu::new();
    let queued = gpu.fails("kernel 12 700", &[]);
    assert!(queued.contains("one of the queued kernels") && queued.contains("FERROWARP_SYNC=1"), "{queued}");
    let mut command = gpu.train("kernel 12 700", &[]);
    let output = command.env("FERROWARP_SYNC", "1").output().unwrap();
    let one = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && one.starts_with("error: kernel "), "{one}");
    let kernel = one["error: kernel ".len()..].split(' ').next().unwrap();
    assert!(gpu_kernels::KERNELS.iter().any(|known| known.name == kernel), "{one}");
}

#[test]
fn checkpoints_survive_a_gpu_that_does_not() {
    let gpu = Gpu::new();
    let flags = |folder| ["--checkpoint", folder, "--checkpoint-every", "4", "--checkpoint-keep", "100"];
    succeeds(gpu.train("", &flags("whole")));
    let whole = gpu.checkpoints("whole");
    assert!(whole.len() > 5, "{:?}", whole.keys());

    let timed = |folder| [&flags(folder)[..], &["--time-limit", "0.3"]].concat();
    for (folder, faults, says) in [
        ("lost", "kernel 60 999", "Fake GPU was lost"),
        ("lost-in-copy", "copy 40 46", "Fake GPU was lost"),
        ("broken", "kernel 70 700", "accessed an invalid address"),
        ("hung", "kernel 80 hang", "did not end within the time limit of 300ms"),
    ] {
        let error = gpu.fails(faults, &timed(folder));
        assert!(error.contains(says), "{faults}: {error}");
        let left = gpu.checkpoints(folder);
        assert!(!left.is_empty() && left.len() < whole.len(), "{faults}: {:?}", left.keys());
        for (name, snapshot) in &left {
            assert!(whole.get(name) == Some(snapshot), "{faults}: {name:?} is not as in a whole run");
        }
        // What is left is a checkpoint to go on from.
        succeeds(gpu.train("", &["--resume", folder]));
        assert_eq!(gpu.checkpoints(folder), whole, "{faults}");
    }
}
