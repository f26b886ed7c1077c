//! Bulk copies: what arrives, and when.

use crate::common::{self, numbers, on_all_since_90};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::mem::f32x4;

on_all_since_90! {
    rows_arrive_in_a_ring
    nothing_arrives_before_the_wait
    tiles_leave_by_a_ring
    what_left_comes_back
}

fn rows_arrive_in_a_ring(on: &dyn Launcher) {
    for steps in [1, 2, 9] {
        let inp = numbers(64 * steps + 4, 1);
        // Both ends of a copy have to be aligned to 16 bytes.
        let first = inp.as_ptr().align_offset(16);
        let inp = &inp[first..first + 64 * steps];
        let mut out = [f32::NAN; 64];
        // SAFETY: rows of 64.
        unsafe { sum_rows_in_bulk::launch(on, LaunchConfig::new(1, 96), inp, &mut out) }.unwrap();
        for (column, seen) in out.into_iter().enumerate() {
            let expected = inp.iter().skip(column).step_by(64).fold(0.0, |sum, x| sum + x);
            assert_eq!(seen, expected, "column {column} of {steps} rows");
        }
    }
}

fn nothing_arrives_before_the_wait(on: &dyn Launcher) {
    let (inp, mut out) = ([f32x4::splat(3.0), f32x4::splat(4.0)], [0.0; 4]);
    // SAFETY: as many numbers as the kernel reads and writes.
    unsafe { read_a_bulk_copy_too_early::launch(on, LaunchConfig::new(1, 1), &inp, &mut out) }.unwrap();
    assert!(out[0].is_nan() && out[1].is_nan(), "{out:?}");
    assert_eq!(out[2..], [7.0, 0.0]);
}

fn tiles_leave_by_a_ring(on: &dyn Launcher) {
    for steps in [1, 2, 5] {
        let mut out = vec![f32x4::default(); 8 * steps];
        // SAFETY: as many numbers as the vectors have.
        let numbers = unsafe { core::slice::from_raw_parts_mut(out.as_mut_ptr().cast(), 32 * steps) };
        // SAFETY: 32 numbers a step.
        unsafe { squares_in_bulk::launch(on, LaunchConfig::new(1, 64), &mut *numbers, steps as u32) }
            .unwrap();
        assert!(numbers.iter().zip(0..).all(|(x, i)| *x == i * i), "{numbers:?}");
    }
}

fn what_left_comes_back(on: &dyn Launcher) {
    let (mut between, mut out) = ([f32x4::splat(9.0); 4], [0.0; 3]);
    // SAFETY: as many numbers as the kernel reads and writes.
    unsafe { there_and_back_in_bulk::launch(on, LaunchConfig::new(1, 1), &mut between, &mut out) }.unwrap();
    assert!(out[0].is_nan(), "{out:?}");
    assert_eq!(out[1..], [3.0, 3.0]);
}
