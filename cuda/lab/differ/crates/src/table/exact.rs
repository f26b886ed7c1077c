//! No crate of the registry, but what compilers for GPUs make of signs of NaNs, of limits of narrow integers, and of atomic
//! operations on a thread's own variables.

use core::hint::black_box;
use core::sync::atomic::{AtomicI64, AtomicU32, Ordering, compiler_fence, fence};

use super::out::{Out, array};

/// Bytes of an output.
pub const OUTPUT: usize = 40 * 8;

macro_rules! signs {
    ($name:ident, $negated:ident, $float:ty, $bytes:literal) => {
        #[inline(never)]
        fn $negated(x: $float) -> $float {
            -x
        }

        /// Changes of a sign, which keep all other bits, of NaNs too.
        pub fn $name(input: &[u8], number: u32, output: &mut [u8]) {
            let [x, y] = [0, 1].map(|at| <$float>::from_le_bytes(array(input, at * $bytes)));
            let mut out = Out::new(output);
            let changed = [
                -x,
                $negated(x),
                x.abs(),
                -x.abs(),
                x.copysign(y),
                x.copysign(-1.0),
                x.copysign(1.0),
                y.copysign(-x),
                if number % 2 == 0 { -x } else { y },
                [x, -y, y.abs(), -x][number as usize % 4],
                black_box(-x),
            ];
            changed.iter().for_each(|value| out.number(value.to_bits().into()));
            out.number((-x).total_cmp(&y) as u64);
            out.number(x.abs().total_cmp(&-y) as u64);
            out.number(u64::from((-x).is_sign_negative()) + 2 * u64::from($negated(y).is_sign_negative()));
        }
    };
}

signs!(signs_f32, negated_f32, f32, 4);
signs!(signs_f64, negated_f64, f64, 8);

macro_rules! limits {
    ($name:ident, $int:ty, $unsigned:expr) => {
        /// The methods whose results depend on the limits of a type.
        pub fn $name(input: &[u8], _: u32, output: &mut [u8]) {
            let (x, y) = (input[0] as $int, input[1] as $int);
            let mut out = Out::new(output);
            let found = |value: Option<$int>| value.map_or(0x1_0000, |value| value as u64);
            let both = |(value, is_over): ($int, bool)| value as u64 ^ u64::from(is_over) << 40;
            for value in [
                found(x.checked_add(y)), found(x.checked_sub(y)), found(x.checked_mul(y)), found(x.checked_div(y)),
                found(x.checked_rem(y)), found(x.checked_neg()), found(x.checked_shl(u32::from(input[1]) % 12)),
                found(x.checked_shr(u32::from(input[1]) % 12)), found(x.checked_pow(u32::from(input[1]) % 4)),
                both(x.overflowing_add(y)), both(x.overflowing_sub(y)), both(x.overflowing_mul(y)), both(x.overflowing_neg()),
                x.saturating_add(y) as u64, x.saturating_sub(y) as u64, x.saturating_mul(y) as u64,
                x.wrapping_add(y) as u64, x.wrapping_sub(y) as u64, x.wrapping_mul(y) as u64, x.wrapping_neg() as u64,
                x.abs_diff(y) as u64, x.max(y) as u64, x.min(y).wrapping_neg() as u64,
                u64::from(x == y) + 2 * u64::from(x < y) + 4 * u64::from(x.wrapping_neg() == y),
                ($unsigned)(x, y),
            ] {
                out.number(value);
            }
            // Both live across the loop.
            let (mut k, mut count) = (x, 0u64);
            while k >= y {
                count = count.rotate_left(5) ^ k as u64;
                match k.checked_sub(1) {
                    Some(next) => k = next,
                    None => break,
                }
            }
            out.number(count ^ u64::from(x == y) << 60);
        }
    };
}

limits!(limits_i8, i8, |x: i8, y: i8| {
    let all = [x.wrapping_abs(), x.saturating_abs(), x.saturating_neg(), x.overflowing_abs().0, x.checked_abs().unwrap_or(9)];
    all.into_iter().fold(u64::from(x.unsigned_abs()), |hash, value| hash.rotate_left(9) ^ value.max(y) as u64)
});
limits!(limits_u8, u8, |x: u8, y: u8| u64::from(x.midpoint(y)));

