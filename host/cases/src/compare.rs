//! Comparing what a device computed with what is right.

use crate::reference::Sum as Expected;

/// Half the distance from 1 to the next f32: the largest relative error of one rounding.
const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// Compares every element; `roundings` is how many rounding errors of the magnitude an element may be off.
///
/// Returns the worst error in parts of what is allowed.
///
/// # Errors
/// The first element over its tolerance, in words.
pub fn compare(name: &str, got: &[f64], expected: &[Expected], roundings: f64) -> Result<f64, String> {
    if got.len() != expected.len() {
        return Err(format!("{name} has {} elements, not {}", got.len(), expected.len()));
    }
    let mut worst = 0.0f64;
    for (i, (&got, expected)) in got.iter().zip(expected).enumerate() {
        // Below the smallest normal f32 the rounding error no longer shrinks with the number.
        let floor = if expected.magnitude == 0.0 { 0.0 } else { f64::from(f32::MIN_POSITIVE) };
        let tolerance = roundings * ROUNDING * expected.magnitude + floor;
        let error = (got - expected.value).abs();
        if error.is_nan() || error > tolerance {
            return Err(format!("{name}[{i}] is {got:e}, not {:e} +- {tolerance:.1e}", expected.value));
        }
        if error > 0.0 {
            worst = worst.max(error / tolerance);
        }
    }
    Ok(worst)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Expected = Expected { value: 1.0, magnitude: 1.0 };

    #[test]
    fn within_the_tolerance_it_tells_how_near() {
        let got = 1.0 + 2.0 * ROUNDING;
        let worst = compare("x", &[1.0, got], &[ONE; 2], 4.0).unwrap();
        assert!((worst - 0.5).abs() < 1e-6, "{worst}");
    }

    #[test]
    fn over_the_tolerance_it_names_the_element() {
        let error = compare("x", &[1.0, 1.0 + 5.0 * ROUNDING], &[ONE; 2], 4.0).unwrap_err();
        assert!(error.starts_with("x[1] is 1.0000002"), "{error}");
    }

    #[test]
    fn exact_values_must_be_equal() {
        let two = Expected { value: 2.0, magnitude: 0.0 };
        assert_eq!(compare("x", &[2.0], &[two], 4.0), Ok(0.0));
        assert!(compare("x", &[2.0f64.next_up()], &[two], 4.0).is_err());
    }

    #[test]
    fn nan_infinity_and_missing_elements_are_wrong() {
        for got in [f64::NAN, f64::INFINITY] {
            assert!(compare("x", &[got], &[ONE], 1e30).is_err());
        }
        assert!(compare("x", &[], &[ONE], 4.0).is_err());
    }
}
