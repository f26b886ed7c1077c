//! Kernels that end the program name the thread: it overflows its stack, panics while it unwinds, or never ends.

#![cfg(all(target_os = "linux", not(miri)))]

use std::hint::black_box;
use std::process::{Command, Output};

use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::testing::KernelTest;
use cuda_std::{kernel, thread};

/// Runs the ignored test `name` in its own process, with this variable in the environment.
fn run(name: &str, variable: Option<(&str, &str)>) -> (Output, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", &format!("ends::{name}"), "--ignored", "--nocapture", "--test-threads=1"])
        .env_remove("FERROWARP_STACK_KIB")
        .env_remove("FERROWARP_KERNEL_SECONDS");
    command.envs(variable);
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
    let (output, said) = run("a_large_array", Some(("FERROWARP_STACK_KIB", "1024")));
    assert!(output.status.success(), "{said}");
    for wrong in ["many", "-1", "16", "99999999999"] {
        let (output, said) = run("a_large_array", Some(("FERROWARP_STACK_KIB", wrong)));
        let needle = format!("FERROWARP_STACK_KIB is `{wrong}`");
        assert!(!output.status.success() && said.contains(&needle), "{said}");
    }
}

#[test]
fn a_wild_pointer_names_the_thread() {
    for (name, address) in [("a_wild_pointer", "the address 0x8"), ("an_impossible_pointer", "an address")] {
        let (output, said) = run(name, None);
        assert!(!output.status.success());
        let needle = format!(
            "error: kernel {name} failed in block (1, 0, 0), thread (5, 0, 0): accessed {address}, where there is no memory"
        );
        assert!(said.contains(&needle), "{said}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_jump_to_what_is_not_code_names_the_thread() {
    use std::os::unix::process::ExitStatusExt as _;
    let (output, said) = run("an_illegal_instruction", None);
    assert_eq!(output.status.signal(), Some(libc::SIGILL), "{said}");
    let needle = "error: kernel an_illegal_instruction failed in block (1, 0, 0), thread (5, 0, 0): ran an illegal \
                  instruction at the address 0x";
    assert!(said.contains(needle) && said.contains("check its function pointers"), "{said}");
}

#[test]
fn a_wild_index_in_a_test_names_the_thread() {
    let (output, said) = run("a_wild_index", None);
    assert!(!output.status.success());
    let needle =
        "error: kernel writes_at failed in block (1, 0, 0), thread (5, 0, 0): accessed the address 0x";
    assert!(said.contains(needle) && said.contains(", where there is no memory"), "{said}");
}

/// Signals that do not concern the executor go to the previous handler.
#[test]
fn another_thread_s_overflow_is_the_standard_library_s_to_tell() {
    let (output, said) = run("recursion_outside_of_kernels", None);
    assert!(!output.status.success() && said.contains("has overflowed its stack"), "{said}");
}

#[test]
fn a_panic_while_unwinding_names_the_thread() {
    let (output, said) = run("a_destructor_that_panics", None);
    assert!(!output.status.success());
    let needle = "error: kernel a_destructor_that_panics failed in block (1, 0, 0), thread (5, 0, 0), at cuda/cuda_std/tests/ends.rs:";
    let why = "panicked: in the destructor; this ends the program: panic in a destructor during cleanup";
    assert!(said.contains(needle) && said.contains(why), "{said}");
}

/// Such a check aborts without unwinding.
#[test]
#[cfg(debug_assertions)]
fn a_failed_check_of_a_pointer_names_the_thread() {
    let (output, said) = run("a_misaligned_pointer", None);
    assert!(!output.status.success());
    let needle = "error: kernel a_misaligned_pointer failed in block (1, 0, 0), thread (5, 0, 0), at cuda/cuda_std/tests/ends.rs:";
    assert!(said.contains(needle) && said.contains("panicked: misaligned pointer dereference"), "{said}");
    assert!(said.contains("; this ends the program"), "{said}");
}

#[test]
fn a_kernel_that_never_ends_is_named() {
    let (output, said) = run("spinning", Some(("FERROWARP_KERNEL_SECONDS", "0.1")));
    assert!(!output.status.success());
    let needle = "error: kernel spinning failed in block (1, 0, 0), thread (5, 0, 0): the launch did not end within 100ms";
    assert!(said.contains(needle), "{said}");
    for wrong in ["soon", "0", "-1", "1e300"] {
        let (output, said) = run("spinning", Some(("FERROWARP_KERNEL_SECONDS", wrong)));
        let needle = format!("FERROWARP_KERNEL_SECONDS is `{wrong}`");
        assert!(!output.status.success() && said.contains(&needle), "{said}");
        assert!(said.contains("above 0 and at most 1e19"), "{said}");
    }
}

fn launch(name: &'static str, kernel: impl Fn() + Sync) {
    let is_the_one = || thread::block_idx_x() == 1 && thread::thread_idx_x() == 5;
    let body = || {
        if is_the_one() {
            kernel()
        }
    };
    let result = Executor::new().without_seed().run(name, LaunchConfig::new(2, 32), body);
    result.unwrap_or_else(|error| panic!("{error}"));
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
fn a_wild_pointer() {
    launch("a_wild_pointer", || {
        // SAFETY: none. There is no memory, so the system ends the program.
        unsafe { black_box(8 as *mut u8).write_volatile(1) }
    });
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn a_misaligned_pointer() {
    launch("a_misaligned_pointer", || {
        let words = [0u32; 2];
        // SAFETY: none. A debug build checks the alignment.
        black_box(unsafe { *words.as_ptr().byte_add(black_box(1)) });
    });
}

/// Thread 5 of block 1 writes element `at` of `out`.
///
/// # Safety
/// `out` has that element, unless the test is about its absence.
#[kernel]
unsafe fn writes_at(out: *mut f32, at: usize) {
    if thread::block_idx_x() == 1 && thread::thread_idx_x() == 5 {
        // SAFETY: the kernel's contract.
        unsafe { out.wrapping_add(at).write_volatile(1.0) };
    }
}

/// An index beyond the guard zones of a buffer, which end after 256 MiB.
#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn a_wild_index() {
    let mut test = KernelTest::new();
    let out = test.output("out", &[0.0f32; 100]);
    // SAFETY: none. There is no memory, so the system ends the program.
    let run = test.run(|on, memory| unsafe {
        writes_at::launch(on, LaunchConfig::new(2, 32), memory.output(out), black_box(1 << 28))
    });
    run.unwrap();
}

/// An address that no program can have, and that the processor does not report.
#[test]
#[cfg(target_arch = "x86_64")]
#[ignore = "run by the tests above, in processes of their own"]
fn an_impossible_pointer() {
    launch("an_impossible_pointer", || {
        // SAFETY: as above.
        unsafe { black_box((1_usize << 63) as *mut u8).write_volatile(1) }
    });
}

/// A jump into data, for example, meets such bytes.
#[test]
#[cfg(target_arch = "x86_64")]
#[ignore = "run by the tests above, in processes of their own"]
fn an_illegal_instruction() {
    launch("an_illegal_instruction", || {
        // SAFETY: none; the instruction ends the process.
        unsafe { core::arch::asm!("ud2") }
    });
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn recursion_outside_of_kernels() {
    launch("before", || ());
    black_box(recurse(0));
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn a_destructor_that_panics() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in the destructor");
        }
    }
    launch("a_destructor_that_panics", || {
        let _panics = Panics;
        panic!("in the kernel");
    });
}

#[test]
#[ignore = "run by the tests above, in processes of their own"]
fn spinning() {
    launch("spinning", || while black_box(true) {});
}
