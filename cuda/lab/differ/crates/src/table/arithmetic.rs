//! No crate of the registry, but what compilers for GPUs make of Rust's own operators: remainders and roots of floats,
//! and absolute values of narrow integers.

use core::hint::black_box;

use cuda_std::GpuFloat;

#[cfg(not(target_arch = "nvptx64"))]
use crate::inputs::{Case, Random};

use super::out::{Out, array};

/// Bytes of an output: 12 numbers.
pub const OUTPUT: usize = 17 * 8;

macro_rules! floats {
    ($name:ident, $float:ty, $bytes:literal, $put:ident) => {
        pub fn $name(input: &[u8], _: u32, output: &mut [u8]) {
            let [x, y] = [0, 1].map(|at| <$float>::from_le_bytes(array(input, at * $bytes)));
            let mut out = Out::new(output);
            out.$put(x % y);
            out.$put(GpuFloat::rem_euclid(x, y));
            out.$put(GpuFloat::div_euclid(x, y));
            // With a constant on either side, or on both.
            out.$put(x % 0.1);
            out.$put(1e30 % y);
            out.$put(black_box(5e8) % black_box(3.0));
            out.$put(5e8 % 3.0);
            out.$put(GpuFloat::sqrt(x));
            out.$put(GpuFloat::sqrt(y % 4.0));
            out.$put(1.0 / GpuFloat::sqrt(x));
            out.$put(x / y);
            out.$put([x, y, 1.0, -7.5].into_iter().fold(1e20, |rest, divisor| rest % divisor));
        }
    };
}

floats!(singles, f32, 4, single);
floats!(doubles, f64, 8, float);

pub fn absolutes(input: &[u8], number: u32, output: &mut [u8]) {
    let (x, y) = (i16::from_le_bytes(array(input, 0)), i16::from_le_bytes(array(input, 2)));
    let shift = number % 8;
    let mut out = Out::new(output);
    out.number((x.wrapping_abs() >> 4) as u64);
    out.number((x.wrapping_abs() >> shift) as u64);
    out.number(((if x < 0 { x.wrapping_neg() } else { x }) / 3) as u64);
    out.number(i64::from(x.wrapping_abs()) as u64);
    out.number(u64::from(x.unsigned_abs() >> shift));
    out.number(u64::from(x.abs_diff(y)));
    out.number((x.wrapping_sub(y).wrapping_abs() >> 1) as u64);
    out.number(u64::from(x.wrapping_abs() < y));
    out.number(i64::from(x.wrapping_neg()) as u64);
    out.number((x.wrapping_neg() >> shift) as u64);
    out.number(u64::from(x.wrapping_neg() < y));
    let [x, y] = [x, y].map(|wide| wide as i8);
    out.number(i64::from(x.wrapping_neg()) as u64);
    out.number((x.wrapping_neg() >> shift) as u64);
    out.number((x.wrapping_abs() >> shift) as u64);
    out.number(i64::from(x.wrapping_abs() / 5) as u64);
    out.number(u64::from(x.wrapping_abs() < y));
    out.number(x.wrapping_abs().wrapping_mul(y) as u64);
}

/// Chains of minima and maxima, with negations in every place.
pub fn chains(input: &[u8], _: u32, output: &mut [u8]) {
    let [a, b, c, d] = [0, 4, 8, 12].map(|at| i32::from_le_bytes(array(input, at)));
    let minus = i32::wrapping_neg;
    let mut out = Out::new(output);
    let mut put = |number: i32| out.number(number as u64);
    put(a.wrapping_abs().max(b));
    put(a.max(minus(b)).max(c));
    put(a.min(minus(b)).min(c));
    put(a.wrapping_sub(b).wrapping_abs().max(c));
    put((a.unsigned_abs() as i32).max(b));
    put([a, b, c, d].into_iter().fold(0, |most, x| most.max(x.wrapping_abs())));
    put(minus(a).max(minus(b)).max(minus(c)));
    put(minus(a).min(b).min(minus(c)));
    put(c.max(a.max(minus(b))).max(0));
    put(a.min(minus(b)).max(c).min(minus(d)));
    put(a.max(b.wrapping_mul(-1)).max(c));
    put(a.max(i64::from(b).wrapping_neg() as i32).max(c));
    put((-1..3).fold(a, |most, i: i32| most.max(i.wrapping_mul(b)).max(c)));
    put((0..d & 7).fold(a, |most, i| most.max(i.wrapping_sub(b)).max(c)));
    put(i32::from((a as i8).max((b as i8).wrapping_neg()).max(c as i8)));
    put(i32::from((a as i16).min((b as i16).wrapping_neg()).min(c as i16)));
    put(i64::from(a).max(i64::from(b).wrapping_neg()).max(i64::from(c)) as i32);
}

/// The checked, saturating, overflowing and wrapping methods of `i8`, whose operands are parameters of a function.
pub fn bytes(input: &[u8], _: u32, output: &mut [u8]) {
    let mut out = Out::new(output);
    let [x, y] = [input[0] as i8, input[1] as i8];
    methods(x, y, &mut out);
    out.number(count_down(x, y));
}

