//! Copies from global to shared memory that the thread waits for later: what arrives, and when.

use crate::common::{self, numbers, on_all_since_90};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, Launcher};
use cuda_std::mem::f32x4;

on_all_since_90! {
    rows_arrive_one_after_the_other
    every_size_arrives
    nothing_arrives_before_the_wait
}

fn rows_arrive_one_after_the_other(on: &dyn Launcher) {
    for steps in [4, 20] {
        let inp = numbers(64 * steps + 4, 1);
        // A source of 16 bytes has to be aligned to them.
        let first = inp.as_ptr().align_offset(16);
        let inp = &inp[first..first + 64 * steps];
        let mut out = [f32::NAN; 64];
        // SAFETY: rows of 64.
        unsafe { sum_rows::launch(on, LaunchConfig::new(1, 64), inp, &mut out) }.unwrap();
        for (column, seen) in out.into_iter().enumerate() {
            let expected = inp.iter().skip(column).step_by(64).fold(0.0, |sum, x| sum + x);
            assert_eq!(seen, expected, "column {column} of {steps} rows");
        }
    }
}

fn every_size_arrives(on: &dyn Launcher) {
    let inp: [f32x4; 4] = core::array::from_fn(|i| {
        let x = 4.0 * i as f32;
        f32x4 { x: x + 1.5, y: x + 2.5, z: x + 3.5, w: x + 4.5 }
    });
    for bytes in [0, 3, 4, 7, 9, 16] {
        let mut out = [f32x4::default(); 8];
        // SAFETY: four parts, and room for eight.
        unsafe { copy_sizes::launch(on, LaunchConfig::new(1, 1), &inp, bytes, &mut out) }.unwrap();
        for (i, seen) in out.into_iter().enumerate() {
            let (size, source) = ([4, 8, 16, 16][i % 4], inp[i % 4]);
            let copied = if i < 4 { size } else { size.min(bytes as usize) };
            let source = [source.x, source.y, source.z, source.w].map(f32::to_le_bytes);
            let mut expected = [-1.0f32; 4].map(f32::to_le_bytes);
            expected.as_flattened_mut()[..size].fill(0);
            expected.as_flattened_mut()[..copied].copy_from_slice(&source.as_flattened()[..copied]);
            let seen = [seen.x, seen.y, seen.z, seen.w].map(f32::to_le_bytes);
            assert_eq!(seen, expected, "part {i} of {bytes} bytes");
        }
    }
}

fn nothing_arrives_before_the_wait(on: &dyn Launcher) {
    let (mut changing, mut out) = ([3.0], [0.0; 4]);
    // SAFETY: as many numbers as the kernel reads and writes.
    unsafe { read_at_wrong_times::launch(on, LaunchConfig::new(1, 1), &[5.0], &mut changing, &mut out) }
        .unwrap();
    assert!(out[0].is_nan() && out[1].is_nan(), "{out:?}");
    assert_eq!(out[2..], [5.0, 9.0]);
}
