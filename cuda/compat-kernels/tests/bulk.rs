//! Bulk copies: what arrives, and when.

mod common;

use common::{numbers, on_all_since_90};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::mem::f32x4;

on_all_since_90! {
    rows_arrive_in_a_ring
    nothing_arrives_before_the_wait
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
