//! The type to which matrix multiplication operands are rounded.

use std::fmt;

use clap::ValueEnum as _;
use mlp_kernels::operand::Operands;

use crate::BatchSize;

/// The type to which operands of matrix multiplications are rounded, to nearest. Everything else is `f32`: accumulators, the
/// weights in memory, the logits, and the gradient at the input of the last layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Precision {
    /// No rounding: 24 bits
    #[default]
    F32,
    /// 11 bits, the exponent range of `f32`
    Tf32,
    /// 8 bits, the exponent range of `f32`
    Bf16,
    /// 11 bits, from 2^-14 to 65504; gradients are scaled by a power of two before rounding, and the results scaled back
    F16,
}

/// The precision and the batch size of a network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub precision: Precision,
    pub batch_size: BatchSize,
}

impl Precision {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The kernels' name for it.
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
