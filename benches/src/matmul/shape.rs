//! What a timed multiplication computes.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use ferrowarp_cases::random::bench::{Activation, Operand, Operation};
use serde::Serialize;

use crate::shapes::dense;

/// A multiplication of `[m, k]` by `[k, n]`. In words: `MxNxK`, then what differs from a linear layer: `kn`, `mk` or `mn` for
/// how the operands are stored, `b8` for eight matrices, `bias`, `relu` or `gelu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Terms of a sum.
    pub k: usize,
    /// How A and B are stored.
    pub layout: Layout,
    /// Matrices.
    pub batch: usize,
    /// What follows the multiplication.
    pub ending: Ending,
}

/// How the operands are stored: the axis of A, then that of B, whose elements are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// A by rows, and B as its transpose, as in a linear layer.
    Kk,
    /// Both by rows.
    Kn,
    /// Both as transposes.
    Mk,
    /// A as its transpose, and B by rows.
    Mn,
}

impl Layout {
    /// Whether A and B are stored as transposes.
    fn are_transposed(self) -> [bool; 2] {
        [matches!(self, Layout::Mk | Layout::Mn), matches!(self, Layout::Kk | Layout::Mk)]
    }
}

/// What follows the multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// Nothing.
    Plain,
    /// A bias for each column.
    Bias,
    /// A bias, then ReLU.
    Relu,
    /// A bias, then GeLU.
    Gelu,
}

const LAYOUTS: [(&str, Layout); 3] = [("kn", Layout::Kn), ("mk", Layout::Mk), ("mn", Layout::Mn)];
const ENDINGS: [(&str, Ending); 3] = [("bias", Ending::Bias), ("relu", Ending::Relu), ("gelu", Ending::Gelu)];

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.m, self.n, self.k)?;
        let layout = LAYOUTS.iter().find(|(_, layout)| *layout == self.layout);
        layout.map_or(Ok(()), |(name, _)| write!(f, "x{name}"))?;
        if self.batch > 1 {
            write!(f, "xb{}", self.batch)?;
        }
        let ending = ENDINGS.iter().find(|(_, ending)| *ending == self.ending);
        ending.map_or(Ok(()), |(name, _)| write!(f, "x{name}"))
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(words: &str) -> anyhow::Result<Self> {
        let mut extents = Vec::new();
        let mut given = super::shape(0, 0, 0);
        for word in words.split('x') {
            let count = word.strip_prefix('b').and_then(|count| count.parse().ok());
            if let Ok(extent) = word.parse::<usize>() {
                extents.push(extent);
            } else if let Some(&(_, layout)) = LAYOUTS.iter().find(|(name, _)| *name == word) {
                given.layout = layout;
            } else if let Some(&(_, ending)) = ENDINGS.iter().find(|(name, _)| *name == word) {
                given.ending = ending;
            } else if let Some(count) = count {
                given.batch = count;
            } else {
                bail!("{words} is not a shape: what is {word}?");
            }
        }
        let extents = extents.try_into().ok();
        let [m, n, k] = extents.with_context(|| format!("{words} is not a shape; pass M N K"))?;
        Ok(Self { m, n, k, ..given })
    }
}

impl Shape {
    /// The multiplication of matrices without gaps.
    pub fn operation(self) -> Operation {
        let Self { m, n, k, layout, batch, ending } = self;
        let place = |[rows, cols]: [usize; 2]| dense([1, batch, rows, cols]);
        let [of_a, of_b] = layout.are_transposed();
        let operand = |[rows, cols]: [usize; 2], transposed| Operand {
            place: place(if transposed { [cols, rows] } else { [rows, cols] }),
            transposed,
        };
        let activation = match ending {
            Ending::Plain | Ending::Bias => Activation::None,
            Ending::Relu => Activation::Relu,
            Ending::Gelu => Activation::Gelu,
        };
        Operation::Matmul {
            a: operand([m, k], of_a),
            b: operand([k, n], of_b),
            out: place([m, n]),
            bias: ending != Ending::Plain,
            residual: None,
            activation,
        }
    }
}
