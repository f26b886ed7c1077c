//! How far a result may be off, and comparisons within that.

use core::fmt;

use super::element::{Element, from_bytes, is_unwritten, to_bytes};

/// How far an element may be off: `absolute + relative * |expected|`.
///
/// By default, [`Tolerance::of`], by the type:
///
/// | type | relative | absolute |
/// | --- | --- | --- |
/// | integers | 0 | 0 |
/// | `f64`, `f32` | 8 roundings of the type, 8 * 2^-53 and 8 * 2^-24 | the smallest normal number |
/// | `f16`, `bf16` | 2 roundings of the type, 2 * 2^-11 and 2 * 2^-8 | 2^-24; the smallest normal number of `f32` |
///
/// Eight roundings allow for a few operations in another order, fused or not, and for functions such as `exp` that are
/// off by two on either side. The 16-bit types are for storage: results are computed in `f32` and rounded once, and two
/// sides may round to two neighbours. For longer sums, use [`and_sum`](Self::and_sum).
///
/// A NaN equals every NaN, and an infinity equals those of its sign. Nothing else is within tolerance of them. -0 equals 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    absolute: f64,
    relative: f64,
}

impl Tolerance {
    /// Equal numbers only.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

    /// The default for elements of type `T`.
    pub fn of<T: Element>() -> Self {
        Self::EXACT.and_absolute(T::SMALLEST).and_relative(T::ROUNDINGS * T::ROUNDING)
    }

    /// Adds `more`, in the unit of the elements.
    pub fn and_absolute(self, more: f64) -> Self {
        Self { absolute: self.absolute + more, ..self }
    }

    /// Adds `more`, as a fraction of the expected number.
    pub fn and_relative(self, more: f64) -> Self {
        Self { relative: self.relative + more, ..self }
    }

    /// Adds the error of a sum of `terms` terms, if each addition rounds to `T`: at most `terms` roundings of
    /// `magnitude`, the sum of the terms' absolute values. This holds in any order, and if terms cancel.
    pub fn and_sum<T: Element>(self, terms: usize, magnitude: f64) -> Self {
        self.and_absolute(terms as f64 * T::ROUNDING * magnitude)
    }

    /// Doubles the tolerance, for two results that may both be off.
    pub(super) fn twice(self) -> Self {
        Self { absolute: 2.0 * self.absolute, relative: 2.0 * self.relative }
    }

    /// Returns how far an element may be off if it should be `expected`.
    pub fn allowed(&self, expected: f64) -> f64 {
        if expected.is_finite() { self.absolute + self.relative * expected.abs() } else { 0.0 }
    }
}

/// An element over its tolerance.
#[derive(Clone, Debug, PartialEq)]
pub struct Wrong {
    /// Its index in the buffer.
    pub index: usize,
    /// What the kernel wrote.
    pub got: String,
    /// What it should have written.
    pub expected: String,
    /// How far it is off.
    pub error: f64,
    /// How far it may be off.
    pub allowed: f64,
    /// Whether it is a float whose bits are all 1. That is a NaN that no arithmetic produces, and what the CPU executor
    /// fills shared memory with before a block starts.
    pub is_unwritten: bool,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wrong { index, got, expected, error, allowed, is_unwritten } = self;
        write!(f, "[{index}] is {got}, not {expected}: off by {error:.3e}, allowed {allowed:.3e}")?;
        f.write_str(if *is_unwritten {
            " (all its bits are 1, as in shared memory that no thread wrote)"
        } else {
            ""
        })
    }
}

/// How two buffers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The first element over its tolerance.
    pub first: Wrong,
    /// The element that is off by the most.
    pub worst: Wrong,
    /// The number of elements over their tolerance.
    pub wrong: usize,
    /// Elements of the buffer.
    pub len: usize,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Difference { first, worst, wrong, len } = self;
        write!(f, "{wrong} of {len} elements differ; the first: {first}")?;
        if worst.index != first.index {
            write!(f, "; the worst: {worst}")?;
        }
        Ok(())
    }
}

/// Compares element by element, up to the shorter length. Returns `None` if all are within `tolerance`.
pub fn difference<T: Element>(got: &[T], expected: &[T], tolerance: &Tolerance) -> Option<Difference> {
    let mut found: Option<Difference> = None;
    for (index, (&got, &expected)) in got.iter().zip(expected).enumerate() {
        let (error, allowed) = (got.error(expected), tolerance.allowed(expected.to_f64()));
        if error <= allowed {
            continue;
        }
        let wrong = || Wrong {
            index,
            got: format!("{got:?}"),
            expected: format!("{expected:?}"),
            error,
            allowed,
            is_unwritten: is_unwritten::<T>(&to_bytes(&[got])),
        };
        match &mut found {
            None => found = Some(Difference { first: wrong(), worst: wrong(), wrong: 1, len: 0 }),
            Some(found) => {
                found.wrong += 1;
                if error > found.worst.error {
                    found.worst = wrong();
                }
            }
        }
    }
    found.map(|found| Difference { len: got.len(), ..found })
}

