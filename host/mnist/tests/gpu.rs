//! `train-mnist` on a GPU that lacks something or fails during the run: one error with the cause and the fix, exit code 1, no
//! result written, and earlier checkpoints unchanged.
//!
//! The GPU is a fake driver whose kernels do nothing, so the weights keep their initial values.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::{Place, succeeds, words};
use ferrowarp_mnist::checkpoint::{self, Snapshot};

/// Far longer than a run takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Codes after which the context is broken, and parts of the errors.
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

/// Calls in the middle of a run.
const CALLS: [&str; 6] = ["alloc 6", "set 5", "copy 8", "launch 12", "kernel 12", "sync 10"];

/// A data set, the fake driver, and PTX with the names of all kernels that a GPU runs.
struct Gpu {
    place: Place,
    driver: PathBuf,
}

/// The program in a place with the PTX of its folder `ptx`.
fn on_device(place: &Place, device: &str, driver: &Path, more: &str) -> Command {
    let first = ["--device", device, "--data", "data"];
    let mut command = place.program(env!("CARGO_BIN_EXE_train-mnist"), &first, &words(more));
    command.env("FERROWARP_LIBCUDA", driver).env("FERROWARP_PTX", "ptx");
    command
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

    /// `train-mnist` on the GPU, which fails as `faults` says.
    fn train(&self, faults: &str, more: &str) -> Command {
        let flags = format!("--epochs 3 --hidden 20 {more}");
        let mut command = on_device(&self.place, "cuda", &self.driver, &flags);
        command.env("FAKE_CUDA_IDLE", "1").env("FAKE_CUDA_FAULTS", faults);
        command.env_remove("FERROWARP_SYNC").env_remove("CUDA_LAUNCH_BLOCKING");
        command
    }

    /// Runs a training that must fail, and returns its single error.
    fn fails(&self, faults: &str, more: &str) -> String {
        let mut child = self.train(faults, &format!("--pipeline fused {more}")).spawn().unwrap();
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
        // A note on how to resume may precede it.
        let error: Vec<&str> = errors.lines().filter(|line| line.starts_with("error: ")).collect();
        assert!(error.len() == 1 && errors.trim_end().ends_with(error[0]), "{faults}: {errors}");
        assert!(!errors.contains("panicked at"), "{faults}: {errors}");
        error[0].to_owned()
    }

    /// The checkpoints of a folder that holds nothing else, without what depends on the clock.
    fn checkpoints(&self, folder: &str) -> BTreeMap<OsString, Snapshot> {
        let entries = std::fs::read_dir(self.place.path(folder)).unwrap();
        let read = |path: PathBuf| {
            let mut snapshot = Snapshot::parse(&std::fs::read(&path).unwrap(), &path).unwrap();
            snapshot.progress.seconds = 0.0;
            snapshot.records.clear();
            (path.file_name().unwrap().to_owned(), snapshot)
        };
        entries.map(|entry| read(entry.unwrap().path())).collect()
    }
}

#[test]
fn missing_or_damaged_drivers_are_reported() {
    let place = Place::with_idx();
    place.write("libcuda.so.1", "no library");
    let train = |driver: &Path| on_device(&place, "cuda", driver, "--save w");
    let missing = Path::new("/nonexistent/libcuda.so.1");
    place.refuses(train(missing), &["/nonexistent/libcuda.so.1", "install the NVIDIA driver"]);
    place.refuses(train(&place.path("libcuda.so.1")), &["libcuda.so.1", "NVIDIA driver"]);
    #[cfg(unix)]
    {
        // Opening a pipe would wait for its writer.
        let elsewhere = Place::empty();
        let pipe = elsewhere.path("libcuda.so.1");
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        place.refuses(train(&pipe), &["libcuda.so.1", "it is not a regular file"]);
    }
}

