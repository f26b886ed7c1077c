//! The softmax in f64, and the tolerance of results.

use cuda_std::half::{bf16, f16};
use cuda_std::testing::Element;
use ferrowarp::Softmax;

use crate::compare::Bound;

/// Maximum relative error of a sum of exponentials, and so of a probability, if no thread sums a long row alone.
pub const RELATIVE: f64 = 2e-6;

/// [`RELATIVE`] if one thread sums a row of `cols` elements sequentially.
pub fn relative_one_after_the_other(cols: usize) -> f64 {
    RELATIVE.max(cols as f64 * f32::ROUNDING)
}

/// A number type of matrices.
pub trait Number: ferrowarp::Element + Element {
    /// The type's name in ids and tables.
    const NAME: &'static str;
    /// The largest finite number.
    const LARGEST: f32;
    /// The nearest number to `x`.
    fn nearest(x: f32) -> Self;
    /// The nearest number to `x`; finite if `x` is.
    fn nearest_finite(x: f32) -> Self {
        Self::nearest(if x.is_finite() { x.clamp(-Self::LARGEST, Self::LARGEST) } else { x })
    }
    /// The number itself.
    fn value(self) -> f32;
}

impl Number for f32 {
    const NAME: &'static str = "f32";
    const LARGEST: f32 = f32::MAX;
    fn nearest(x: f32) -> Self {
        x
    }
    fn value(self) -> f32 {
        self
    }
}

impl Number for f16 {
    const NAME: &'static str = "f16";
    const LARGEST: f32 = 65_504.0;
    fn nearest(x: f32) -> Self {
        // Miri does not support the processor's own instruction.
        if cfg!(miri) { f16::from_f32_const(x) } else { f16::from_f32(x) }
    }
    fn value(self) -> f32 {
        if cfg!(miri) { self.to_f32_const() } else { self.to_f32() }
    }
}

impl Number for bf16 {
    const NAME: &'static str = "bf16";
    const LARGEST: f32 = f32::from_bits(0x7f7f_0000);
    fn nearest(x: f32) -> Self {
        bf16::from_f32(x)
    }
    fn value(self) -> f32 {
        self.to_f32()
    }
}

/// Softmax along rows of `[rows, cols]`, with options.
pub fn softmax_with(inp: &[f32], cols: usize, options: &Softmax) -> Vec<f64> {
    let scale = f64::from(options.factor());
    let rows = inp.chunks(cols).flat_map(|row| {
        let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let exponents: Vec<f64> = row.iter().map(|&x| difference(x, max) * scale).collect();
        let sum: f64 = exponents.iter().map(|x| x.exp()).sum();
        let is_masked = options.zeroes_masked() && row.iter().all(|&x| x == f32::NEG_INFINITY);
        exponents.into_iter().map(move |x| match (is_masked, options.is_log()) {
            (true, true) => f64::NEG_INFINITY,
            (true, false) => 0.0,
            (false, true) => x - sum.ln(),
            (false, false) => x.exp() / sum,
        })
    });
    rows.collect()
}

/// The columns of a row, largest logit first, smaller columns first among equal ones. In order if the row's softmax is NaN.
pub fn largest(logits: &[f32]) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..logits.len()).collect();
    if logits.iter().all(|&x| x < f32::INFINITY) {
        columns.sort_by(|&a, &b| logits[b].partial_cmp(&logits[a]).expect("no NaN"));
    }
    columns
}

/// `x - max`; infinite if it overflows f32.
fn difference(x: f32, max: f32) -> f64 {
    if (x - max).is_infinite() { f64::from(x - max) } else { f64::from(x) - f64::from(max) }
}

/// The expected elements, of type `O`, of a softmax of `inp`, `[rows, cols]`. A sum of exponentials may be off by
/// `relative`.
pub fn softmax_bounds<O: Number>(inp: &[f32], cols: usize, options: &Softmax, relative: f64) -> Vec<Bound> {
    let want = softmax_with(inp, cols, options);
    let rows = inp.chunks(cols).zip(want.chunks(cols));
    let bounds = rows.flat_map(|(inp, want)| {
        let max = inp.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        inp.iter().zip(want).map(move |(&x, &want)| expected::<O>(want, x, max, options, relative))
    });
    bounds.collect()
}

/// The result `want` for an element `x`, with its tolerance.
fn expected<O: Number>(want: f64, x: f32, max: f32, options: &Softmax, relative: f64) -> Bound {
    let scale = f64::from(options.factor());
    let is_f32 = size_of::<O>() == size_of::<f32>();
    let difference = difference(x, max);
    let rounding = if is_exact_difference(x, max) { 0.0 } else { (difference * scale).abs() * f32::ROUNDING };
    let rounding = if rounding.is_finite() { rounding } else { 0.0 };
    if options.is_log() {
        // Four sums of terms of one sign, and the logarithm of a sum that is off by `relative`.
        let computed = relative + rounding + want.abs() * 8.0 * f32::ROUNDING;
        return Bound::rounded::<O>(want, computed);
    }
    // The exponent is rounded when it is multiplied: by the scale, and for 16 bits by log2(e).
    let is_exact = is_f32 && options.factor() == 1.0;
    let multiplied = if is_exact { 0.0 } else { (difference * scale).abs() * 2.0 * f32::ROUNDING };
    let computed = if want == 0.0 { 0.0 } else { (relative + rounding + multiplied) * want };
    // Half a subnormal step and the effect of its rounding; for 16 bits also numbers that become 0 before the rounding.
    let absolute = if is_f32 { 3e-45 } else { O::SMALLEST };
    let rounded = if is_f32 { 0.0 } else { O::ROUNDING * (computed + want) };
    Bound::near(want, computed + rounded + absolute)
}

/// Whether f32 represents the differences between `x`, `max` and all numbers between them exactly, as for neighbours of any
/// size: all are multiples of one power of two, and few enough for the digits of a number.
fn is_exact_difference(x: f32, max: f32) -> bool {
    let ulp = |x: f32| f64::from(x.abs().next_up()) - f64::from(x.abs());
    let steps = (f64::from(x) - f64::from(max)).abs() / ulp(x).min(ulp(max));
    x == max || x.is_sign_negative() == max.is_sign_negative() && steps <= 1.0 / f32::ROUNDING
}
