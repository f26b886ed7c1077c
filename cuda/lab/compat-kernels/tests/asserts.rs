//! Assertions that fail: on the executor with the values, as PTX with the text of the message.

use crate::common;
use compat_kernels::assert_all;
use cuda_std::launch::LaunchConfig;
use cuda_std::simt::Executor;

/// For each assertion: the executor's message for `*x == 2`, and the PTX's.
const SAID: [(&str, &str); 11] = [
    ("assertion `left == right` failed\n  left: 2.0\n right: 1.0", "assertion `left == right` failed"),
    ("assertion `left == right` failed: one is expected", "one is expected"),
    ("assertion `left == right` failed: 2 is no 1, { Some(2) }", "{} is no 1, { {} }"),
    ("assertion `left != right` failed", "assertion `left != right` failed"),
    ("assertion `left != right` failed: two: 2", "two: {}"),
    ("assertion failed: { *x } < 1.0", "assertion failed: { *x } < 1.0"),
    ("2 100 %    7", "{} 100 % {}"),
    ("", ""),
    ("assertion `left == right` failed\n  left: 1\n right: 2", "assertion `left == right` failed"),
    ("a { brace", "a { brace"),
    ("internal error: entered unreachable code: {} 10", "internal error: entered unreachable code: {} {}"),
];

#[test]
fn the_executor_says_which_assertion_failed() {
    for (which, (said, _)) in SAID.iter().enumerate() {
        // SAFETY: one number.
        let result =
            unsafe { assert_all::launch(&Executor::new(), LaunchConfig::new(1, 1), which as u32, &[2.0]) };
        if said.is_empty() {
            result.unwrap();
            continue;
        }
        let error = result.unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("asserts.rs"), "{which}: {error}");
    }
}

#[test]
fn the_ptx_says_which_assertion_failed() {
    for (which, (_, said)) in SAID.iter().enumerate().filter(|(_, (_, said))| !said.is_empty()) {
        let seen = common::panic_of(|emulator| {
            // SAFETY: one number.
            unsafe { assert_all::launch(emulator, LaunchConfig::new(1, 1), which as u32, &[2.0]) }
        });
        assert_eq!(seen.message(), *said, "{which}");
        assert!(seen.file().ends_with("compat-kernels/src/asserts.rs"), "{}", seen.file());
        let line = include_str!("../src/asserts.rs").lines().nth(seen.line as usize - 1).unwrap();
        assert!(
            line.contains(&format!("{which} =>")) || line.contains("expect(") || which == 10,
            "{which}: {line}"
        );
    }
}

#[test]
fn assertions_that_hold_say_nothing() {
    let emulator = common::emulator();
    for which in [0, 1, 2, 3, 4] {
        // SAFETY: one number.
        unsafe { assert_all::launch(&emulator, LaunchConfig::new(1, 1), which, &[1.0]) }.unwrap();
    }
}