#[test]
fn missing_or_damaged_ptx_is_reported() {
    let gpu = Gpu::new();
    let file = "ptx/gpu_kernels.compute_90.ptx";
    for device in ["auto", "cuda"] {
        let train = || on_device(&gpu.place, device, &gpu.driver, "--save w");
        for text in ["", "no PTX at all", ".version 8.6\n.target sm_75\n.visible .entry k() {"] {
            gpu.place.write(file, text);
            gpu.place.refuses(train(), &["gpu_kernels.compute_90.ptx", "`cargo xtask build-ptx`"]);
        }
        std::fs::remove_file(gpu.place.path(file)).unwrap();
        let needles = [
            "could not open a GPU; run on the CPU with --device cpu: no PTX found in",
            "`cargo xtask build-ptx`",
        ];
        gpu.place.refuses(train(), &needles);
    }
}

#[test]
fn a_gpu_trains_by_the_highest_rung_that_it_can() {
    let gpu = Gpu::new();
    let output = gpu.train("", "--save w.safetensors").output().unwrap();
    let warnings = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{warnings}");
    let why = "the pipeline resident cannot run here, and graph runs instead: it takes two hidden layers";
    assert!(warnings.contains(why), "{warnings}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("running on Fake GPU"));
    checkpoint::load(&gpu.place.path("w.safetensors")).unwrap();
}

#[test]
fn every_fault_during_a_run_is_one_error() {
    let gpu = Gpu::new();
    for (code, says) in CODES {
        for call in CALLS {
            let flags = "--pipeline fused --save w.safetensors --metrics m.jsonl";
            gpu.place.refuses(gpu.train(&format!("{call} {code}"), flags), says);
        }
    }
    // Errors that leave the context intact.
    for (faults, says) in [
        ("alloc 6 2", ["CUDA_ERROR_OUT_OF_MEMORY (2)", "1024 of 2048 MiB are free", ""]),
        (
            "launch 12 701",
            ["CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)", "(grid (", "the kernel needs 72 registers"],
        ),
    ] {
        let error = gpu.fails(faults, "--save w.safetensors");
        assert!(says.iter().all(|part| error.contains(part)), "{error}");
        assert!(!gpu.place.path("w.safetensors").exists());
    }
}

#[test]
fn blocking_launches_name_the_kernel() {
    let gpu = Gpu::new();
    let queued = gpu.fails("kernel 12 700", "");
    assert!(queued.contains("one of the queued kernels") && queued.contains("FERROWARP_SYNC=1"), "{queued}");
    let mut command = gpu.train("kernel 12 700", "--pipeline fused");
    let output = command.env("FERROWARP_SYNC", "1").output().unwrap();
    let one = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && one.starts_with("error: kernel "), "{one}");
    let kernel = one["error: kernel ".len()..].split(' ').next().unwrap();
    assert!(gpu_kernels::KERNELS.iter().any(|known| known.name == kernel), "{one}");
}

#[test]
fn checkpoints_survive_a_gpu_that_does_not() {
    let gpu = Gpu::new();
    let flags =
        |folder| format!("--pipeline fused --checkpoint {folder} --checkpoint-every 4 --checkpoint-keep 100");
    succeeds(gpu.train("", &flags("whole")));
    let whole = gpu.checkpoints("whole");
    assert!(whole.len() > 5, "{:?}", whole.keys());
    for (folder, faults, says) in [
        ("lost", "kernel 60 999", "Fake GPU was lost"),
        ("lost-in-copy", "copy 40 46", "Fake GPU was lost"),
        ("broken", "kernel 70 700", "accessed an invalid address"),
        ("hung", "kernel 80 hang", "did not end within the time limit of 300ms"),
    ] {
        let flags = flags(folder).replace("--pipeline fused", "--time-limit 0.3");
        let error = gpu.fails(faults, &flags);
        assert!(error.contains(says), "{faults}: {error}");
        let left = gpu.checkpoints(folder);
        assert!(!left.is_empty() && left.len() < whole.len(), "{faults}: {:?}", left.keys());
        for (name, snapshot) in &left {
            assert!(whole.get(name) == Some(snapshot), "{faults}: {name:?} is not as in a whole run");
        }
        succeeds(gpu.train("", &format!("--pipeline fused --resume {folder}")));
        assert_eq!(gpu.checkpoints(folder), whole, "{faults}");
    }
}
