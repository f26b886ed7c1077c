//! Random problems of sizes that are worth timing, for `cargo bench random` and its peers.
//!
//! Half of the extents are those of well-known models, and the others are drawn evenly as logarithms.

mod draw;
mod models;
mod words;

use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
use serde::{Deserialize, Serialize};

use super::drawn::pick;
use super::layout::Size;
use crate::place::Place;
use draw::FAMILIES;

/// The type of the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Type {
    /// 16 bits with an 8-bit exponent.
    Bf16,
    /// 16 bits with a 5-bit exponent.
    F16,
    /// `f32`, with factors rounded to TF32.
    Tf32,
    /// `f32`; factors on a GPU as three products of TF32.
    F32,
}

impl Type {
    /// All types.
    pub const ALL: [Type; 4] = [Type::Bf16, Type::F16, Type::Tf32, Type::F32];
    /// The types of elements. Half of the problems have the first.
    const ELEMENTS: [Type; 4] = [Type::Bf16, Type::Bf16, Type::F16, Type::F32];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Type::Bf16 => "bf16",
            Type::F16 => "f16",
            Type::Tf32 => "tf32",
            Type::F32 => "f32",
        }
    }

    /// Bytes of an element.
    pub const fn bytes(self) -> usize {
        match self {
            Type::Bf16 | Type::F16 => 2,
            Type::Tf32 | Type::F32 => 4,
        }
    }
}

/// The result of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Reduction {
    /// The sum.
    Sum,
    /// The mean.
    Mean,
    /// The largest element.
    Max,
    /// The smallest element.
    Min,
}

/// What follows a matrix multiplication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Nothing.
    None,
    /// ReLU.
    Relu,
    /// GeLU, with the hyperbolic tangent.
    Gelu,
}

/// The corner at which a causal mask starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Causal {
    /// Query `i` sees the keys up to `i`.
    TopLeft,
    /// The last query sees all keys.
    BottomRight,
}

/// A matrix or a batch of them, `[outer, inner, rows, cols]` as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operand {
    /// Where it is.
    pub place: Place,
    /// Whether it is the transpose of what is multiplied.
    pub transposed: bool,
}

/// What is computed, from operands in these places. Matrices are the last two dimensions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the operands of the operations")]
pub enum Operation {
    Softmax { log: bool, inp: Place, out: Place },
    SoftmaxBackward { log: bool, y: Place, dy: Place, dx: Place },
    CrossEntropy { logits: Place, gradient: Option<Place> },
    TopK { k: usize, logits: Place },
    Sample { temperature: f32, top_k: Option<usize>, top_p: f32, logits: Place },
    Norm { centred: bool, inp: Place, out: Place, residual: Option<Place>, sum: Option<Place> },
    NormBackward { centred: bool, inp: Place, d_out: Place, d_inp: Place },
    Reduce { reduction: Reduction, rows: bool, inp: Place },
    CumulativeSum { inp: Place, out: Place },
    Transpose { inp: Place, out: Place },
    Matmul { a: Operand, b: Operand, out: Place, bias: bool, residual: Option<Place>, activation: Activation },
    Attention(Attention),
    AttentionBackward(Attention),
}

/// An attention: `[batch, length, heads, head size]`, K and V with pages `[pages, page size, key heads, head size]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attention {
    /// The queries and, stored alike, the result.
    pub q: Place,
    /// The keys and, stored alike, the values.
    pub k: Place,
    /// The mask.
    pub causal: Option<Causal>,
    /// The most keys that a query sees.
    pub window: Option<usize>,
    /// The keys of each batch entry.
    pub lengths: Option<Vec<u32>>,
    /// The most keys of an entry, in pages in any order.
    pub paged: Option<usize>,
}

/// A problem to time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Problem {
    /// One of [`families`].
    pub family: String,
    /// The type of the elements.
    pub dtype: Type,
    /// What is computed.
    #[serde(flatten)]
    pub operation: Operation,
}

/// The names of the families.
pub fn families() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, ..)| *name)
}

impl Problem {
    /// Draws the problem with this index of a seed; of one family, if it is given.
    ///
    /// # Panics
    /// There is no such family.
    pub fn new(seed: u64, index: u64, size: &Size, only: Option<&str>) -> Self {
        let mut rng = StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(index));
        let of = |name: &str| only.is_none_or(|only| only == name);
        let all = FAMILIES.iter().filter(|(name, ..)| of(name));
        let mut left = rng.random_range(0..all.clone().map(|(_, weight, ..)| weight).sum());
        let chosen = all.into_iter().find(|(_, weight, ..)| match left.checked_sub(*weight) {
            Some(less) => {
                left = less;
                false
            }
            None => true,
        });
        let (family, _, types, draw) = chosen.expect("the weights add up");
        let dtype = pick(&mut rng, types);
        Self { family: (*family).to_owned(), dtype, operation: draw(&mut rng, size, dtype) }
    }
}

impl Attention {
    /// Queries and, at most, keys.
    pub fn lengths(&self) -> [usize; 2] {
        [self.q.shape[1], self.paged.unwrap_or(self.k.shape[1])]
    }

    /// The keys of a batch entry.
    pub fn keys_of(&self, entry: usize) -> usize {
        self.lengths.as_ref().map_or(self.lengths()[1], |lengths| lengths[entry] as usize)
    }
}
