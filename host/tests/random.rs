//! Random problems of every operation, other ones for each commit: on the CPU, and with the kernels that GPUs of each
//! compute capability get, on the executor.

use std::process::Command;

use cuda_std::launch::Limits;
use cuda_std::simt::Executor;
use ferrowarp::device::Device;
use ferrowarp_cases::Share;
use ferrowarp_cases::random::{Size, check_all};

/// Blocks at the same time, the multiprocessors that kernels are chosen for: those of an H200.
const MULTIPROCESSORS: usize = 132;

/// `FERROWARP_RANDOM=SEED` in the environment, otherwise from the commit.
fn seed() -> u64 {
    if let Ok(seed) = std::env::var("FERROWARP_RANDOM") {
        return seed.parse().unwrap_or_else(|_| panic!("FERROWARP_RANDOM={seed}: expected a number"));
    }
    let commit = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output().ok();
    let commit = commit.and_then(|output| String::from_utf8(output.stdout).ok());
    commit.and_then(|commit| u64::from_str_radix(commit.trim(), 16).ok()).unwrap_or(0)
}

/// Checks this many problems, or fewer in a small [`Share`].
#[track_caller]
fn assert_right(device: &Device, problems: u32) {
    let (seed, problems) = (seed(), u64::from(Share::of_tests().count(problems)));
    let (_, refused, wrong) = check_all(device, (seed, 0..problems), &Size::SMALL, None, 1);
    assert!(
        wrong.is_empty(),
        "{} of {problems} problems are wrong; FERROWARP_RANDOM={seed} repeats them:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    // Whether a refusal is right, the problem says; here something was run.
    assert!(refused < problems, "all of {problems} problems were refused");
}

/// The kernels of a GPU, on the executor.
fn gpu(capability: u32) -> Device {
    Device::cpu_with(Executor::new().with_limits(Limits::of_gpu(capability)).with_workers(MULTIPROCESSORS))
}

#[test]
fn on_the_cpu() {
    assert_right(&Device::cpu(), 400);
}

#[test]
fn with_the_kernels_of_7_5() {
    assert_right(&gpu(75), 100);
}

#[test]
fn with_the_kernels_of_8_0() {
    assert_right(&gpu(80), 100);
}

#[test]
fn with_the_kernels_of_8_6() {
    assert_right(&gpu(86), 100);
}

#[test]
fn with_the_kernels_of_9_0() {
    assert_right(&gpu(90), 300);
}

#[test]
fn with_the_kernels_of_12_0() {
    assert_right(&gpu(120), 100);
}
