//! `self-check faults` on the CPU, and against a driver without a GPU whose kernels fail as the real ones do.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use crate::{FakeGpu, self_check, text};

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

fn on_cpu(flags: &[&str]) -> Output {
    self_check(&[&["--device", "cpu", "faults"], flags].concat()).output().unwrap()
}

fn rows(json: &Path) -> Vec<Value> {
    let json: Value = serde_json::from_str(&std::fs::read_to_string(json).unwrap()).unwrap();
    json["faults"].as_array().unwrap().clone()
}

fn gpu() -> FakeGpu {
    let slot = ".visible .global .align 8 .b8 __ferrowarp_panic_slot[8];\n";
    let stack = "// ferrowarp: unbounded stack: descends: recursion through `descend`\n";
    FakeGpu::new(KERNELS.into_iter(), &[slot, stack].concat())
}

fn on_gpu(gpu: &FakeGpu, flags: &[&str], faults: &str) -> Output {
    gpu.self_check(&[&["faults"], flags].concat(), faults).output().unwrap()
}

#[test]
fn without_a_gpu_the_counterparts_run_and_the_rest_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("faults.json");
    let output = on_cpu(&["--json", json.to_str().unwrap()]);
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
    let gpu = gpu();
    let json = gpu.folder.path().join("faults.json");
    let output = on_gpu(&gpu, &["--ptx", "ptx", "--json", json.to_str().unwrap()], "");
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
    let gpu = gpu();
    // The first kernel of a child is the one that shows the device to be in order.
    for (faults, fault, complaint) in [
        ("kernel 2 719", "illegal-address", "the error does not say `CUDA_ERROR_ILLEGAL_ADDRESS (700)`"),
        ("kernel 2 hang", "trap", "the error does not say `trapped`"),
        ("kernel 2 700", "shared-memory", "afterwards the device was unusable"),
        ("kernel 1 700", "out-of-memory", "the error does not say `allocating `"),
    ] {
        let output = on_gpu(&gpu, &["--ptx", "ptx", "--only", fault], faults);
        let text = text(&output);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(&format!("FAIL     {fault}")) && text.contains(complaint), "{text}");
        assert!(text.ends_with("0 passed, 1 failed, 0 not run\n"), "{text}");
    }
}

#[test]
fn what_cannot_be_checked_is_an_error() {
    let output = on_cpu(&["--only", "nonsense"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("no fault's name contains `nonsense`"), "{}", text(&output));

    let output = on_gpu(&gpu(), &["--ptx", "/nowhere/ptx"], "");
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
    let output = on_cpu(&["--only", "index", "--json", link.to_str().unwrap()]);
    assert!(output.status.success(), "{}", text(&output));
    assert!(link.is_symlink() && !rows(&file).is_empty());
    let output = on_cpu(&["--json", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    let begin = format!("error: --json {} cannot be used", folder.path().display());
    assert!(text(&output).starts_with(&begin), "{}", text(&output));
}
