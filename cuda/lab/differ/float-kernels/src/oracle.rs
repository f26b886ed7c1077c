//! Oracles in `f64` for functions that neither `std` nor the crate `libm` has.

use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI, PI, SQRT_2};

/// The sine of pi times `x`, by the nearest multiple of a half, which is exact.
pub fn sinpi(x: f64) -> f64 {
    // Exact, too.
    let x = x % 2.0;
    let quarter = (2.0 * x).round();
    let rest = PI * (x - quarter / 2.0);
    match quarter.rem_euclid(4.0) {
        // Zeros have the sign of the number.
        0.0 if rest == 0.0 => x * 0.0,
        2.0 if rest == 0.0 => 0f64.copysign(x),
        0.0 => libm::sin(rest),
        1.0 => libm::cos(rest),
        2.0 => -libm::sin(rest),
        3.0 => -libm::cos(rest),
        _ => f64::NAN,
    }
}

/// The cosine of pi times `x`.
pub fn cospi(x: f64) -> f64 {
    let x = x % 2.0;
    let quarter = (2.0 * x).round();
    let rest = PI * (x - quarter / 2.0);
    match quarter.rem_euclid(4.0) {
        0.0 => libm::cos(rest),
        1.0 | 3.0 if rest == 0.0 => 0.0,
        1.0 => -libm::sin(rest),
        2.0 => -libm::cos(rest),
        3.0 => libm::sin(rest),
        _ => f64::NAN,
    }
}

/// The share of the normal distribution below `x`.
pub fn norm_cdf(x: f64) -> f64 {
    // What the constant and the product leave out would be multiplied by x^2.
    const LEFT_OUT: f64 = -4.833_646_656_726_457e-17;
    let t = -x * FRAC_1_SQRT_2;
    if !t.is_finite() {
        return 0.5 * libm::erfc(t);
    }
    let rest = (-x).mul_add(FRAC_1_SQRT_2, -t) - x * LEFT_OUT;
    0.5 * (libm::erfc(t) - FRAC_2_SQRT_PI * (-t * t).exp() * rest)
}

/// e to the power x^2, times the complementary error function.
pub fn erfcx(x: f64) -> f64 {
    if x < -27.0 {
        return f64::INFINITY;
    }
    if x < 20.0 {
        // The square in two parts, since its rounding would be the result's relative error.
        let square = x * x;
        return square.exp() * libm::erfc(x) * (1.0 + x.mul_add(x, -square));
    }
    let t = 1.0 / (2.0 * x * x);
    // The first term left out is below 1e-15 from x = 20 on.
    let tail = 1.0 - 9.0 * t * (1.0 - 11.0 * t * (1.0 - 13.0 * t));
    let series = 1.0 - t * (1.0 - 3.0 * t * (1.0 - 5.0 * t * (1.0 - 7.0 * t * tail)));
    series * FRAC_2_SQRT_PI / (2.0 * x)
}

/// The number whose complementary error function is `y`, by Newton's steps.
pub fn erfcinv(y: f64) -> f64 {
    if y.is_nan() || !(0.0..=2.0).contains(&y) {
        return f64::NAN;
    }
    if y == 0.0 || y == 2.0 {
        return if y == 0.0 { f64::INFINITY } else { f64::NEG_INFINITY };
    }
    if y == 1.0 {
        return 0.0;
    }
    // Exact, where the result is not tiny.
    let (tail, sign) = if y > 1.0 { (2.0 - y, -1.0) } else { (y, 1.0) };
    // Hastings' formula for the normal distribution starts it, within 1e-3.
    let t = (-2.0 * (tail / 2.0).ln()).sqrt();
    let normal = t
        - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    let mut x = normal.max(0.0) / SQRT_2;
    for _ in 0..4 {
        let slope = FRAC_2_SQRT_PI * (-x * x).exp();
        // Near 1 the error function itself is more exact.
        let miss = if tail > 0.5 { (1.0 - tail) - libm::erf(x) } else { libm::erfc(x) - tail };
        let step = miss / slope;
        x += step / (1.0 + x * step);
    }
    sign * x
}

/// The number below which the share `p` of the normal distribution lies.
pub fn norm_cdf_inv(p: f64) -> f64 {
    0.0 - SQRT_2 * erfcinv(2.0 * p)
}

/// The exponent without bias.
pub fn exponent(x: f64) -> f64 {
    f64::from(libm::ilogb(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverses_are_inverse() {
        for y in [1e-40, 1e-20, 1e-3, 0.2, 0.5, 0.75, 0.999, 1.001, 1.5, 1.9999999] {
            let again = libm::erfc(erfcinv(y));
            assert!((again - y).abs() < 1e-13 * y, "{y:e} {again:e}");
        }
        assert!((norm_cdf_inv(0.975) - 1.959_963_984_540_054).abs() < 1e-14);
    }

    #[test]
    fn turns_are_exact() {
        assert_eq!([0.5, 1.5, 2.5, -0.5, 1.0, 1e300].map(sinpi), [1.0, -1.0, 1.0, -1.0, 0.0, 0.0]);
        assert!(sinpi(-3.0).is_sign_negative());
        assert_eq!([0.0, 1.0, 0.5, 2.0, -3.0].map(cospi), [1.0, -1.0, 0.0, 1.0, -1.0]);
        assert!(sinpi(f64::INFINITY).is_nan() && cospi(f64::NAN).is_nan());
    }

    #[test]
    fn tails_of_the_normal_distribution_are_exact() {
        // Of a computation with 50 digits.
        assert!((norm_cdf(-36.0) / 4.182_624_065_797_283e-284 - 1.0).abs() < 1e-14);
    }

    #[test]
    fn both_ways_of_the_scaled_complement_meet() {
        let [below, above] = [20.0f64.next_down(), 20.0].map(erfcx);
        assert!((below - above).abs() < 1e-13 * above, "{below:e} {above:e}");
    }
}
