//! Operands that come from elsewhere, for the oracle alone.

use ferrowarp::Element;

use super::{Operands, PLAIN, Problem};
use crate::reference::Number;

impl<T: Number + Element> Operands<T> {
    /// Matrices without gaps, and epsilon: input, residual, weight, bias, and the gradients of output and sum.
    pub fn dense(
        shape: [usize; 2],
        (is_centred, epsilon): (bool, f32),
        [inp, residual, weight, bias, d_out, d_sum]: [Vec<T>; 6],
    ) -> Self {
        let problem = Problem { shape, is_centred, has_all: true, ..PLAIN };
        let (mean, rstd) = Default::default();
        Self { problem, epsilon, inp, residual, weight, bias, d_out, d_sum, mean, rstd }.with_statistics()
    }
}
