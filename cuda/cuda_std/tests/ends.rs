//! Kernels that end the program name the thread: it overflows its stack, panics while it unwinds, or never ends.

#![cfg(all(target_os = "linux", not(miri)))]

use std::hint::black_box;
use std::process::{Command, Output};

use cuda_std::kernel;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;
use cuda_std::testing::KernelTest;

use crate::common::{block, has, tid};

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

/// Checks that the process of this test fails, and has the parts of `expected` on stderr.
#[track_caller]
fn check(name: &str, variable: Option<(&str, &str)>, expected: &str) {
    let (output, said) = run(name, variable);
    assert!(!output.status.success(), "{said}");
    has(&said, expected);
}

/// Checks what the process of this test says about thread 5 of block 1.
#[track_caller]
fn check_thread(name: &str, variable: Option<(&str, &str)>, expected: &str) {
    check(
        name,
        variable,
        &format!("error: kernel {name} failed in block (1, 0, 0), thread (5, 0, 0){expected}"),
    );
}

#[test]
fn an_overflow_of_the_stack_names_the_thread() {
    for name in ["a_large_array", "endless_recursion"] {
        let place =
            format!("kernel {name} in block (1, 0, 0), thread (5, 0, 0): set FERROWARP_STACK_KIB=1024");
        check(
            name,
            None,
            &format!("the CPU device gives each thread a stack of 256 KiB, too small for {place}"),
        );
    }
    // Signals that do not concern the executor go to the previous handler.
    check("recursion_outside_of_kernels", None, "has overflowed its stack");
}

#[test]
fn a_larger_stack_holds_the_array() {
    let (output, said) = run("a_large_array", Some(("FERROWARP_STACK_KIB", "1024")));
    assert!(output.status.success(), "{said}");
    for wrong in ["many", "-1", "16", "99999999999"] {
        let variable = Some(("FERROWARP_STACK_KIB", wrong));
        check("a_large_array", variable, &format!("FERROWARP_STACK_KIB is `{wrong}`"));
    }
}

#[test]
fn an_access_without_memory_names_the_thread() {
    check_thread("a_wild_pointer", None, ": accessed the address 0x8, where there is no memory");
    if cfg!(target_arch = "x86_64") {
        check_thread("an_impossible_pointer", None, ": accessed an address, where there is no memory");
    }
    let expected = "error: kernel writes_at failed in block (1, 0, 0), thread (5, 0, 0): accessed the address 0x .. , where \
                    there is no memory";
    check("a_wild_index", None, expected);
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_jump_to_what_is_not_code_names_the_thread() {
    use std::os::unix::process::ExitStatusExt as _;
    let expected = ": ran an illegal instruction at the address 0x .. check its function pointers";
    check_thread("an_illegal_instruction", None, expected);
    assert_eq!(run("an_illegal_instruction", None).0.status.signal(), Some(libc::SIGILL));
}

#[test]
fn a_panic_that_ends_the_program_names_the_thread() {
    let why = "panicked: in the destructor; this ends the program: panic in a destructor during cleanup";
    check_thread("a_destructor_that_panics", None, &format!(", at cuda/cuda_std/tests/ends.rs: .. {why}"));
    // Such a check aborts without unwinding.
    if cfg!(debug_assertions) {
        let why = "panicked: misaligned pointer dereference .. ; this ends the program";
        check_thread("a_misaligned_pointer", None, &format!(", at cuda/cuda_std/tests/ends.rs: .. {why}"));
    }
}

#[test]
fn a_kernel_that_never_ends_is_named() {
    let variable = |value| Some(("FERROWARP_KERNEL_SECONDS", value));
    check_thread("spinning", variable("0.1"), ": the launch did not end within 100ms");
    for wrong in ["soon", "0", "-1", "1e300"] {
        let expected = format!("FERROWARP_KERNEL_SECONDS is `{wrong}` .. above 0 and at most 1e19");
        check("spinning", variable(wrong), &expected);
    }
}

/// Launches a kernel that only thread 5 of block 1 runs.
fn launch(name: &'static str, kernel: impl Fn() + Sync) {
    let body = || {
        if block() == 1 && tid() == 5 {
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

/// Thread 5 of block 1 writes element `at` of `out`.
///
/// # Safety
/// `out` has that element, unless the test is about its absence.
#[kernel]
unsafe fn writes_at(out: *mut f32, at: usize) {
    if block() == 1 && tid() == 5 {
        // SAFETY: the kernel's contract.
        unsafe { out.wrapping_add(at).write_volatile(1.0) };
    }
}

struct Panics;

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("in the destructor");
    }
}

/// Tests for processes of their own.
macro_rules! endings {
    ($($(#[$of:meta])* $name:ident: $body:expr;)*) => {$(
        $(#[$of])*
        #[test]
        #[ignore = "run by the tests above, in processes of their own"]
        fn $name() {
            $body(stringify!($name));
        }
    )*};
}

endings! {
    a_large_array: |name| launch(name, || assert_eq!(large_array(), 1));
    endless_recursion: |name| launch(name, || assert_eq!(recurse(0), 0));
    recursion_outside_of_kernels: |_| {
        launch("before", || ());
        black_box(recurse(0));
    };
    // SAFETY: none. There is no memory, so the system ends the program.
    a_wild_pointer: |name| launch(name, || unsafe { black_box(8 as *mut u8).write_volatile(1) });
    /// An address that no program can have, and that the processor does not report.
    // SAFETY: none. There is no memory, so the system ends the program.
    #[cfg(target_arch = "x86_64")]
    an_impossible_pointer: |name| launch(name, || unsafe { black_box((1_usize << 63) as *mut u8).write_volatile(1) });
    /// An index beyond the guard zones of a buffer, which end after 256 MiB.
    a_wild_index: |_| {
        let mut test = KernelTest::new();
        let out = test.output("out", &[0.0f32; 100]);
        // SAFETY: none. There is no memory, so the system ends the program.
        let run = test.run(|on, memory| unsafe {
            writes_at::launch(on, LaunchConfig::new(2, 32), memory.output(out), black_box(1 << 28))
        });
        run.unwrap();
    };
    /// A jump into data, for example, meets such bytes.
    // SAFETY: none; the instruction ends the process.
    #[cfg(target_arch = "x86_64")]
    an_illegal_instruction: |name| launch(name, || unsafe { core::arch::asm!("ud2") });
    a_misaligned_pointer: |name| launch(name, || {
        let words = [0u32; 2];
        // SAFETY: none. A debug build checks the alignment.
        black_box(unsafe { *words.as_ptr().byte_add(black_box(1)) });
    });
    a_destructor_that_panics: |name| launch(name, || {
        let _panics = Panics;
        panic!("in the kernel");
    });
    spinning: |name| launch(name, || while black_box(true) {});
}