#[inline(never)]
fn methods(x: i8, y: i8, out: &mut Out<'_>) {
    let mut put = |number: Option<i8>| out.number(number.map_or(1 << 40, |number| number as u64));
    let unless = |(number, overflows): (i8, bool)| (!overflows).then_some(number);
    put(x.checked_add(y));
    put(x.checked_sub(y));
    put(x.checked_mul(y));
    put(x.checked_div(y));
    put(x.checked_neg());
    put(x.checked_abs());
    put(Some(x.saturating_add(y)));
    put(Some(x.saturating_sub(y)));
    put(Some(x.saturating_mul(y)));
    put(Some(x.saturating_neg()));
    put(unless(x.overflowing_add(y)));
    put(unless(x.overflowing_sub(y)));
    put(unless(x.overflowing_mul(y)));
    put(unless(x.overflowing_neg()));
    put(Some(x.wrapping_mul(y).wrapping_sub(x)));
    put(Some(x.wrapping_abs()));
}

/// A loop whose bounds are compared before it.
#[inline(never)]
fn count_down(lo: i8, hi: i8) -> u64 {
    let mut sum: u64 = if lo == hi { 2 } else { 3 };
    let mut k = hi;
    while k >= lo {
        sum = sum.wrapping_mul(31) ^ k as u64;
        match k.checked_sub(1) {
            Some(next) => k = next,
            None => break,
        }
    }
    sum
}

/// Where remainders are hard: quotients of many bits, subnormal numbers, and what is no number.
#[cfg(not(target_arch = "nvptx64"))]
const SPECIAL: [f64; 26] = [
    0.0, -0.0, 1.0, -1.0, 0.1, 3.0, -3.0, 3.5, 1.5, 5e8, -5e8, 16_777_215.0, 16_777_217.0, 1e30, -1e-30, 1e-40, -1e-45,
    1.175_494_350_822_287_5e-38, 3.4e38, 1e300, 1e-310, 5e-324, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN,
];

/// Every pair of the special numbers, pairs of any bits, and pairs of usual numbers.
#[cfg(not(target_arch = "nvptx64"))]
fn pairs<const N: usize>(of: impl Fn(f64) -> [u8; N], bits: impl Fn(u64) -> [u8; N]) -> Vec<Case> {
    let mut random = Random::new(33);
    let mut all: Vec<[[u8; N]; 2]> =
        SPECIAL.iter().flat_map(|&x| SPECIAL.iter().map(move |&y| (x, y))).map(|(x, y)| [of(x), of(y)]).collect();
    all.extend((0..300).map(|_| [bits(random.word()), bits(random.word())]));
    let mut usual = |most: u64| (random.word() % most) as f64 / 1000.0 - 1000.0;
    all.extend((0..300).map(|_| [of(usual(2_000_001)), of(usual(1_100_000))]));
    (0..).zip(all).map(|(number, pair)| (number, pair.concat())).collect()
}

/// Two f32 a case.
#[cfg(not(target_arch = "nvptx64"))]
pub fn singles_cases() -> Vec<Case> {
    pairs(|value| (value as f32).to_le_bytes(), |bits| (bits as u32).to_le_bytes())
}

/// Two f64 a case.
#[cfg(not(target_arch = "nvptx64"))]
pub fn doubles_cases() -> Vec<Case> {
    pairs(f64::to_le_bytes, u64::to_le_bytes)
}

/// Two i16 a case, the ends of their ranges among them.
#[cfg(not(target_arch = "nvptx64"))]
pub fn absolutes_cases() -> Vec<Case> {
    const ENDS: [i16; 12] = [i16::MIN, i16::MIN + 1, -256, -129, -128, -127, -1, 0, 1, 127, 128, i16::MAX];
    let mut random = Random::new(34);
    let ends = ENDS.iter().flat_map(|&x| ENDS.iter().map(move |&y| [x, y]));
    let pairs = ends.chain(std::iter::repeat_with(|| random.word()).take(100).map(|word| [word as i16, (word >> 16) as i16]));
    (0..).zip(pairs).map(|(number, pair)| (number, pair.map(i16::to_le_bytes).concat())).collect()
}

/// Four i32 a case: small numbers, the ends of the range, and any bits.
#[cfg(not(target_arch = "nvptx64"))]
pub fn chains_cases() -> Vec<Case> {
    const ENDS: [i32; 8] = [i32::MIN, i32::MIN + 1, -128, -1, 0, 1, 127, i32::MAX];
    let mut random = Random::new(35);
    let mut number = || match random.word() {
        word if word % 3 == 0 => ENDS[(word >> 32) as usize % ENDS.len()],
        word if word % 3 == 1 => (word >> 32) as i32 % 40 - 20,
        word => (word >> 32) as i32,
    };
    (0..300).map(|case| (case, [(); 4].map(|()| number().to_le_bytes()).concat())).collect()
}

/// Every pair of limit values and their neighbours.
#[cfg(not(target_arch = "nvptx64"))]
pub fn bytes_cases() -> Vec<Case> {
    const ENDS: [i8; 12] = [i8::MIN, -127, -126, -65, -64, -2, -1, 0, 1, 2, 126, i8::MAX];
    let pairs = ENDS.iter().flat_map(|&x| ENDS.iter().map(move |&y| vec![x as u8, y as u8]));
    (0..).zip(pairs).collect()
}
