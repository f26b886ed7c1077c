//! Errors in units in the last place.

/// A float type: the exponents of its smallest and largest normal numbers, and the bits of its fraction.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    least: i32,
    most: i32,
    fraction: i32,
}

/// `f32`.
pub const SINGLE: Format = Format { least: -126, most: 127, fraction: 23 };
/// `f64`.
pub const DOUBLE: Format = Format { least: -1022, most: 1023, fraction: 52 };

/// What a result must be apart from its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Not a number.
    Nan,
    /// Zero with the sign positive.
    Zero,
    /// Zero with the sign negative.
    NegativeZero,
    /// Anything else.
    Number,
}

/// The class of a result.
#[inline(always)]
pub fn class(x: f64) -> Class {
    if x.is_nan() {
        Class::Nan
    } else if x != 0.0 {
        Class::Number
    } else if x.to_bits() >> 63 == 0 {
        Class::Zero
    } else {
        Class::NegativeZero
    }
}

/// Zero with the number's sign instead of a number that is subnormal as `f32`.
#[inline(always)]
pub fn flushed(x: f64) -> f64 {
    if (if x < 0.0 { -x } else { x }) < f64::from(f32::MIN_POSITIVE) {
        if x.to_bits() >> 63 == 0 { 0.0 } else { -0.0 }
    } else {
        x
    }
}

/// Whether two results of different classes are a zero and a number of its sign: then the error says how far off it is.
#[inline(always)]
pub fn is_tiny(exact: f64, got: f64) -> bool {
    let is_zero = exact == 0.0 || got == 0.0;
    is_zero && (exact != 0.0 || got != 0.0) && (exact.to_bits() ^ got.to_bits()) >> 63 == 0
}

/// How far `got` is from `exact`, in units in the last place of `exact` in the format. Beyond the largest finite number the
/// unit is that number's, and infinity counts as one unit above it. The result is 0 if either is NaN.
#[inline(always)]
pub fn units(got: f64, exact: f64, format: Format) -> f64 {
    if got.is_nan() || exact.is_nan() || got == exact {
        return 0.0;
    }
    let exponent = ((exact.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let exponent = if exponent < format.least { format.least } else { exponent };
    let exponent = if exponent > format.most { format.most } else { exponent };
    // Scale first: then the difference cannot overflow, and the unit is not subnormal.
    let (a, b) = (scaled(got, exponent, format), scaled(exact, exponent, format));
    let difference = if a > b { a - b } else { b - a };
    difference * power(format.fraction)
}

/// `x` divided by 2 to the power `exponent`, with 2^(exponent of the largest + 1) in place of infinity.
#[inline(always)]
fn scaled(x: f64, exponent: i32, format: Format) -> f64 {
    if x.is_infinite() {
        return if x > 0.0 { 2.0 } else { -2.0 };
    }
    // In two steps, since the power alone may not be a normal number.
    let half = -exponent / 2;
    let y = x * power(half) * power(-exponent - half);
    // A finite `f64` may be beyond the largest `f32`, too.
    if exponent == format.most && y > 2.0 {
        2.0
    } else if exponent == format.most && y < -2.0 {
        -2.0
    } else {
        y
    }
}

#[inline(always)]
fn power(exponent: i32) -> f64 {
    f64::from_bits(((exponent + 1023) as u64) << 52)
}