/// Same as [`difference`], for elements as bytes.
pub(super) fn difference_of_bytes<T: Element>(
    got: &[u8],
    expected: &[u8],
    tolerance: &Tolerance,
) -> Option<Difference> {
    difference::<T>(&from_bytes(got), &from_bytes(expected), tolerance)
}

/// Returns the difference of two buffers with equal numbers but different bits, with elements of `size` bytes.
pub(super) fn in_bits(size: usize, got: &[u8], expected: &[u8]) -> Difference {
    let elements = got.chunks(size).zip(expected.chunks(size)).enumerate();
    let mut unequal = elements.filter(|(_, (got, expected))| got != expected);
    let bits = |bytes: &[u8]| -> String {
        let digits: String = bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect();
        format!("0x{digits}")
    };
    let (index, (got_bits, expected_bits)) = unequal.next().unwrap_or_default();
    let (got_bits, expected_bits) = (bits(got_bits), bits(expected_bits));
    let [error, allowed] = [0.0; 2];
    let first = Wrong { index, got: got_bits, expected: expected_bits, error, allowed, is_unwritten: false };
    Difference { worst: first.clone(), first, wrong: 1 + unequal.count(), len: got.len() / size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::half::{bf16, f16};

    #[test]
    fn defaults_by_type() {
        let near = |relative: f64, steps: f64| 1.0 + steps * relative;
        for (steps, is_right) in [(8.0, true), (10.0, false)] {
            let f32s = difference(&[near(2f64.powi(-24), steps) as f32], &[1.0], &Tolerance::of::<f32>());
            let f64s = difference(&[near(2f64.powi(-53), steps)], &[1.0], &Tolerance::of::<f64>());
            assert_eq!((f32s.is_none(), f64s.is_none()), (is_right, is_right), "{steps}");
        }
        let f16s = |x: f32| difference(&[f16::from_f32(x)], &[f16::ONE], &Tolerance::of::<f16>()).is_none();
        assert!(f16s(1.0 + 1.0 / 1024.0) && !f16s(1.0 + 2.0 / 1024.0));
        let bf16s =
            |x: f32| difference(&[bf16::from_f32(x)], &[bf16::ONE], &Tolerance::of::<bf16>()).is_none();
        assert!(bf16s(1.0 + 1.0 / 128.0) && !bf16s(1.0 + 2.0 / 128.0));
        assert!(difference(&[7u32], &[7], &Tolerance::of::<u32>()).is_none());
        assert!(difference(&[8u32], &[7], &Tolerance::of::<u32>()).is_some());
    }

    #[test]
    fn nothing_is_near_a_nan_or_an_infinity() {
        let huge = Tolerance::of::<f32>().and_absolute(1e30).and_relative(1e3);
        let is_right = |got: f32, expected: f32| difference(&[got], &[expected], &huge).is_none();
        assert!(is_right(f32::NAN, f32::NAN) && is_right(f32::INFINITY, f32::INFINITY));
        for (got, expected) in [
            (1.0, f32::INFINITY),
            (f32::NEG_INFINITY, f32::INFINITY),
            (f32::NAN, f32::INFINITY),
            (f32::NAN, 1.0),
        ] {
            assert!(!is_right(got, expected) && !is_right(expected, got), "{got} {expected}");
        }
    }

    #[test]
    fn a_sum_may_be_off_by_its_length() {
        let tolerance = Tolerance::EXACT.and_sum::<f32>(1000, 500.0);
        assert_eq!(tolerance.allowed(0.0), 1000.0 * 2f64.powi(-24) * 500.0);
        assert!(difference(&[0.02f32], &[0.0], &tolerance).is_none());
        assert!(difference(&[0.04f32], &[0.0], &tolerance).is_some());
    }

    #[test]
    fn equal_numbers_of_other_bits_are_told_by_their_bits() {
        let bytes = |numbers: [f32; 3]| numbers.map(f32::to_ne_bytes).concat();
        let found = in_bits(4, &bytes([1.0, -0.0, -0.0]), &bytes([1.0, 0.0, 0.0]));
        assert_eq!((found.first.index, found.wrong, found.len), (1, 2, 3));
        assert_eq!((found.first.got.as_str(), found.first.expected.as_str()), ("0x80000000", "0x00000000"));
    }

    #[test]
    fn a_difference_names_the_first_the_worst_and_the_number() {
        let found =
            difference(&[1.0f32, 2.5, 3.0, 9.0], &[1.0, 2.0, 3.0, 4.0], &Tolerance::of::<f32>()).unwrap();
        assert_eq!(
            found.to_string(),
            "2 of 4 elements differ; the first: [1] is 2.5, not 2.0: off by 5.000e-1, allowed 9.537e-7; the worst: \
             [3] is 9.0, not 4.0: off by 5.000e0, allowed 1.907e-6"
        );
    }
}
