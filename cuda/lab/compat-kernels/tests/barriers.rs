//! Barriers in shared memory: what threads hand each other, and when a phase is over.

use crate::common::{self, on_all_since_90};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, Launcher};

on_all_since_90! {
    a_ring_is_filled_and_emptied
    a_ring_is_filled_and_emptied_by_number
    numbers_go_around
    phases_end_by_arrivals
    phases_end_by_bytes
}

fn a_ring_is_filled_and_emptied(on: &dyn Launcher) {
    for rounds in [1, 2, 9] {
        let mut out = vec![u32::MAX; 64 * rounds];
        // SAFETY: 64 elements a round.
        unsafe { products_in_a_ring::launch(on, LaunchConfig::new(1, 128), &mut out, rounds as u32) }
            .unwrap();
        assert!(out.iter().enumerate().all(|(at, &x)| x as usize == at / 64 * (at % 64)), "{out:?}");
    }
}

fn a_ring_is_filled_and_emptied_by_number(on: &dyn Launcher) {
    for rounds in [1, 2, 9] {
        let mut out = vec![u32::MAX; 64 * rounds];
        let config = LaunchConfig::new(1, 128);
        // SAFETY: 64 elements a round.
        unsafe { products_by_numbered_barriers::launch(on, config, &mut out, rounds as u32) }.unwrap();
        assert!(out.iter().enumerate().all(|(at, &x)| x as usize == at / 64 * (at % 64)), "{out:?}");
    }
}

fn numbers_go_around(on: &dyn Launcher) {
    for (threads, steps) in [(1, 3), (33, 4), (96, 7)] {
        let inp: Vec<u32> = (0..threads).map(|i| i * i).collect();
        let mut out = vec![0; threads as usize];
        // SAFETY: an element a thread.
        unsafe { around_the_circle::launch(on, LaunchConfig::new(1, threads), &inp, &mut out, steps) }
            .unwrap();
        let mut expected = inp;
        expected.rotate_right((steps % threads) as usize);
        assert_eq!(out, expected);
    }
}

fn phases_end_by_arrivals(on: &dyn Launcher) {
    let mut out = [0];
    // SAFETY: one element.
    unsafe { looks_at_phases::launch(on, LaunchConfig::new(1, 1), &mut out) }.unwrap();
    assert_eq!(out[0], 0b10_1101_0010, "{:b}", out[0]);
}

fn phases_end_by_bytes(on: &dyn Launcher) {
    let mut out = [0];
    // SAFETY: one element.
    unsafe { looks_at_bytes::launch(on, LaunchConfig::new(1, 1), &mut out) }.unwrap();
    assert_eq!(out[0], 0b1_1100, "{:b}", out[0]);
}
