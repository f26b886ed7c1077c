//! What the numbers are rounded to that a matrix product multiplies.

use std::fmt;

use clap::ValueEnum as _;
use gpu_kernels::mlp::operand::Operands;

/// To what the operands of the matrix products are rounded, each to its nearest number. Sums, the weights in memory and
/// everything else are `f32`, and so are the last layer's product with its input and the gradient there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Precision {
    /// To nothing: 24 bits
    #[default]
    F32,
    /// 11 bits, with the exponents of `f32`
    Tf32,
    /// 8 bits, with the exponents of `f32`
    Bf16,
    /// 11 bits, of numbers from 2^-14 to 65504; gradients are multiplied by a power of two before, and their sums divided by
    /// it
    F16,
}

impl Precision {
    /// What the command line calls it.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// What the kernels call it.
    pub(super) fn operands(self) -> Operands {
        match self {
            Precision::F32 => Operands::F32,
            Precision::Tf32 => Operands::Tf32,
            Precision::Bf16 => Operands::Bf16,
            Precision::F16 => Operands::F16,
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}
