//! The operands of matrix multiplications as kernels round them, computed in `f64`.

use gpu_kernels::mlp::operand::Operands;

use super::problem::Problem;

/// The nearest number of `bits` bits that is a multiple of 2^`least`.
fn nearest(x: f64, bits: i32, least: i32, ties_to_even: bool) -> f64 {
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i32 - 1023;
    let unit = f64::powi(2.0, (exponent + 1 - bits).max(least));
    let units = if ties_to_even { (x / unit).round_ties_even() } else { (x / unit).round() };
    units * unit
}

/// The numbers as operands, far below the largest of its type. Each is representable in `f32`.
fn rounded(numbers: &[f32], operands: Operands, is_gradient: bool) -> Vec<f32> {
    let scale = f64::from(operands.scale(is_gradient));
    let round = |x: f64| match operands {
        Operands::F32 => x,
        Operands::Tf32 => nearest(x, 11, -136, false),
        Operands::Bf16 => nearest(x, 8, -133, true),
        Operands::F16 => nearest(x, 11, -24, true),
    };
    numbers.iter().map(|&x| (round(f64::from(x) * scale) / scale) as f32).collect()
}

/// The problem with the rounded operands of the layer's output.
pub fn of_output(p: &Problem, operands: Operands) -> Problem {
    let [activations, weights] =
        [&p.activations, &p.weights].map(|numbers| rounded(numbers, operands, false));
    Problem { activations, weights, ..p.clone() }
}

/// The problem with the rounded operands of the gradient at the layer's input.
pub fn of_input_gradient(p: &Problem, operands: Operands) -> Problem {
    let (weights, d_out) = (rounded(&p.weights, operands, false), rounded(&p.d_out, operands, true));
    Problem { weights, d_out, ..p.clone() }
}

/// The problem with the rounded operands of the gradient of the layer's parameters.
pub fn of_update(p: &Problem, operands: Operands) -> Problem {
    let (activations, d_out) = (rounded(&p.activations, operands, false), rounded(&p.d_out, operands, true));
    Problem { activations, d_out, ..p.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_the_nearest_ones() {
        let unit = |bits: i32| f32::powi(2.0, 1 - bits);
        for (operands, bits, of_tie) in
            [(Operands::Tf32, 11, 1.0 + unit(11)), (Operands::Bf16, 8, 1.0), (Operands::F16, 11, 1.0)]
        {
            let half = unit(bits) / 2.0;
            let numbers = [0.0, -3.0, 1.0 + half, 1.0 + half * 1.25, 1.0 + half * 0.75, 1.0 + 3.0 * half];
            let want = [0.0, -3.0, of_tie, 1.0 + unit(bits), 1.0, 1.0 + 2.0 * unit(bits)];
            assert_eq!(rounded(&numbers, operands, false), want, "{operands:?}");
        }
        assert_eq!(rounded(&[0.1], Operands::F32, true), [0.1]);
    }

    #[test]
    fn small_gradients_are_kept_in_f16() {
        let small = f32::powi(2.0, -26);
        assert_eq!(rounded(&[small], Operands::F16, false), [0.0]);
        assert_eq!(rounded(&[small, 1.25 * small], Operands::F16, true), [small, 1.25 * small]);
    }
}
