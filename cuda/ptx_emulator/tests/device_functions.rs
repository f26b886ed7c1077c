//! The device half of `cuda_std` and libdevice, as PTX, against the host half on the CPU executor.

use std::fmt::Debug;
use std::sync::Arc;

use crate::common::kernels::modules;
use cuda_builder::Backend;
use cuda_std::half::{bf16, f16};
use cuda_std::launch::{LaunchConfig, LaunchError, Launcher};
use cuda_std::panic_record::PanicRecord;
use cuda_std::simt::Executor;
use ptx_emulator::Emulator;
use ptx_emulator_kernels::*;

/// The emulators of both architectures.
fn emulators(backend: Backend) -> impl Iterator<Item = Emulator> {
    // Kernels for one architecture alone are not among these functions.
    let portable = modules(backend).iter().filter(|(arch, _)| !arch.is_architecture_variant());
    portable.map(|(_, module)| Emulator::new(Arc::clone(module)))
}

/// Runs a launch on the executor and on both emulators, each on a copy of `start`; the results must `agree`.
fn both<T: Copy + Debug>(
    start: &[T],
    launch: impl Fn(&dyn Launcher, &mut Vec<T>) -> Result<(), LaunchError>,
    agree: impl Fn(usize, &T, &T) -> bool,
) -> Vec<T> {
    let mut host = start.to_vec();
    launch(&Executor::new(), &mut host).unwrap();
    for emulator in emulators(Backend::Nvvm) {
        let mut device = start.to_vec();
        launch(&emulator, &mut device).unwrap();
        for (i, (device, host)) in device.iter().zip(&host).enumerate() {
            assert!(agree(i, device, host), "result {i}: {device:?} as PTX, {host:?} on the host");
        }
    }
    host
}

/// Index of `jn` among the extensions. libdevice's divides by its argument, and is NaN at zero.
const JN: usize = 11;

/// Equal, both NaN, or within `tolerance` of the value or of a hundredth.
fn close(a: f64, b: f64, tolerance: f64) -> bool {
    a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * b.abs().max(1e-2)
}

const POINTS: [(f64, f64); 9] = [
    (0.7, 1.3),
    (-0.4, 2.0),
    (3.5, -1.5),
    (0.001, 0.5),
    (25.0, 3.0),
    (-2.5, 0.3),
    (1.0, 1.0),
    (0.0, -0.0),
    (1e5, 7.0),
];

#[test]
fn functions_of_floats() {
    let one = LaunchConfig::new(1, 1);
    for (x, y) in POINTS {
        let (narrow_x, narrow_y) = (x as f32, y as f32);
        // SAFETY: one element a function.
        both(
            &[0f32; FUNCTIONS],
            |on, out| unsafe { functions_f32::launch(on, one, out, narrow_x, narrow_y) },
            |i, a, b| {
                close(f64::from(*a), f64::from(*b), 2e-6) || panic!("f32 function {i} of {x}, {y}: {a}, {b}")
            },
        );
        // SAFETY: as above.
        both(
            &[0f64; FUNCTIONS],
            |on, out| unsafe { functions_f64::launch(on, one, out, x, y) },
            |i, a, b| close(*a, *b, 1e-14) || panic!("f64 function {i} of {x}, {y}: {a}, {b}"),
        );
        // SAFETY: as above.
        both(
            &[0f32; EXTENSIONS],
            |on, out| unsafe { extensions_f32::launch(on, one, out, narrow_x) },
            |i, a, b| {
                close(f64::from(*a), f64::from(*b), 1e-5)
                    || (i, x) == (JN, 0.0)
                    || panic!("f32 extension {i} of {x}: {a}, {b}")
            },
        );
        // SAFETY: as above.
        both(
            &[0f64; EXTENSIONS],
            |on, out| unsafe { extensions_f64::launch(on, one, out, x) },
            |i, a, b| {
                close(*a, *b, 1e-11) || (i, x) == (JN, 0.0) || panic!("f64 extension {i} of {x}: {a}, {b}")
            },
        );
    }
}

/// Two results of 16 or 32 bits, with `infinity` of that type: equal, both NaN, or zeros: of two that differ in the sign
/// the host's maximum is either.
fn same(a: u32, b: u32, infinity: u32) -> bool {
    let is_nan = |bits: u32| bits & (infinity.next_power_of_two() - 1) > infinity;
    a == b || (is_nan(a) && is_nan(b)) || (a | b) == infinity.next_power_of_two()
}

#[test]
fn all_halves_widen_alike() {
    let numbers: Vec<u16> = (0..=u16::MAX).collect();
    let widened = both(
        &vec![0u32; WIDENED * numbers.len()],
        // SAFETY: a thread a number, as many elements as they write.
        |on, out| unsafe { widened_halves::launch(on, LaunchConfig::new(256, 256), out, &numbers) },
        |_, a, b| same(*a, *b, f32::INFINITY.to_bits()),
    );
    assert_eq!(widened[WIDENED * 0x3c00..][..2], [1f32.to_bits(), 0x3c00_0000]);
}