#[inline(never)]
fn add(cell: &AtomicU32, value: u32) -> u32 {
    cell.fetch_add(value, Ordering::Relaxed)
}

#[inline(never)]
fn exchange(cell: &AtomicI64, old: i64, new: i64) -> i64 {
    cell.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|found| !found)
}

/// Atomic operations on variables of the thread, directly and through functions, and fences.
pub fn atomics(input: &[u8], number: u32, output: &mut [u8]) {
    let [x, y] = [0, 1].map(|at| u32::from_le_bytes(array(input, at * 4)));
    let mut out = Out::new(output);
    let cell = AtomicU32::new(x);
    out.number(add(&cell, 7).into());
    out.number(add(&cell, y).into());
    compiler_fence(Ordering::SeqCst);
    out.number(cell.fetch_max(y, Ordering::SeqCst).into());
    out.number(cell.swap(x, Ordering::AcqRel).into());
    out.number(cell.fetch_nand(y, Ordering::Release).into());
    fence(Ordering::SeqCst);
    out.number(cell.load(Ordering::Acquire).into());
    // The address is the same in all lanes, the memory is not.
    let cells = [const { AtomicI64::new(0) }; 4];
    for i in 0..number as usize % 9 {
        cells[i % 4].fetch_add(i64::from(x) * 3, Ordering::Relaxed);
        cells[(i + 1) % 4].fetch_min(i64::from(y) - 5, Ordering::Acquire);
    }
    out.number(exchange(&cells[1], i64::from(y) - 5, 11) as u64);
    compiler_fence(Ordering::AcqRel);
    cells.iter().for_each(|cell| out.number(cell.load(Ordering::SeqCst) as u64));
}

#[cfg(not(target_arch = "nvptx64"))]
pub use cases::{atomics as atomics_cases, bytes, signs_f32 as signs_f32_cases, signs_f64 as signs_f64_cases};

#[cfg(not(target_arch = "nvptx64"))]
mod cases {
    use crate::inputs::{Case, Random};

    fn numbered(all: impl IntoIterator<Item = Vec<u8>>) -> Vec<Case> {
        (0..).zip(all).collect()
    }

    /// Pairs of NaNs, quiet and signalling, and of other numbers.
    pub fn signs_f32() -> Vec<Case> {
        const ALL: [u32; 8] =
            [0x7f80_1234, 0xff80_1234, 0x7fc0_0000, 0xffff_ffff, 0x7f80_0000, 0x3f80_0000, 0x8000_0000, 1];
        let pairs = ALL.iter().flat_map(|x| ALL.iter().flat_map(move |y| [[*x, *y]; 4]));
        numbered(pairs.map(|pair| pair.map(u32::to_le_bytes).concat()))
    }

    /// The same for f64.
    pub fn signs_f64() -> Vec<Case> {
        const ALL: [u64; 8] = [
            0x7ff0_1234_0000_5678, 0xfff0_1234_0000_5678, 0x7ff8 << 48, u64::MAX, 0x7ff0 << 48, 0x3ff0 << 48, 1 << 63, 1,
        ];
        let pairs = ALL.iter().flat_map(|x| ALL.iter().flat_map(move |y| [[*x, *y]; 4]));
        numbered(pairs.map(|pair| pair.map(u64::to_le_bytes).concat()))
    }

    /// Pairs of bytes around the limits of signed and unsigned ones.
    pub fn bytes() -> Vec<Case> {
        const ALL: [u8; 16] = [0, 1, 2, 3, 7, 63, 100, 126, 127, 128, 129, 130, 200, 253, 254, 255];
        numbered(ALL.iter().flat_map(|&x| ALL.iter().map(move |&y| vec![x, y])))
    }

    /// Pairs of words.
    pub fn atomics() -> Vec<Case> {
        numbered((0..96).map(|seed| Random::new(seed).bytes(8)))
    }
}
