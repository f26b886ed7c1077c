//! Collections, text, output and assertions in kernels: on the executor by the process's own heap, as PTX by the device's.

use crate::common::{self, numbers, on_all};
use compat_kernels::*;
use cuda_builder::ptx::Ptx;
use cuda_builder::Backend;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::panic_record::PanicRecord;
use cuda_std::simt::Executor;

on_all! {
    collections_grow_and_shrink
    text_is_what_std_makes_of_it
    blocks_are_aligned
    blocks_by_malloc
}

fn collections_grow_and_shrink(on: &dyn Launcher) {
    let inp = [0, 7, 10_203, u64::MAX, 99_999_999_999];
    let mut sums = vec![0; inp.len()];
    // SAFETY: as many sums as numbers.
    unsafe { digit_sums::launch(on, LaunchConfig::new(1, 32), &inp, &mut sums) }.unwrap();
    assert_eq!(sums, [0, 14, 12, 174, 198]);
}

fn text_is_what_std_makes_of_it(on: &dyn Launcher) {
    const WIDTH: usize = 120;
    let mut values: Vec<f32> = numbers(20, 3).iter().map(|x| x * 1e3).collect();
    values.extend([
        0.0,
        -0.0,
        1.0,
        f32::MAX,
        f32::MIN_POSITIVE,
        1e-45,
        f32::INFINITY,
        f32::NAN,
        0.1,
        16_777_216.0,
    ]);
    let mut out = vec![0; values.len() * WIDTH];
    // SAFETY: WIDTH bytes a value.
    unsafe { format_values::launch(on, LaunchConfig::new(1, 32), &values, WIDTH, &mut out) }.unwrap();
    for (i, (line, x)) in out.chunks(WIDTH).zip(&values).enumerate() {
        let expected = format!("{i:>3}: {x:.3} {x:e} {:?} {:#x}", Some(x), x.to_bits());
        assert!(expected.len() <= WIDTH);
        assert_eq!(str::from_utf8(line).unwrap().trim_end(), expected);
    }
}

fn blocks_are_aligned(on: &dyn Launcher) {
    let (mut wrong, mut areas) = ([9; 40], [0.0; 40]);
    // SAFETY: one element of each a thread.
    unsafe { aligned_boxes::launch(on, LaunchConfig::new(1, 40), &mut wrong, &mut areas) }.unwrap();
    assert_eq!(wrong, [0; 40]);
    assert_eq!(areas, core::array::from_fn(|i| (i * i) as f32 + 12.0));
}

fn blocks_by_malloc(on: &dyn Launcher) {
    let mut out = [0; 3];
    // SAFETY: one element a thread.
    unsafe { by_malloc::launch(on, LaunchConfig::new(1, 3), 10, &mut out) }.unwrap();
    assert_eq!(out, [285; 3]);
}

const NAME: &str = "wörld 100% {}";

/// What the kernel prints. Only the text of a single print is sure to be in one piece: the newline after `a\0b` is another.
fn assert_says_hello(output: &str, threads: u32) {
    assert!(output.contains("constant 100 %s\n\n"), "{output}");
    for i in 0..threads {
        let line = format!("hello {NAME} from {i} of {threads}: {:5.1} %d\n", i as f32 / 3.0);
        assert_eq!(output.matches(&line).count(), 1, "{line}: {output}");
        assert_eq!(output.matches(&format!("a\0b{i}")).count(), 1, "{output:?}");
    }
    assert_eq!(output.lines().count() as u32, 2 * threads + 2, "{output}");
}

#[test]
fn the_ptx_prints_through_the_driver() {
    let emulator = common::emulator(Backend::Nvvm).with_captured_output();
    // SAFETY: the kernel has no contract.
    unsafe { hello::launch(&emulator, LaunchConfig::new(1, 5), NAME.as_bytes()) }.unwrap();
    assert_says_hello(&String::from_utf8(emulator.take_output()).unwrap(), 5);
}

/// In a process of its own, whose output is read.
#[test]
fn the_executor_prints_whole_lines() {
    if std::env::var_os("SAY_HELLO").is_some() {
        // SAFETY: the kernel has no contract.
        unsafe { hello::launch(&Executor::new(), LaunchConfig::new(1, 5), NAME.as_bytes()) }.unwrap();
        return;
    }
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "device::the_executor_prints_whole_lines", "--nocapture", "--quiet"])
        .env("SAY_HELLO", "1")
        .output()
        .unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let from = output.find("constant").unwrap_or_else(|| panic!("{output}"));
    let last = output.rfind("a\0b").unwrap_or_else(|| panic!("{output}"));
    let end = last + output[last..].find('\n').unwrap() + 1;
    assert_says_hello(&output[from..end], 5);
}

/// On the host a full heap ends the process, as everywhere in Rust.
#[test]
fn a_full_heap_is_a_panic_that_says_so() {
    let seen = common::panic_of(|emulator| {
        // SAFETY: one byte.
        unsafe { exhausts_the_heap::launch(emulator, LaunchConfig::new(1, 1), &mut [0u8]) }
    });
    assert_eq!((seen.kind, seen.index), (PanicRecord::OUT_OF_MEMORY, 1 << 46));
    assert!(
        seen.message().contains("memory allocation of 70368744177664 bytes failed"),
        "{}",
        seen.message()
    );
}

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
        assert!(error.contains(said) && error.contains("heap.rs"), "{which}: {error}");
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
        assert!(seen.file().ends_with("compat-kernels/src/heap.rs"), "{}", seen.file());
        let line = include_str!("../src/heap.rs").lines().nth(seen.line as usize - 1).unwrap();
        assert!(
            line.contains(&format!("{which} =>")) || line.contains("expect(") || which == 10,
            "{which}: {line}"
        );
    }
}

#[test]
fn assertions_that_hold_say_nothing() {
    let emulator = common::emulator(Backend::Nvvm);
    for which in [0, 1, 2, 3, 4] {
        // SAFETY: one number.
        unsafe { assert_all::launch(&emulator, LaunchConfig::new(1, 1), which, &[1.0]) }.unwrap();
    }
}

#[test]
fn an_exported_function_keeps_its_name() {
    let text = common::ptx(Backend::Nvvm);
    assert!(text.contains(".visible .func"));
    assert!(Ptx::parse(&text).function("scaled_twice").unwrap().count("mul") >= 2);
}