#[test]
fn hard_numbers_narrow_alike() {
    // Around every f16 and every bf16, and in the middle to the next: ties, carries, overflow, subnormals, NaN.
    let mut numbers = Vec::new();
    for bits in (0..=u16::MAX).step_by(7) {
        let (f16, bf16) = (f16::from_bits(bits), bf16::from_bits(bits));
        for (wide, half_a_step) in [(f16.to_f32().to_bits(), 0x1000), (bf16.to_f32().to_bits(), 0x8000)] {
            for middle in [wide, wide.wrapping_add(half_a_step)] {
                numbers.extend([-1i32, 0, 1].map(|by| f32::from_bits(middle.wrapping_add_signed(by))));
            }
        }
    }
    numbers.truncate(numbers.len() / 256 * 256);
    let config = LaunchConfig::new(numbers.len() as u32 / 256, 256);
    both(
        &vec![0u16; NARROWED * numbers.len()],
        // SAFETY: a thread a number, as many elements as they write.
        |on, out| unsafe { narrowed_halves::launch(on, config, out, &numbers) },
        |i, a, b| {
            let infinity = if matches!(i % NARROWED, 0 | 2 | 3) {
                f16::INFINITY.to_bits()
            } else {
                bf16::INFINITY.to_bits()
            };
            same(u32::from(*a), u32::from(*b), u32::from(infinity))
                || panic!("{i} of {:?}: {a:#x}, {b:#x}", numbers[i / NARROWED])
        },
    );
}

#[test]
fn integers_of_128_bits() {
    // The last are floats: -1.5, 1e30, 2^127 and 2^128 as f64; 2^127 and infinity as f32; infinity as f64.
    let words = [
        0,
        1,
        2,
        7,
        63,
        1 << 31,
        u64::MAX,
        1 << 63,
        0x0123_4567_89ab_cdef,
        u64::MAX - 1,
        10_000_000_019,
        (-1.5f64).to_bits(),
        1e30f64.to_bits(),
        0x47e0_0000_0000_0000,
        0x47f0_0000_0000_0000,
        0x7f00_0000_0000_0000,
        0x7f80_0000_0000_0000,
        f64::INFINITY.to_bits(),
    ];
    for (i, &a) in words.iter().enumerate() {
        for (j, &b) in words.iter().enumerate() {
            let (c, d) = (words[(i + j) % words.len()] >> (j * 5 % 64), words[(i * 3 + j) % words.len()]);
            // SAFETY: one element a result.
            both(
                &[0u128; WIDE],
                |on, out| unsafe { wide_integers::launch(on, LaunchConfig::new(1, 1), out, a, b, c, d) },
                |k, x, y| x == y || panic!("{k} of {a:#x} {b:#x} {c:#x} {d:#x}: {x:#x}, {y:#x}"),
            );
        }
    }
}

#[test]
fn functions_of_warps() {
    let values: Vec<u32> = (0..32u32).map(|i| i.wrapping_mul(2_654_435_761) >> 8).collect();
    for values in [values, vec![5; 32], (0..32).collect()] {
        for width in [4, 8, 32] {
            // SAFETY: one warp, as many elements as it writes.
            both(
                &[0u64; 32 * WARP],
                |on, out| unsafe {
                    warp_functions::launch(on, LaunchConfig::new(1, 32), out, &values, width)
                },
                |_, a, b| a == b,
            );
        }
    }
}

#[test]
fn functions_of_atomics() {
    let config = LaunchConfig::new(3, 40);
    // SAFETY: as many cells as the kernel uses.
    let cells =
        both(&[0u64; 12], |on, out| unsafe { atomic_functions::launch(on, config, out) }, |_, a, b| a == b);
    assert_eq!(cells[0], u64::from(((0..120).sum::<u32>() as f32).to_bits()));
    assert_eq!((cells[1], cells[9]), ((0..120).sum(), 3 * (0..40).sum::<u64>()));
}

#[test]
fn panics_leave_the_record_of_the_first_thread() {
    for mut emulator in emulators(Backend::Nvvm) {
        let mut record = [PanicRecord::empty()];
        let address = record.as_mut_ptr();
        // SAFETY: the record outlives the launches, and it is read only after them.
        unsafe { emulator.lend(&mut record) };
        emulator.set_global("__ferrowarp_panic_slot", &(address.addr() as u64).to_le_bytes()).unwrap();
        let config = LaunchConfig::new(3, 40);
        // SAFETY: the kernel has no contract.
        unsafe { panics::launch(&emulator, config, 120) }.unwrap();
        // SAFETY: as above.
        let error = unsafe { panics::launch(&emulator, config, 90) }.unwrap_err().to_string();
        assert!(error.contains("block [2, 0, 0], thread [10, 0, 0]: trap, at PTX line "), "{error}");
        // SAFETY: the launches have ended.
        let seen = unsafe { address.read() };
        assert_eq!((seen.state, seen.kind), (PanicRecord::COMPLETE, PanicRecord::MESSAGE));
        assert_eq!((seen.block, seen.thread), ([2, 0, 0], [10, 0, 0]));
        assert_eq!(seen.message(), "the index is over the limit");
        assert_eq!(seen.file(), "cuda/ptx_emulator/tests/kernels/src/lib.rs");
        let source = include_str!("kernels/src/lib.rs").lines().nth(seen.line as usize - 1).unwrap();
        assert!(source.contains("assert!"), "{source}");
    }
}

#[test]
fn dependent_launches_run_one_after_the_other() {
    let twice = |on: &dyn Launcher, number: &mut Vec<u32>| {
        let config = LaunchConfig::new(1, 1).with_programmatic_stream_serialization();
        // SAFETY: one number.
        (0..2).try_for_each(|_| unsafe { dependent::launch(on, config, &mut *number) })
    };
    assert_eq!(both(&[3], twice, |_, a, b| a == b), [12]);
    for emulator in emulators(Backend::Llvm) {
        let mut number = vec![3];
        twice(&emulator, &mut number).unwrap();
        assert_eq!(number, [12]);
    }
}
