//! fault-check on the CPU, and against a driver without a GPU whose kernels fail as the real ones do.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const KERNELS: [&str; 9] = [
    "fill",
    "reads_nowhere",
    "reads_askew",
    "traps",
    "indexes_past_the_end",
    "asserts",
    "never_ends",
    "descends",
    "many_registers",
];

/// How many faults there are, and how many of them the CPU has no counterpart for. A release build leaves out one more.
const FAULTS: usize = 12;
const ON_GPUS_ONLY: usize = 6;

fn fault_check(flags: &[&str], variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fault-check"));
    command.env("FERROWARP_LIBCUDA", "/nowhere/libcuda.so.1");
    command.args(flags).envs(variables.iter().copied()).output().unwrap()
}

/// No system has memory for stacks of this size.
#[test]
fn a_thread_that_cannot_be_started_is_an_error() {
    let output = fault_check(&["--device", "cpu"], &[("RUST_MIN_STACK", "4611686018427387904")]);
    let text = text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("error: starting a thread to read a child's messages"), "{text}");
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn rows(json: &Path) -> Vec<Value> {
    let json: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    json["faults"].as_array().unwrap().clone()
}

/// A folder with the fake driver and PTX for it.
fn with_gpu() -> (tempfile::TempDir, String, String) {
    let folder = tempfile::tempdir().unwrap();
    let driver = crate::driver::build_fake_driver(folder.path());
    let ptx = folder.path().join("ptx");
    std::fs::create_dir(&ptx).unwrap();
    let entries: String =
        KERNELS.iter().map(|name| format!(".visible .entry {name}() {{ ret; }}\n")).collect();
    let slot = ".visible .global .align 8 .b8 __ferrowarp_panic_slot[8];";
    let stack = "// ferrowarp: unbounded stack: descends: recursion through `descend`\n";
    let module = format!(".version 8.6\n.target sm_90\n.address_size 64\n{slot}\n{entries}{stack}");
    std::fs::write(ptx.join("fault_kernels.compute_90.ptx"), module).unwrap();
    let shown = |path: &Path| path.to_str().unwrap().to_owned();
    let paths = (shown(&driver), shown(&ptx));
    (folder, paths.0, paths.1)
}

fn on_gpu(driver: &str, ptx: &str, flags: &[&str], faults: &str) -> Output {
    let flags = [&["--device", "cuda", "--ptx", ptx], flags].concat();
    let variables = [("FERROWARP_LIBCUDA", driver), ("FAKE_CUDA_IDLE", "1"), ("FAKE_CUDA_FAULTS", faults)];
    fault_check(&flags, &variables)
}

#[test]
fn without_a_gpu_the_counterparts_run_and_the_rest_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("faults.json");
    let output = fault_check(&["--json", json.to_str().unwrap()], &[]);
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    let left_out = ON_GPUS_ONLY + usize::from(!cfg!(debug_assertions));
    let last = format!("{} passed, 0 failed, {left_out} not run\n", FAULTS - left_out);
    assert!(text.ends_with(&last), "{text}");
    let rows = rows(&json);
    assert_eq!(rows.len(), FAULTS);
    for row in &rows {
        let (verdict, fault) = (row["verdict"].as_str().unwrap(), row["fault"].as_str().unwrap());
        assert!(text.contains(&format!("{verdict:<8} {fault}")), "{fault}: {text}");
        match verdict {
            "ok" => assert_eq!(row["exit_code"], 1, "{row}"),
            "not run" => {
                assert!(row["reason"].as_str().unwrap().starts_with("no GPU; on the CPU "), "{row}");
                assert!(row["exit_code"].is_null() && row["message"].is_null(), "{row}");
            }
            other => panic!("{other}: {row}"),
        }
    }
    let endless = rows.iter().find(|row| row["fault"] == "endless-loop").unwrap();
    assert_eq!(endless["verdict"], "not run");
}

#[test]
fn every_fault_of_a_gpu_is_met() {
    let (folder, driver, ptx) = with_gpu();
    let json = folder.path().join("faults.json");
    let output = on_gpu(&driver, &ptx, &["--json", json.to_str().unwrap()], "");
    let text = text(&output);
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("running on Fake GPU ("), "{text}");
    assert!(text.ends_with(&format!("{FAULTS} passed, 0 failed, 0 not run\n")), "{text}");
    for row in rows(&json) {
        assert_eq!((row["verdict"].as_str(), row["exit_code"].as_i64()), (Some("ok"), Some(1)), "{row}");
        assert!(row["message"].as_str().unwrap().starts_with("error: "), "{row}");
    }
}

#[test]
fn a_fault_that_is_another_fails_the_check() {
    let (_folder, driver, ptx) = with_gpu();
    // The first kernel of a child is the one that shows the device to be in order.
    for (faults, fault, complaint) in [
        ("kernel 2 719", "illegal-address", "the error does not say `CUDA_ERROR_ILLEGAL_ADDRESS (700)`"),
        ("kernel 2 hang", "trap", "the error does not say `trapped`"),
        ("kernel 2 700", "shared-memory", "afterwards the device was unusable"),
        ("kernel 1 700", "out-of-memory", "the error does not say `allocating `"),
    ] {
        let output = on_gpu(&driver, &ptx, &["--only", fault], faults);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("FAIL     {fault}")) && text.contains(complaint), "{text}");
        assert!(text.ends_with("0 passed, 1 failed, 0 not run\n"), "{text}");
    }
}

#[test]
fn what_cannot_be_checked_is_an_error() {
    let output = fault_check(&["--device", "cpu", "--only", "nonsense"], &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("no fault's name contains `nonsense`"), "{}", text(&output));

    let (_folder, driver, _) = with_gpu();
    let output = on_gpu(&driver, "/nowhere/ptx", &[], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("cargo xtask build-ptx --crate faults/kernels"), "{}", text(&output));
}

#[cfg(unix)]
#[test]
fn the_results_go_through_a_link_and_a_bad_destination_is_refused_first() {
    let folder = tempfile::tempdir().unwrap();
    let [file, link] = ["file", "link"].map(|name| folder.path().join(name));
    std::fs::write(&file, "old").unwrap();
    std::os::unix::fs::symlink("file", &link).unwrap();
    let output = fault_check(&["--device", "cpu", "--only", "index", "--json", link.to_str().unwrap()], &[]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(link.is_symlink() && !rows(&file).is_empty());
    let output = fault_check(&["--device", "cpu", "--json", folder.path().to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(1));
    let begin = format!("error: --json {} cannot be used", folder.path().display());
    assert!(text(&output).starts_with(&begin), "{}", text(&output));
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_output_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fault-check"));
    let output = command.args(["--device", "cpu", "--only", "index"]).stdout(full).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).starts_with("error: could not write to the standard output"), "{}", text(&output));
}
