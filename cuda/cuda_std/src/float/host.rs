//! Exponentials for the CPU in plain arithmetic. A loop over an array becomes vector instructions, and the bits are the
//! same on every machine, independent of its C library.

use core::f64::consts::{LN_2, LOG2_E};

/// 1.5 * 2^52: added to a number below 2^51, it leaves the nearest integer in the sum's lowest bits.
const ROUND: f64 = 6_755_399_441_055_744.0;

/// Exponents are clamped to this: the result is then 0 or infinite as `f32`, and still normal as `f64`.
const MOST: f32 = 200.0;

/// e to the power `x`, within 0.503 units in the last place.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let x = f64::from(x.clamp(-MOST, MOST));
    let k = x * LOG2_E + ROUND;
    scaled(k, x - (k - ROUND) * LN_2)
}

/// 2 to the power `x`, within 0.503 units in the last place.
#[inline(always)]
pub(crate) fn exp2(x: f32) -> f32 {
    let x = f64::from(x.clamp(-MOST, MOST));
    let k = x + ROUND;
    scaled(k, (x - (k - ROUND)) * LN_2)
}

/// 2 to the power of the integer in the lowest bits of `k`, times e to the power `r`, where `|r|` is at most ln(2) / 2.
///
/// The polynomial is e to the power `r` within 2^-32, by interpolation at the Chebyshev nodes.
#[inline(always)]
fn scaled(k: f64, r: f64) -> f32 {
    let r2 = r * r;
    let c = 0.500_000_001_346_221_9 + r * 0.166_666_667_190_077_44;
    let d = 0.041_666_464_976_135_874 + r * 0.008_333_298_480_343_969;
    let e = 0.001_393_364_352_197_965_7 + r * 0.000_198_992_762_319_638_8;
    let power = f64::from_bits((k.to_bits() << 52).wrapping_add(1.0f64.to_bits()));
    (((1.0 + r) + r2 * (c + r2 * (d + r2 * e))) * power) as f32
}

/// The sine of pi times `x`: exact if the result is a whole number; a result of 0 has the sign of `x`.
pub(crate) fn sinpi(x: f64) -> f64 {
    let (quarter, angle) = quarters(x);
    let sine = match quarter {
        0 => angle.sin(),
        1 => angle.cos(),
        2 => -angle.sin(),
        _ => -angle.cos(),
    };
    if sine == 0.0 { 0f64.copysign(x) } else { sine }
}

/// The cosine of pi times `x`: exact if the result is a whole number; a result of 0 is positive.
pub(crate) fn cospi(x: f64) -> f64 {
    let (quarter, angle) = quarters(x);
    let cosine = match quarter {
        0 => angle.cos(),
        1 => -angle.sin(),
        2 => -angle.cos(),
        _ => angle.sin(),
    };
    if cosine == 0.0 { 0.0 } else { cosine }
}

/// Splits pi times `x` into a number of right angles, modulo 4, and a rest of at most an eighth of a turn. NaN stays NaN.
fn quarters(x: f64) -> (i32, f64) {
    let x = x % 2.0;
    let quarter = (2.0 * x).round();
    (quarter as i32 & 3, (x - quarter / 2.0) * core::f64::consts::PI)
}

/// The share of the normal distribution below `x`.
pub(crate) fn norm_cdf(x: f64) -> f64 {
    0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sines_and_cosines_of_quarter_turns_are_exact() {
        assert_eq!([0.0, 0.5, 1.0, 1.5, -0.5, 1e300].map(sinpi), [0.0, 1.0, 0.0, -1.0, -1.0, 0.0]);
        assert_eq!([0.0, 0.5, 1.0, 1.5, -5_501_311.5, 1e300].map(cospi), [1.0, 0.0, -1.0, 0.0, 0.0, 1.0]);
        assert!(sinpi(-3.0).is_sign_negative() && cospi(-1.5).is_sign_positive());
        assert!(sinpi(f64::INFINITY).is_nan() && cospi(f64::NAN).is_nan());
    }

    /// Units in the last place of `f32` between `got` and the exact `want`.
    fn error(got: f32, want: f64) -> f64 {
        if want.is_nan() || want >= 2f64.powi(128) || want == 0.0 {
            return if got.is_nan() == want.is_nan() && (want.is_nan() || f64::from(got) >= want.min(3.4e38)) {
                0.0
            } else {
                f64::INFINITY
            };
        }
        let exponent = ((want.to_bits() >> 52) as i32 - 1023).max(-126);
        (f64::from(got) - want).abs() / 2f64.powi(exponent - 23)
    }

    #[test]
    fn exponentials_are_as_near_as_those_of_a_c_library() {
        let step = if cfg!(miri) { 40_000_003 } else { 2003 };
        for x in (0..=u32::MAX).step_by(step).map(f32::from_bits) {
            let error = [error(exp(x), f64::from(x).exp()), error(exp2(x), f64::from(x).exp2())];
            assert!(error[0] < 0.503 && error[1] < 0.503, "{x:e}: {error:?}");
        }
    }

    #[test]
    fn the_ends_are_exact() {
        for f in [exp, exp2] {
            assert_eq!([0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY].map(f), [1.0, 1.0, f32::INFINITY, 0.0]);
            assert_eq!([f32::MAX, f32::MIN, 1e-30].map(f), [f32::INFINITY, 0.0, 1.0]);
            assert!(f(f32::NAN).is_nan());
        }
        assert_eq!(
            [-149.0, -126.0, 1.0, 127.0].map(exp2),
            [f32::from_bits(1), f32::MIN_POSITIVE, 2.0, 2f32.powi(127)]
        );
    }
}
