//! Tools that do not end, crash or are killed, and the loop on which libNVVM did not end.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::child::{Child, script};
use crate::common::{builder, fixture};
use cuda_builder::Backend;

/// The fixture with this kernel alone.
const VARINT: &str = "empty,varint";

/// A folder of LLVM's tools, in which `opt` does something else where its arguments match a pattern of the shell. Their
/// version is the folder's own, so that the builder's cache has nothing of them.
fn slow_opt(folder: &Path, pattern: &str, deed: &str) -> PathBuf {
    let version = format!("22.9.{}", folder.file_name().unwrap().display());
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).current_dir(fixture()).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    let real = sysroot.join("lib/rustlib").join(format!("{}-unknown-linux-gnu/bin", std::env::consts::ARCH));
    let tools = folder.join("llvm");
    for tool in ["opt", "llc", "llvm-link"] {
        let real = real.join(tool).display().to_string();
        let slow = if tool == "opt" { pattern } else { "nothing" };
        let cases = format!("*--version*) echo 'LLVM version {version}'; exit;; {slow}) {deed};;");
        script(&tools.join(tool), &format!("case \"$*\" in {cases} esac\nexec '{real}' \"$@\""));
    }
    tools
}

const FOR_EVER: &str = "while :; do :; done";

#[test]
fn a_nest_that_libnvvm_would_unroll_without_end_compiles_at_the_level_asked_for() {
    for backend in [Backend::Nvvm, Backend::Llvm] {
        let built = builder(&format!("varint-{backend}"))
            .backend(backend)
            .build_args(&["--features", VARINT])
            .fall_back(false)
            .build_all()
            .unwrap();
        let module = &built.modules[0];
        assert_eq!((module.opt_level, &module.fell_back), (3, &None), "{backend}");
    }
}

#[test]
fn a_tool_that_does_not_end_at_a_level_is_replaced_by_a_lower_one_and_that_is_said_each_time() {
    let folder = tempfile::tempdir().unwrap();
    let tools = slow_opt(folder.path(), "*'default<O3>'*", FOR_EVER);
    let build = |seconds: &str| {
        let child = Child::new(folder.path()).env("FERROWARP_LLVM", &tools).by_llvm().features(VARINT);
        child.env("FERROWARP_COMPILER_SECONDS", seconds).build_and_say()
    };
    // The second build has it from the cache.
    for _ in 0..2 {
        let (ptx, said) = build("2");
        assert!(ptx.unwrap().contains(".entry varint"));
        assert!(said.contains("the kernel varint compiled at optimisation level 1, in "), "{said}");
        assert!(said.contains("opt did not end within 2 s at level 3"), "{said}");
    }
    // There is more time: the level asked for is tried again.
    let (ptx, said) = build("3");
    assert!(ptx.is_ok() && said.contains("did not end within 3 s at level 3"), "{said}");
}

#[test]
fn a_strict_build_does_not_fall_back() {
    let folder = tempfile::tempdir().unwrap();
    let tools = slow_opt(folder.path(), "*'default<O3>'*", FOR_EVER);
    let child = Child::new(folder.path()).env("FERROWARP_LLVM", &tools).by_llvm().features(VARINT).strict();
    let error = child.env("FERROWARP_COMPILER_SECONDS", "1").build().unwrap_err();
    assert!(error.contains("it was stopped after 1 seconds at level 3;"), "{error}");
}

#[test]
fn a_tool_that_never_ends_is_an_error_with_kernel_and_loop() {
    let folder = tempfile::tempdir().unwrap();
    let tools = slow_opt(folder.path(), "*-passes=*", FOR_EVER);
    let child = || Child::new(folder.path()).env("FERROWARP_LLVM", &tools).features(VARINT);
    let error = child().by_llvm().env("FERROWARP_COMPILER_SECONDS", "1").build().unwrap_err();
    assert!(error.contains("/opt did not end on the kernel varint for compute_75"), "{error}");
    for level in [3, 1, 0] {
        assert!(error.contains(&format!("it was stopped after 1 seconds at level {level}")), "{error}");
    }
    let source = std::fs::read_to_string(fixture().join("src/varint.rs")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains("value == 0")).unwrap();
    let loops: Vec<usize> = error
        .lines()
        .filter_map(|line| line.strip_prefix("  --> src/varint.rs:")?.strip_suffix(": a loop")?.parse().ok())
        .collect();
    assert!(loops.iter().any(|found| (line - 6..=line + 1).contains(found)), "{error}");
}

#[test]
fn a_tool_that_is_killed_is_named_with_the_signal_and_the_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let tools = slow_opt(folder.path(), "*-passes=*", "kill -KILL $$");
    let error = Child::new(folder.path()).env("FERROWARP_LLVM", &tools).features(VARINT).build().unwrap_err();
    assert!(
        error.contains("/opt died on the kernel varint for compute_75: SIGKILL, as the system"),
        "{error}"
    );
}
