//! Integers of 128 bits: what the kernels' PTX makes of them is what the host's own instructions do.

use crate::common::{self, on_all};
use compat_kernels::*;
use cuda_std::launch::{LaunchConfig, Launcher};

on_all! {
    integers_of_128_bits
    floats_become_integers_of_128_bits
}

/// Values around every power of two, ties of every float type, and some that look random.
fn values() -> Vec<u128> {
    let mut values =
        vec![0, 1, 2, 3, 10, 1_000_000_007, u128::MAX, u128::MAX / 3, i128::MAX as u128, 1 << 127];
    for bit in [7, 23, 24, 25, 31, 32, 52, 53, 54, 63, 64, 65, 95, 96, 104, 126] {
        let power = 1_u128 << bit;
        values.extend([power - 1, power, power + 1, !power, power.wrapping_neg()]);
        // Halfway between two f32, and between two f64: to the even one, and just beyond.
        for bits in [24, 53] {
            let half = power >> bits;
            values.extend([power | half, power | half | 1, power | half << 1 | half, (power << 1) - half]);
        }
    }
    let mut state = 0x0123_4567_89ab_cdef_u128;
    for _ in 0..60 {
        state = state.wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645).wrapping_add(99);
        values.push(state >> (state >> 121));
    }
    values
}

fn integers_of_128_bits(on: &dyn Launcher) {
    let values = values();
    // Each with its neighbours near and far.
    let pairs: Vec<(u128, u128)> = (0..values.len())
        .flat_map(|i| [0, 1, 7, 40, 83].map(|k| (values[i], values[(i + k) % values.len()])))
        .collect();
    let (a, b): (Vec<u128>, Vec<u128>) = pairs.into_iter().unzip();
    let mut out = vec![[0; OPERATIONS]; a.len()];
    // SAFETY: one result a pair.
    unsafe { wide_operations::launch(on, LaunchConfig::cover(a.len(), 64), &a, &b, &mut out) }.unwrap();
    for ((a, b), out) in a.iter().zip(&b).zip(&out) {
        for (n, (seen, expected)) in out.iter().zip(operations(*a, *b)).enumerate() {
            assert_eq!(*seen, expected, "operation {n} of {a:#x} and {b:#x}");
        }
    }
}

fn floats_become_integers_of_128_bits(on: &dyn Launcher) {
    let mut y: Vec<f64> = values().iter().flat_map(|&value| [value as f64, value as f64 / 3.0]).collect();
    y.extend([
        0.0,
        0.49,
        0.5,
        0.99,
        1.0,
        1.5,
        2.5,
        1e38,
        3.5e38,
        1e300,
        f64::MAX,
        f64::MIN_POSITIVE,
        f64::NAN,
    ]);
    y.extend([f64::INFINITY, 5e-324, 4_503_599_627_370_497.5, 9_007_199_254_740_993.0, 2_f64.powi(127)]);
    let y: Vec<f64> = y.iter().flat_map(|&y| [y, -y]).collect();
    let x: Vec<f32> = y.iter().map(|&y| y as f32).collect();
    let mut out = vec![[0; 4]; x.len()];
    // SAFETY: one result a pair.
    unsafe { wide_from_floats::launch(on, LaunchConfig::cover(x.len(), 64), &x, &y, &mut out) }.unwrap();
    for ((x, y), out) in x.iter().zip(&y).zip(&out) {
        assert_eq!(*out, from_floats(*x, *y), "{x:e} and {y:e}");
    }
}

/// The oracle itself, at values known by hand.
#[test]
fn the_host_knows_its_own() {
    let known = operations(u128::MAX, 3);
    assert_eq!((known[0], known[2], known[6]), (2, u128::MAX - 2, 0x5555_5555_5555_5555_5555_5555_5555_5555));
    assert_eq!(known[28], u128::from(f32::INFINITY.to_bits()));
    assert_eq!(from_floats(-1.0, 1e30)[..3], [0, u128::MAX, 1_000_000_000_000_000_019_884_624_838_656]);
}
