//! The self-check binary: what it prints, and its exit code.

use std::process::{Command, Output};

fn self_check(flags: &[&str]) -> Output {
    crate::self_check(flags).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Of the cases, the share of all tests: `FERROWARP_CASES` in the environment.
#[test]
fn all_kernels_are_right_on_the_cpu() {
    let part = std::env::var("FERROWARP_CASES").unwrap_or_else(|_| "small".to_owned());
    let output = self_check(&["--device", "cpu", "--part", &part]);
    let text = text(&output.stdout);
    let last = text.lines().last().unwrap();
    let passed = last.strip_suffix(" passed, 0 failed").unwrap_or_else(|| panic!("{text}"));
    let cases = text.lines().filter(|line| line.starts_with("ok ")).count();
    assert_eq!(passed.parse(), Ok(cases));
    assert!(output.status.success());
}

#[test]
fn every_kernel_is_listed() {
    let output = self_check(&["--device", "cpu", "--list"]);
    let text = text(&output.stdout);
    let cases = text.lines().count();
    let ways = || {
        gpu_kernels::ladders::softmax::LADDER.iter().flat_map(gpu_kernels::ladders::softmax::Rung::variants)
    };
    assert!(cases > 8 * ways().count(), "{cases}");
    for kernel in ways().map(|way| way.meta().name).chain(["linear_forward", "update_layer"]) {
        assert!(text.contains(&format!("{kernel} 65x130x67")), "{kernel}");
    }
    for operation in ["softmax of bf16", "gradient through a softmax of f16", "cross entropy of f32"] {
        assert!(
            text.contains(&format!(" {operation}, 3x")) || text.contains(&format!(" {operation}, 2x")),
            "{operation}"
        );
    }
    assert!(output.status.success());
}

#[test]
fn one_kernel_can_be_chosen() {
    let output = self_check(&["--device", "cpu", "--only", "softmax_naive"]);
    let text_of_one = text(&output.stdout);
    assert!(text_of_one.ends_with("\n20 passed, 0 failed\n"), "{text_of_one}");

    let output = self_check(&["--device", "cpu", "--only", "no_such_kernel"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no name of a kernel or operation contains `no_such_kernel`"));
}

#[test]
fn random_problems_leave_their_errors_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("errors.json");
    let random = ["--only", "norm", "random", "--device", "cpu", "--problems", "40", "--seed", "3"];
    let output = self_check(&[&random[..], &["--json", path.to_str().unwrap()]].concat());
    let printed = text(&output.stdout);
    assert!(
        output.status.success() && printed.contains("40 problems of seed 3: 0 wrong, 0 without"),
        "{printed}"
    );
    let json = std::fs::read_to_string(path).unwrap();
    for part in ["\"operation\": \"LayerNorm backward: d_inp\"", "\"wrong\": []", "\"commit\": "] {
        assert!(json.contains(part), "{part} is not in {json}");
    }
    let output = self_check(&["--device", "cpu", "random", "--only", "no_such"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no operation's name contains `no_such`"));
}

#[test]
fn a_missing_driver_is_an_error() {
    let output = self_check(&["--device", "cuda"]);
    assert_eq!(output.status.code(), Some(1));
    let text = text(&output.stderr);
    assert!(text.contains("/nowhere/libcuda.so.1") && text.contains("install the NVIDIA driver"), "{text}");
}

#[test]
fn a_fault_is_told_with_kernel_place_and_thread() {
    let output = self_check(&["--device", "cpu", "--provoke-fault"]);
    let text = text(&output.stdout);
    for part in
        ["kernel relu_forward", "thread (5, 0, 0)", "activation.rs:", "the len is 5 but the index is 5"]
    {
        assert!(text.contains(part), "{part:?} in {text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_closed_standard_output_is_an_error() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_self-check"));
    let output = command.args(["--device", "cpu", "--only", "relu"]).stdout(full).output().unwrap();
    let text = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("error: could not write to the standard output"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn it_starts_no_more_threads_than_there_are_cores() {
    // Each thread reserves 2 MiB of address space for its stack, so thousands of threads would not fit.
    let line = "ulimit -v 8000000; exec \"$0\" --device cpu --only relu";
    let output = Command::new("sh")
        .args(["-c", line, env!("CARGO_BIN_EXE_self-check")])
        .env("RAYON_NUM_THREADS", "100000")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn wrong_architectures_and_variables_are_refused_with_the_fix() {
    let output = self_check(&["--device", "cpu", "--arch", "compute_70"]);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        error.contains("no kernels for `compute_70`; name an architecture of 75, 80, 86, 87,"),
        "{error}"
    );

    let output = crate::self_check(&["--device", "cpu"]).env("FERROWARP_SYNC", "maybe").output().unwrap();
    let error = text(&output.stderr);
    assert_eq!(
        error,
        "error: FERROWARP_SYNC is `maybe`; set it to 1 to wait for each launch or to 0, or unset it\n"
    );
}
