//! The shapes of timed attention.

use std::fmt;
use std::str::FromStr;

use anyhow::Context as _;
use ferrowarp_cases::random::bench::{Attention, Causal};
use serde::Serialize;

use crate::random::attention::Inputs;
use crate::shapes::{dense, extents};

/// An attention problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Entries of the batch.
    pub batch: usize,
    /// Queries of each head: one for each key, or the last ones.
    pub queries: usize,
    /// Keys of each head.
    pub length: usize,
    /// Heads of Q.
    pub heads: usize,
    /// Heads of K and V.
    pub key_heads: usize,
    /// Elements of a row.
    pub head_size: usize,
    /// Whether a query sees only the keys up to its own position.
    pub causal: bool,
    /// With a sliding window, the maximum number of keys that it then sees.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<usize>,
    /// Whether the gradients are computed, from the result of the forward pass.
    pub backward: bool,
    /// The contents of the tensors.
    pub inputs: Inputs,
}

const HARD: [(Inputs, &str); 2] = [(Inputs::Large, "-large"), (Inputs::Dominant, "-dominant")];

impl Shape {
    /// Operations of the two multiplications, or of five for the gradients; half of them with a causal mask, those in the
    /// window with a sliding window.
    pub fn operations(&self) -> f64 {
        let (length, products) = (self.length as f64, if self.backward { 5.0 } else { 2.0 });
        let elements = (self.batch * self.queries * self.heads * self.head_size) as f64;
        let window = self.window.map_or(length, |window| window as f64);
        let keys = if self.causal { window - window * window / length / 2.0 } else { length };
        2.0 * products * elements * keys
    }

