//! Large arrays and their sums, generated on all cores, and what several oracles compute.

use std::ops::Range;

use rayon::prelude::*;

use crate::compare::Bound;
use crate::reference::Sum;

/// The minimum number of elements for using all cores, and the size of a part of a sum.
const LARGE: usize = 1 << 16;

/// `len` elements, each computed by `element`.
pub(super) fn elements<T: Send>(len: usize, element: impl Fn(usize) -> T + Sync + Send) -> Vec<T> {
    if len < LARGE {
        return (0..len).map(element).collect();
    }
    (0..len).into_par_iter().with_min_len(LARGE / 16).map(element).collect()
}

/// Numbers between -1 and 1 that depend on the seed.
pub(super) fn numbers(len: usize, seed: u64) -> Vec<f32> {
    numbers_as(len, seed, |x| x)
}

/// The same numbers, converted by `of`.
pub(super) fn numbers_as<T: Send>(len: usize, seed: u64, of: impl Fn(f32) -> T + Sync + Send) -> Vec<T> {
    elements(len, |i| of(number(i, seed)))
}

/// Number `i` of the sequence.
pub(super) fn number(i: usize, seed: u64) -> f32 {
    // The output function of SplitMix64 (Steele, Lea, Flood 2014).
    let mut z = (seed << 40).wrapping_add(i as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^= z >> 31;
    (z >> 40) as f32 / 8_388_608.0 - 1.0
}

/// The sum of `len` terms. It is computed part by part, so it is the same on every machine.
pub(super) fn sum(len: usize, term: impl Fn(usize) -> f64 + Sync + Send) -> Sum {
    let of = |range: Range<usize>| range.map(&term).fold(Sum::default(), Sum::and);
    if len <= LARGE {
        return of(0..len);
    }
    let parts = (0..len.div_ceil(LARGE)).into_par_iter();
    let parts: Vec<Sum> = parts.map(|part| of(part * LARGE..len.min((part + 1) * LARGE))).collect();
    parts.into_iter().fold(Sum::default(), |all, part| Sum {
        value: all.value + part.value,
        magnitude: all.magnitude + part.magnitude,
    })
}

/// Lanes of a warp.
pub(super) const WARP: usize = 32;

/// Passes of a request for these words over the 32 banks of shared memory, which are one 4-byte word wide: the number of
/// words in the bank with the most. A word that several lanes request counts once.
pub(super) fn passes(words: impl IntoIterator<Item = usize>) -> usize {
    let mut words: Vec<usize> = words.into_iter().collect();
    words.sort_unstable();
    words.dedup();
    let mut of_bank = [0; 32];
    words.iter().for_each(|word| of_bank[word % 32] += 1);
    of_bank.into_iter().max().unwrap_or(0)
}

/// Element `i` of an array of words that differ from each other.
pub(super) fn word(i: usize) -> u32 {
    (i as u32).wrapping_mul(2_654_435_761)
}

/// The value, rounded once.
pub(super) fn rounded(value: f64) -> Bound {
    Sum { value, magnitude: value.abs() }.within(1.0)
}

/// GeLU in its tanh form (Hendrycks, Gimpel 2016, section 2).
pub(super) fn gelu(x: f64) -> Bound {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    // Near -1, adding to the tanh loses precision.
    Sum { value: 0.5 * x * (1.0 + inner.tanh()), magnitude: x.abs() }.within(16.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_cores_make_what_one_makes() {
        for len in [0, 1, LARGE - 1, LARGE, 3 * LARGE + 7] {
            let one_by_one: Vec<f32> = (0..len).map(|i| number(i, 5)).collect();
            assert_eq!(numbers(len, 5), one_by_one);
            let whole = |i: usize| (7.5 * one_by_one[i]).trunc();
            let Sum { value, magnitude } = sum(len, |i| whole(i).into());
            assert_eq!(value, (0..len).map(|i| f64::from(whole(i))).sum::<f64>(), "{len} terms");
            assert_eq!(magnitude, (0..len).map(|i| f64::from(whole(i).abs())).sum::<f64>(), "{len} terms");
        }
    }

    #[test]
    fn a_prefix_of_many_numbers_is_few_numbers() {
        assert_eq!(numbers(2 * LARGE, 1)[..9], numbers(9, 1));
        assert_ne!(numbers(9, 1), numbers(9, 2));
        assert!(numbers(LARGE, 3).iter().all(|x| (-1.0..1.0).contains(x)));
    }
}
