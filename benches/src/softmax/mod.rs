//! Timed operations on the rows of a matrix.

mod bench;

use ferrowarp_cases::place::Place;
use ferrowarp_cases::random::bench::Operation;
use serde::{Serialize, Serializer};

use crate::shapes::Shape;
pub use bench::Bench;

/// The temperature of [`Op::Sample`].
const TEMPERATURE: f32 = 0.8;
/// The probability that [`Op::SampleTopP`] keeps.
const TOP_P: f32 = 0.9;
/// Elements that [`Op::TopK`] selects; the first has the plain name `top_k`.
pub const SELECTED: [usize; 2] = [64, 8];

/// The operation on each row of a matrix `inp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `out = exp(inp) / sum(exp(inp))`.
    Softmax,
    /// `out = inp - ln(sum(exp(inp)))`.
    LogSoftmax,
    /// With a softmax `y` and the gradient `dy` at it: `dx = y * (dy - sum(y * dy))`.
    Backward,
    /// With a class per row: the loss of each row, and the gradient of their mean at the logits.
    CrossEntropy,
    /// The `k` largest probabilities of the softmax of `inp`, and their columns: one of [`SELECTED`].
    TopK(usize),
    /// Draws a token from `inp` at a temperature of 0.8.
    Sample,
    /// Same as `Sample`, from the most probable tokens that sum up to 0.9.
    SampleTopP,
    /// `out = inp`: the baseline of the other operations.
    Copy,
}

impl Op {
    /// All operations that users call.
    const CALLED: [Op; 8] = [
        Op::Softmax,
        Op::LogSoftmax,
        Op::Backward,
        Op::CrossEntropy,
        Op::Sample,
        Op::SampleTopP,
        Op::TopK(SELECTED[0]),
        Op::TopK(SELECTED[1]),
    ];

    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Op::Softmax => "softmax",
            Op::LogSoftmax => "log_softmax",
            Op::Backward => "backward",
            Op::CrossEntropy => "cross_entropy",
            Op::TopK(8) => "top_k_8",
            Op::TopK(_) => "top_k",
            Op::Sample => "sample",
            Op::SampleTopP => "sample_top_p",
            Op::Copy => "copy",
        }
    }

    /// Matrices that must be read or written at least once.
    pub fn matrices(self) -> usize {
        match self {
            Op::Backward => 3,
            Op::TopK(_) | Op::Sample | Op::SampleTopP => 1,
            Op::Softmax | Op::LogSoftmax | Op::CrossEntropy | Op::Copy => 2,
        }
    }

    /// The operation on a matrix of this shape without gaps; for a copy, a softmax with the same operands.
    pub fn operation(self, Shape { rows, cols }: Shape) -> Operation {
        let place = || Place::matrix([rows, cols], 0, 0);
        let sample =
            |top_p| Operation::Sample { temperature: TEMPERATURE, top_k: None, top_p, logits: place() };
        match self {
            Op::Softmax | Op::LogSoftmax | Op::Copy => {
                Operation::Softmax { log: self == Op::LogSoftmax, inp: place(), out: place() }
            }
            Op::Backward => Operation::SoftmaxBackward { log: false, y: place(), dy: place(), dx: place() },
            Op::CrossEntropy => Operation::CrossEntropy { logits: place(), gradient: Some(place()) },
            Op::TopK(k) => Operation::TopK { k, logits: place() },
            Op::Sample => sample(1.0),
            Op::SampleTopP => sample(TOP_P),
        }
    }
}

impl Serialize for Op {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
