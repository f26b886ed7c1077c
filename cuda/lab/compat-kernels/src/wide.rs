//! 128-bit integers: arithmetic, shifts, comparisons, and conversions from and to floats.

use cuda_std::prelude::*;

/// Number of results of [`operations`].
pub const OPERATIONS: usize = 34;

/// The result of each operator on `a` and `b`, as bits.
pub fn operations(a: u128, b: u128) -> [u128; OPERATIONS] {
    let (x, y) = (a as i128, b as i128);
    let shift = (b % 131) as u32;
    let (product, overflows) = a.overflowing_mul(b);
    let (signed_product, signed_overflows) = x.overflowing_mul(y);
    [
        a.wrapping_add(b),
        a.wrapping_sub(b),
        product,
        u128::from(overflows),
        signed_product as u128,
        u128::from(signed_overflows),
        a.checked_div(b).unwrap_or(7),
        a.checked_rem(b).unwrap_or(7),
        x.checked_div(y).unwrap_or(7) as u128,
        x.checked_rem(y).unwrap_or(7) as u128,
        a / 10,
        (x / -7) as u128,
        x.rem_euclid(1_000_000_007) as u128,
        a.checked_shl(shift).unwrap_or(7),
        a.checked_shr(shift).unwrap_or(7),
        x.checked_shr(shift).unwrap_or(7) as u128,
        a.rotate_left(shift),
        a & !b ^ (a | b),
        u128::from(a.leading_zeros()),
        u128::from(b.trailing_zeros()),
        u128::from(a.count_ones()),
        a.swap_bytes() ^ b.reverse_bits(),
        a.cmp(&b) as u128,
        x.cmp(&y) as u128,
        a.saturating_add(b),
        x.saturating_sub(y) as u128,
        a.isqrt(),
        a.checked_pow(3).unwrap_or(7),
        u128::from((a as f32).to_bits()),
        u128::from((a as f64).to_bits()),
        u128::from((x as f32).to_bits()),
        u128::from((x as f64).to_bits()),
        a >> (b as u8 & 127),
        x.wrapping_neg() as u128 + (a >> 127),
    ]
}

/// The result of each conversion of two floats.
pub fn from_floats(x: f32, y: f64) -> [u128; 4] {
    [x as u128, x as i128 as u128, y as u128, y as i128 as u128]
}

/// `out[i]` = [`operations`] of `a[i]` and `b[i]`, one thread per pair.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn wide_operations(a: &[u128], b: &[u128], out: *mut [u128; OPERATIONS]) {
    let i = thread::index_1d() as usize;
    if i < a.len() && i < b.len() {
        *out.add(i) = operations(a[i], b[i]);
    }
}

/// `out[i]` = [`from_floats`] of `x[i]` and `y[i]`, one thread per pair.
#[kernel]
#[allow(improper_ctypes_definitions, clippy::missing_safety_doc)]
pub unsafe fn wide_from_floats(x: &[f32], y: &[f64], out: *mut [u128; 4]) {
    let i = thread::index_1d() as usize;
    if i < x.len() && i < y.len() {
        *out.add(i) = from_floats(x[i], y[i]);
    }
}
