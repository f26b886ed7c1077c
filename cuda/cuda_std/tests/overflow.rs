//! A kernel thread that overflows its stack is named, and can have a larger one.

#![cfg(all(target_os = "linux", not(miri)))]

use std::hint::black_box;
use std::process::{Command, Output};

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::thread;

/// Runs the ignored test `name` in a process of its own, with stacks of `kib` KiB.
fn run(name: &str, kib: Option<&str>) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"])
        .env_remove("FERROWARP_STACK_KIB");
    command.envs(kib.map(|kib| ("FERROWARP_STACK_KIB", kib)));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, said)
}

#[test]
fn the_thread_is_named() {
    for name in ["a_large_array", "endless_recursion"] {
        let (output, said) = run(name, None);
        assert!(!output.status.success());
        let needle = format!(
            "error: kernel {name} overflowed the stack of block (1, 0, 0), thread (5, 0, 0), which has 256 KiB"
        );
        assert!(said.contains(&needle), "{said}");
    }
}

#[test]
fn a_larger_stack_holds_the_array() {
    let (output, said) = run("a_large_array", Some("1024"));
    assert!(output.status.success(), "{said}");
    for wrong in ["many", "-1", "16", "99999999999"] {
        let (output, said) = run("a_large_array", Some(wrong));
        let needle = format!("FERROWARP_STACK_KIB is `{wrong}`");
        assert!(!output.status.success() && said.contains(&needle), "{said}");
    }
}

/// What has nothing to do with the executor goes where it went.
#[test]
fn another_thread_s_overflow_is_the_standard_library_s_to_tell() {
    let (output, said) = run("recursion_outside_of_kernels", None);
    assert!(!output.status.success() && said.contains("has overflowed its stack"), "{said}");
}

fn launch(name: &'static str, kernel: impl Fn() + Sync) {
    let is_the_one = || thread::block_idx_x() == 1 && thread::thread_idx_x() == 5;
    let body = || {
        if is_the_one() {
            kernel()
        }
    };
    Executor::new().without_seed().run(name, LaunchConfig::new(2, 32), body).unwrap();
}

#[inline(never)]
fn large_array() -> u8 {
    black_box([1; 300 * 1024])[black_box(7)]
}

fn recurse(depth: u64) -> u64 {
    if black_box(depth) == u64::MAX { 0 } else { black_box(recurse(depth + 1)) + 1 }
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn a_large_array() {
    launch("a_large_array", || assert_eq!(large_array(), 1));
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn endless_recursion() {
    launch("endless_recursion", || assert_eq!(recurse(0), 0));
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn recursion_outside_of_kernels() {
    launch("before", || ());
    black_box(recurse(0));
}
