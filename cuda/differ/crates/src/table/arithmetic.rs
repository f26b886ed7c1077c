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
