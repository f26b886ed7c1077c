//! Compares a device's results with the expected ones.

use anyhow::{Result, ensure};

/// An expected value, and its tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// The expected value. If it is NaN or infinite, only the same value is right.
    pub value: f64,
    /// The maximum error.
    pub allowed: f64,
}

impl Bound {
    /// An exact value without tolerance.
    pub fn exact(value: f64) -> Self {
        Self { value, allowed: 0.0 }
    }

    /// The error of a result relative to the tolerance; above 1 it is wrong.
    pub fn error(&self, got: f64) -> f64 {
        if got == self.value || got.is_nan() && self.value.is_nan() {
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
        let Bound { value, allowed } = expected;
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
            assert_eq!(compare("x", &[x], &[Bound { value: x, allowed: 1.0 }]).unwrap(), 0.0);
            assert!(compare("x", &[1.0], &[Bound { value: x, allowed: 1e30 }]).is_err());
        }
        assert!(compare("x", &[f64::INFINITY], &[Bound::exact(f64::NEG_INFINITY)]).is_err());
    }
}
