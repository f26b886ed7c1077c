//! The expected values of a matrix multiplication, in f64.

use ferrowarp::matmul::Activation;

use crate::compare::Bound;
use crate::reference::{Number, Sum};

/// Tolerance for a sum of few terms, in roundings of the sum's magnitude.
const ROUNDINGS: f64 = 16.0;
/// Terms that may cost one more rounding: tensor cores may truncate addends.
const TERMS_A_ROUNDING: f64 = 8.0;
/// Half a unit in the last place of `f32`, relative.
const ROUNDING: f64 = f32::EPSILON as f64 / 2.0;

/// The epilogue of a sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ends {
    /// The factor of the sum.
    pub scale: f64,
    /// An addend.
    pub bias: f64,
    /// Another addend.
    pub residual: f64,
    /// The last operation.
    pub activation: Activation,
}

/// The expected result as an `O`, for a sum of `terms` with operands rounded by `operand_error`, relative to a product.
pub fn bound<O: Number>(terms: usize, sum: Sum, operand_error: f64, ends: Ends) -> Bound {
    let roundings = ROUNDINGS + terms as f64 / TERMS_A_ROUNDING;
    let magnitude = sum.magnitude * ends.scale.abs() + ends.bias.abs() + ends.residual.abs();
    let x = sum.value * ends.scale + ends.bias + ends.residual;
    let computed = (roundings * ROUNDING + operand_error) * magnitude;
    let floor = f64::from(f32::MIN_POSITIVE) * ends.scale.abs().max(1.0);
    // GeLU's slope is at most 1.13, and its exponential is off by less than 16 roundings.
    let (value, error) = match ends.activation {
        Activation::None => (x, computed),
        Activation::Relu => (if x < 0.0 { 0.0 } else { x }, computed),
        Activation::Gelu => (gelu(x), 1.13 * computed + 16.0 * ROUNDING * x.abs()),
    };
    if magnitude == 0.0 { Bound::exact(value) } else { Bound::rounded::<O>(value, error + floor) }
}

fn gelu(x: f64) -> f64 {
    if x == f64::NEG_INFINITY {
        return 0.0;
    }
    let u = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + u.tanh())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_that_does_not_fit_its_type_is_infinite() {
        use cuda_std::half::f16;
        let sum = Sum { value: 1e6, magnitude: 1e6 };
        let ends = Ends { scale: 1.0, ..Ends::default() };
        assert_eq!(bound::<f16>(1, sum, 0.0, ends), Bound::exact(f64::INFINITY));
        assert!(bound::<f32>(1, sum, 0.0, ends).allowed > 0.0);
    }

    #[test]
    fn gelu_has_its_known_values() {
        for (x, want) in
            [(0.0, 0.0), (1.0, 0.841_191_990_6), (-1.0, -0.158_808_009_4), (f64::NEG_INFINITY, 0.0)]
        {
            assert!((gelu(x) - want).abs() < 1e-9, "{x}: {}", gelu(x));
        }
    }
}
