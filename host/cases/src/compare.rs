//! Compares a device's results with the expected ones.

use anyhow::{Result, ensure};

use crate::reference::Number;

/// An expected value, and its tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The expected value. If it is NaN or infinite, only the same value is right.
    pub value: f64,
    /// The maximum error.
    pub allowed: f64,
    /// Whether -infinity and infinity are right too, because the value may round to them.
    infinities: [bool; 2],
}

impl Bound {
    /// An exact value without tolerance.
    pub fn exact(value: f64) -> Self {
        Self { value, allowed: 0.0, infinities: [false; 2] }
    }

    /// A value of type `f32`, or of integers, with its maximum error.
    pub fn near(value: f64, allowed: f64) -> Self {
        Self::stored::<f32>(value, [allowed; 2])
    }

    /// A value that may be off by `error` before it is rounded to `T`.
    pub fn rounded<T: Number>(value: f64, error: f64) -> Self {
        Self::stored::<T>(value, [error, error + T::ROUNDING * (value.abs() + error) + T::SMALLEST])
    }

    /// A value of type `T`, with its maximum errors before and after rounding.
    fn stored<T: Number>(value: f64, [error, allowed]: [f64; 2]) -> Self {
        // Numbers round to infinity from halfway between the largest one and the next power of two.
        let border = f64::from(T::LARGEST) * (2.0 - T::ROUNDING) / (2.0 - 2.0 * T::ROUNDING);
        if !value.is_finite() {
            Self::exact(value)
        } else if value.abs() - error >= border {
            Self::exact(f64::INFINITY.copysign(value))
        } else {
            Self { value, allowed, infinities: [-value, value].map(|value| value + error >= border) }
        }
    }

    /// The bound of a second result, after a first one of `value`: twice the tolerance.
    pub fn around(self, value: f64) -> Self {
        let is_overflow = value.is_infinite() && self.value.is_finite() && self.error(value) == 0.0;
        if is_overflow { self } else { Self { value, allowed: 2.0 * self.allowed, ..self } }
    }

    /// The error of a result relative to the tolerance; above 1 it is wrong.
    pub fn error(&self, got: f64) -> f64 {
        let is_overflow = got.is_infinite() && self.infinities[usize::from(got > 0.0)];
        if got == self.value || got.is_nan() && self.value.is_nan() || is_overflow {
            return 0.0;
        }
        let error = (got - self.value).abs();
        let is_near = self.value.is_finite() && error <= self.allowed;
        if is_near { error / self.allowed } else { f64::INFINITY }
    }
}