    /// The operation on tensors without gaps.
    pub fn operation(&self) -> Attention {
        let &Self { batch, queries, length, heads, key_heads, head_size, causal, window, .. } = self;
        Attention {
            q: dense([batch, queries, heads, head_size]),
            k: dense([batch, length, key_heads, head_size]),
            causal: causal.then_some(Causal::TopLeft),
            window,
            lengths: None,
            paged: None,
        }
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    /// Parses a shape such as `8x4096x16x16x128`, `8x4096x16x4x128-causal`, with one query `8x4096x16x4x128-1q`, with a
    /// window of 1024 keys `1x16384x16x16x128-window1024`, for gradients `8x4096x16x4x128-causal-backward`, with other
    /// inputs `8x4096x16x16x128-large`.
    fn from_str(words: &str) -> anyhow::Result<Self> {
        let hard = HARD.iter().find_map(|(inputs, suffix)| Some((words.strip_suffix(suffix)?, *inputs)));
        let (front, inputs) = hard.unwrap_or((words, Inputs::Normal));
        let (front, backward) = front.strip_suffix("-backward").map_or((front, false), |front| (front, true));
        let (of_extents, end) = front.split_once('-').unwrap_or((front, ""));
        let window = end.strip_prefix("window").and_then(|window| window.parse().ok());
        let causal = end == "causal" || window.is_some();
        let queries = end.strip_suffix('q').and_then(|queries| queries.parse().ok());
        let extents = extents(of_extents).filter(|_| end.is_empty() || causal || queries.is_some());
        let [batch, length, heads, key_heads, head_size] = extents.with_context(|| {
            format!(
                "{words} is not a shape; pass BATCHxLENGTHxHEADSxKEY_HEADSxHEAD_SIZE, and -causal, -windowKEYS, -QUERIESq, \
                 -backward, -large or -dominant after it"
            )
        })?;
        let queries = queries.unwrap_or(length);
        Ok(Self { batch, queries, length, heads, key_heads, head_size, causal, window, backward, inputs })
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { batch, queries, length, heads, key_heads, head_size, causal, window, backward, inputs } =
            self;
        write!(f, "{batch}x{length}x{heads}x{key_heads}x{head_size}")?;
        match (causal, queries == length) {
            (true, _) => match window {
                Some(window) => write!(f, "-window{window}")?,
                None => f.write_str("-causal")?,
            },
            (false, false) => write!(f, "-{queries}q")?,
            (false, true) => {}
        }
        f.write_str(if *backward { "-backward" } else { "" })?;
        f.write_str(HARD.iter().find(|(hard, _)| hard == inputs).map_or("", |(_, suffix)| suffix))
    }
}

const fn shape(batch: usize, length: usize, heads: [usize; 2], head_size: usize, causal: bool) -> Shape {
    let [heads, key_heads] = heads;
    let (queries, window, backward, inputs) = (length, None, false, Inputs::Normal);
    Shape { batch, queries, length, heads, key_heads, head_size, causal, window, backward, inputs }
}

const fn backward(batch: usize, length: usize, heads: [usize; 2], head_size: usize, causal: bool) -> Shape {
    Shape { backward: true, ..shape(batch, length, heads, head_size, causal) }
}

const fn decode(batch: usize, length: usize, heads: [usize; 2], head_size: usize, queries: usize) -> Shape {
    Shape { queries, ..shape(batch, length, heads, head_size, false) }
}

/// The shapes for a GPU: 16384 tokens in sequences of 512 to 16384, odd lengths, and few queries with many keys.
pub const SHAPES: [Shape; 68] = [
    shape(32, 512, [16, 16], 128, false),
    shape(16, 1024, [16, 16], 128, false),
    shape(8, 2048, [16, 16], 128, false),
    shape(4, 4096, [16, 16], 128, false),
    shape(2, 8192, [16, 16], 128, false),
    shape(1, 16384, [16, 16], 128, false),
    shape(32, 512, [16, 16], 128, true),
    shape(16, 1024, [16, 16], 128, true),
    shape(8, 2048, [16, 16], 128, true),
    shape(4, 4096, [16, 16], 128, true),
    shape(2, 8192, [16, 16], 128, true),
    shape(1, 16384, [16, 16], 128, true),
    shape(16, 1024, [32, 32], 64, false),
    shape(4, 4096, [32, 32], 64, false),
    shape(1, 16384, [32, 32], 64, false),
    shape(16, 1024, [32, 32], 64, true),
    shape(4, 4096, [32, 32], 64, true),
    shape(1, 16384, [32, 32], 64, true),
    // The heads of models with 8 and 70 billion parameters.
    shape(4, 4096, [32, 8], 128, true),
    shape(1, 8192, [64, 8], 128, false),
    shape(1, 8192, [64, 8], 128, true),
    shape(1, 32768, [64, 8], 128, true),
    // Not divisible by any tile.
    shape(4, 1000, [16, 16], 128, false),
    shape(3, 4097, [16, 16], 128, true),
    shape(1, 77, [12, 12], 64, true),
    shape(8, 197, [12, 12], 64, false),
    // Other head sizes.
    shape(8, 2048, [16, 16], 80, false),
    shape(8, 2048, [16, 16], 80, true),
    shape(8, 2048, [16, 16], 96, false),
    shape(8, 2048, [16, 16], 96, true),
    shape(8, 2048, [16, 16], 192, false),
    shape(8, 2048, [16, 16], 192, true),
    shape(8, 2048, [16, 16], 256, false),
    shape(8, 2048, [16, 16], 256, true),
    // Decoding.
    decode(1, 8192, [32, 8], 128, 1),
    decode(1, 131_072, [32, 8], 128, 1),
    decode(16, 8192, [32, 8], 128, 1),
    decode(64, 4096, [32, 8], 128, 1),
    decode(8, 8192, [32, 32], 128, 1),
    decode(4, 32_768, [16, 1], 128, 1),
    decode(16, 8192, [32, 8], 64, 1),
    decode(16, 8192, [32, 8], 96, 1),
    decode(16, 8192, [32, 8], 192, 1),
    decode(16, 8192, [16, 8], 256, 1),
    decode(16, 8192, [32, 8], 128, 4),
    decode(16, 8192, [16, 16], 128, 16),
    // Gradients.
    backward(32, 512, [16, 16], 128, false),
    backward(8, 2048, [16, 16], 128, false),
    backward(4, 4096, [16, 16], 128, false),
    backward(1, 16384, [16, 16], 128, false),
    backward(32, 512, [16, 16], 128, true),
    backward(8, 2048, [16, 16], 128, true),
    backward(4, 4096, [16, 16], 128, true),
    backward(1, 16384, [16, 16], 128, true),
    backward(16, 1024, [32, 32], 64, false),
    backward(4, 4096, [32, 32], 64, false),
    backward(16, 1024, [32, 32], 64, true),
    backward(4, 4096, [32, 32], 64, true),
    // No N x N matrix fits: 16 heads of 131072 x 131072 numbers are 512 GiB.
    shape(1, 131_072, [16, 16], 128, true),
    backward(1, 131_072, [16, 16], 128, true),
    // Sliding windows.
    Shape { window: Some(1024), ..shape(1, 16384, [16, 16], 128, true) },
    Shape { window: Some(4096), ..shape(1, 32768, [32, 8], 128, true) },
    Shape { window: Some(128), ..shape(1, 16384, [64, 8], 64, true) },
    // Hard inputs, to measure errors.
    Shape { inputs: Inputs::Large, ..shape(4, 4096, [16, 16], 128, false) },
    Shape { inputs: Inputs::Large, ..backward(4, 4096, [16, 16], 128, false) },
    Shape { inputs: Inputs::Dominant, ..shape(4, 4096, [16, 16], 128, true) },
    Shape { inputs: Inputs::Dominant, ..backward(4, 4096, [16, 16], 128, true) },
    Shape { inputs: Inputs::Large, ..shape(16, 1024, [32, 32], 64, true) },
];

/// The shape of the ladder's rungs.
pub const RUNG_SHAPE: Shape = shape(4, 4096, [16, 16], 128, false);

/// The shapes for the CPU.
pub const CPU_SHAPES: [Shape; 8] = [
    Shape { window: Some(40), ..shape(1, 128, [4, 2], 64, true) },
    Shape { window: Some(40), ..backward(1, 128, [4, 2], 64, true) },
    shape(1, 128, [4, 4], 64, false),
    shape(1, 512, [4, 2], 64, true),
    shape(1, 512, [2, 2], 128, false),
    backward(1, 128, [4, 2], 64, true),
    Shape { inputs: Inputs::Large, ..shape(1, 128, [2, 2], 64, false) },
    Shape { inputs: Inputs::Dominant, ..backward(1, 128, [2, 2], 64, true) },
];
