//! The timed matrices. `benches/peers/softmax.py` holds the same table.

use std::fmt;
use std::str::FromStr;

use anyhow::Context as _;
use ferrowarp_cases::place::Place;
use serde::Serialize;

/// A matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Shape {
    /// Independent rows.
    pub rows: usize,
    /// Elements of a row.
    pub cols: usize,
}

impl Shape {
    const fn new(rows: usize, cols: usize) -> Self {
        Self { rows, cols }
    }

    /// The matrix of 4-byte elements with as many bytes as this one with 2-byte elements.
    pub fn halved(self) -> Self {
        let Self { rows, cols } = self;
        match (cols % 2, rows % 2) {
            (1, 0) => Self::new(rows / 2, cols),
            _ => Self::new(rows, cols.div_ceil(2)),
        }
    }

    /// Elements of the matrix.
    pub fn len(self) -> usize {
        self.rows * self.cols
    }

    /// Whether it has no elements.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.rows, self.cols)
    }
}

impl FromStr for Shape {
    type Err = anyhow::Error;

    fn from_str(words: &str) -> anyhow::Result<Self> {
        let [rows, cols] =
            extents(words).with_context(|| format!("{words} is not a shape; pass ROWSxCOLS"))?;
        Ok(Self { rows, cols })
    }
}

/// The extents of a shape such as `4096x768`.
pub fn extents<const N: usize>(words: &str) -> Option<[usize; N]> {
    words.split('x').map(|word| word.parse().ok()).collect::<Option<Vec<_>>>()?.try_into().ok()
}

/// A tensor without gaps.
pub fn dense(shape @ [a, b, c, d]: [usize; 4]) -> Place {
    Place { shape, first: 0, strides: [b * c * d, c * d, d], len: a * b * c * d }
}

/// Widths at 4096 rows, as in the well-known charts.
const WIDTHS: [usize; 30] = [
    256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 5632, 6144, 6656,
    7168, 7680, 8192, 8704, 9216, 9728, 10_240, 10_752, 11_264, 11_776, 12_288, 12_672,
];

/// Larger matrices, from many short rows to few long ones, widths that are not a multiple of a vector, and narrow rows.
const OTHERS: [Shape; 16] = [
    Shape::new(131_072, 128),
    Shape::new(131_072, 1024),
    Shape::new(32_768, 4096),
    Shape::new(8192, 16_384),
    Shape::new(8192, 32_768),
    Shape::new(4096, 65_536),
    Shape::new(2048, 131_072),
    Shape::new(512, 262_144),
    Shape::new(4096, 333),
    Shape::new(4096, 2047),
    Shape::new(4096, 4097),
    Shape::new(4096, 12_673),
    Shape::new(8, 1_048_576),
    Shape::new(131_072, 32),
    Shape::new(131_072, 64),
    Shape::new(1_048_576, 16),
];

/// The next token's logits, for 1 to 64 sequences, with the vocabularies of Llama 2, GPT-2, Llama 3 and Gemma.
const DECODE: [Shape; 12] = {
    let (widths, rows) = ([32_000, 50_257, 128_256, 262_144], [1, 8, 64]);
    let mut shapes = [Shape::new(0, 0); 12];
    let mut i = 0;
    while i < shapes.len() {
        shapes[i] = Shape::new(rows[i % 3], widths[i / 3]);
        i += 1;
    }
    shapes
};

/// One of each kind, for a quick look.
const FEW: [Shape; 8] = [
    Shape::new(4096, 256),
    Shape::new(4096, 1024),
    Shape::new(4096, 4096),
    Shape::new(4096, 12_672),
    Shape::new(4096, 2047),
    Shape::new(131_072, 1024),
    Shape::new(8192, 32_768),
    Shape::new(2048, 131_072),
];

/// Shapes for the CPU, whose figures do not apply to a GPU. The last is a typical user's; NumPy is timed at it, too.
const CPU: [Shape; 4] =
    [Shape::new(64, 10), Shape::new(64, 100), Shape::new(16, 333), Shape::new(4096, 1024)];

/// The widths that still show every bend of the curves.
const SOME_WIDTHS: [usize; 14] =
    [256, 384, 512, 768, 1024, 1280, 1536, 2048, 3072, 4096, 6144, 8192, 10_240, 12_672];

/// The selection of shapes for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One of each kind.
    Few,
    /// All shapes except half of the widths, in two thirds of the time.
    Some,
    /// All shapes.
    All,
}

/// The shapes for a GPU.
pub fn gpu(extent: Extent) -> Vec<Shape> {
    match extent {
        Extent::Few => FEW.to_vec(),
        Extent::Some => with_widths(&SOME_WIDTHS),
        Extent::All => with_widths(&WIDTHS),
    }
}

fn with_widths(widths: &[usize]) -> Vec<Shape> {
    widths.iter().map(|&cols| Shape::new(4096, cols)).chain(OTHERS).chain(DECODE).collect()
}

/// Whether it holds the next token's logits. The ladder is not timed there: its lower rungs are for many rows.
pub fn is_decode(shape: Shape) -> bool {
    DECODE.contains(&shape)
}

/// The shapes for a GPU at which operations other than softmax are timed.
pub fn of_operations() -> Vec<Shape> {
    FEW.into_iter().chain(DECODE).collect()
}

/// The shapes for the CPU.
pub fn cpu() -> Vec<Shape> {
    CPU.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contest::tests::assert_shapes_of_peers;

    #[test]
    fn the_peers_have_the_same_shapes() {
        let tables = [
            ("few", gpu(Extent::Few)),
            ("some", gpu(Extent::Some)),
            ("all", gpu(Extent::All)),
            ("operations", of_operations()),
        ];
        for (name, shapes) in tables {
            let ours = shapes.iter().map(Shape::to_string);
            assert_shapes_of_peers("softmax.py", &["--list-shapes", name], ours);
        }
    }

    #[test]
    fn the_half_of_a_matrix_has_half_its_elements() {
        for shape in gpu(Extent::All) {
            assert_eq!(shape.halved().len(), shape.len().div_ceil(2), "{shape}");
            assert!(shape.halved().rows >= shape.rows / 2, "{shape}");
        }
    }
}