/// Every output of a case, by name. All number types convert to f64.
pub type Outputs = Vec<(&'static str, Vec<f64>)>;

/// The expected outputs, by name.
pub type Expected = Vec<(&'static str, Vec<Bound>)>;

/// Compares every element. Returns the largest error relative to its tolerance.
///
/// # Errors
/// The first element that exceeds its tolerance.
pub fn compare(name: &str, got: &[f64], expected: &[Bound]) -> Result<f64> {
    ensure!(got.len() == expected.len(), "{name} has {} elements, not {}", got.len(), expected.len());
    let mut worst = 0.0f64;
    for (i, (&got, expected)) in got.iter().zip(expected).enumerate() {
        let error = expected.error(got);
        let Bound { value, allowed, .. } = expected;
        ensure!(error <= 1.0, "{name}[{i}] is {got:e}, not {value:e} +- {allowed:.1e}");
        worst = worst.max(error);
    }
    Ok(worst)
}

/// Same as [`compare`], for all outputs.
///
/// # Errors
/// Same as for [`compare`].
pub fn compare_all(got: &Outputs, expected: &Expected) -> Result<f64> {
    let names = |(got, expected): (&(&str, _), &(&str, _))| got.0 == expected.0;
    ensure!(
        got.len() == expected.len() && got.iter().zip(expected).all(names),
        "{} outputs instead of {}",
        got.len(),
        expected.len()
    );
    let pairs = got.iter().zip(expected);
    pairs
        .map(|((name, got), (_, expected))| compare(name, got, expected))
        .try_fold(0.0, |worst, error| Ok(f64::max(worst, error?)))
}

#[cfg(test)]
mod tests {
    use cuda_std::half::{bf16, f16};
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

    use super::*;
    use crate::reference::Sum;

    /// Half the distance from 1 to the next f32.
    const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

    fn one(roundings: f64) -> Bound {
        Sum { value: 1.0, magnitude: 1.0 }.within(roundings)
    }

    #[test]
    fn within_the_tolerance_it_tells_how_near() {
        let got = 1.0 + 2.0 * ROUNDING;
        let worst = compare("x", &[1.0, got], &[one(4.0); 2]).unwrap();
        assert!((worst - 0.5).abs() < 1e-6, "{worst}");
    }

    #[test]
    fn over_the_tolerance_it_names_the_element() {
        let error = compare("x", &[1.0, 1.0 + 5.0 * ROUNDING], &[one(4.0); 2]).unwrap_err().to_string();
        assert!(error.starts_with("x[1] is 1.0000002"), "{error}");
    }

    #[test]
    fn exact_values_must_be_equal() {
        let two = Sum { value: 2.0, magnitude: 0.0 }.within(4.0);
        assert_eq!(compare("x", &[2.0], &[two]).unwrap(), 0.0);
        assert!(compare("x", &[2.0f64.next_up()], &[two]).is_err());
    }

    #[test]
    fn nan_infinity_and_missing_elements_are_wrong() {
        for got in [f64::NAN, f64::INFINITY] {
            assert!(compare("x", &[got], &[one(1e30)]).is_err());
        }
        assert!(compare("x", &[], &[one(4.0)]).is_err());
        assert!(compare_all(&vec![("x", vec![1.0])], &vec![("y", vec![one(4.0)])]).is_err());
    }

    #[test]
    fn nan_and_infinity_are_right_where_they_are_expected() {
        for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(compare("x", &[x], &[Bound::near(x, 1.0)]).unwrap(), 0.0);
            assert!(compare("x", &[1.0], &[Bound::near(x, 1e30)]).is_err());
        }
        assert!(compare("x", &[f64::INFINITY], &[Bound::exact(f64::NEG_INFINITY)]).is_err());
    }

    fn a_value_may_be_infinite_if_it_may_round_to_infinity<T: Number>(border: f64) {
        let is_right = |bound: Bound, got: f64| compare("x", &[got], &[bound]).is_ok();
        assert_eq!((T::nearest(border as f32).value(), border as f32 as f64), (f32::INFINITY, border));
        let mut rng = StdRng::seed_from_u64(1);
        for _ in 0..1000 {
            let (sign, error) =
                ([-1.0, 1.0][rng.random_range(0..2)], border * 0.5f64.powi(rng.random_range(1..40)));
            let (inside, outside) = (border - rng.random_range(0.0..1.0) * error, border - 1.01 * error);
            let (inf, largest) = (sign * f64::INFINITY, sign * f64::from(T::LARGEST));
            let reaches = Bound::rounded::<T>(sign * inside, error);
            for got in [inf, largest] {
                assert!(is_right(reaches, got), "{reaches:?}, {got}");
                assert!(is_right(reaches.around(inf), got) && is_right(reaches.around(largest), got));
            }
            assert!(!is_right(reaches, -inf) && !is_right(reaches, f64::NAN), "{reaches:?}");
            let below = Bound::rounded::<T>(sign * outside, error);
            assert!(!is_right(below, inf) && !is_right(below.around(sign * outside), inf), "{below:?}");
            let above = Bound::rounded::<T>(sign * (border + 1.01 * error), error);
            assert!(is_right(above, inf) && !is_right(above, largest), "{above:?}");
        }
        assert!(is_right(Bound::rounded::<T>(border, 0.0), f64::INFINITY));
        assert!(!is_right(Bound::rounded::<T>(T::LARGEST.into(), 0.0), f64::INFINITY));
        assert!(
            [-1.0, 1.0]
                .iter()
                .all(|sign| is_right(Bound::rounded::<T>(1.0, 2.0 * border), sign * f64::INFINITY))
        );
    }

    #[test]
    fn infinity_is_right_only_where_the_tolerance_reaches_the_border() {
        a_value_may_be_infinite_if_it_may_round_to_infinity::<f16>(65_520.0);
        a_value_may_be_infinite_if_it_may_round_to_infinity::<bf16>(2f64.powi(128) - 2f64.powi(119));
        let border = 2f64.powi(128) - 2f64.powi(103);
        for (bound, may_be_infinite) in
            [(Bound::near(border, 0.0), true), (Bound::near(border.next_down(), 0.0), false)]
        {
            assert_eq!(compare("x", &[f64::INFINITY], &[bound]).is_ok(), may_be_infinite);
        }
    }
}
