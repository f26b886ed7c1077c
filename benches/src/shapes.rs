//! The matrices that are timed. `benches/peers/softmax.py` holds the same table.

use std::fmt;

/// A matrix that a softmax runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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

/// Widths at 4096 rows, as in the well-known charts.
const WIDTHS: [usize; 30] = [
    256, 384, 512, 640, 768, 1024, 1280, 1536, 2048, 2560, 3072, 3584, 4096, 4608, 5120, 5632, 6144, 6656,
    7168, 7680, 8192, 8704, 9216, 9728, 10_240, 10_752, 11_264, 11_776, 12_288, 12_672,
];

/// Larger matrices, from many short rows to few long ones, and widths that are no multiple of a vector.
const OTHERS: [Shape; 13] = [
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
];

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

/// Shapes for the CPU, whose figures say nothing about a GPU: the last is one of a user's, which NumPy is timed at too.
const CPU: [Shape; 4] =
    [Shape::new(64, 10), Shape::new(64, 100), Shape::new(16, 333), Shape::new(4096, 1024)];

/// How many of the shapes a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// One of each kind.
    Few,
    /// All of them.
    All,
}

/// The shapes for a GPU.
pub fn gpu(extent: Extent) -> Vec<Shape> {
    match extent {
        Extent::Few => FEW.to_vec(),
        Extent::All => WIDTHS.iter().map(|&cols| Shape::new(4096, cols)).chain(OTHERS).collect(),
    }
}

/// The shapes for the CPU.
pub fn cpu() -> Vec<Shape> {
    CPU.to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shapes that the peers' script prints, which must be ours.
    #[test]
    fn the_peers_have_the_same_shapes() {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/softmax.py");
        for (extent, name) in [(Extent::Few, "few"), (Extent::All, "all")] {
            let listed = std::process::Command::new("python3").args([script, "--list-shapes", name]).output();
            let Ok(output) = listed else { return };
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let ours: String = gpu(extent).iter().map(|shape| format!("{shape}\n")).collect();
            assert_eq!(String::from_utf8_lossy(&output.stdout), ours);
        }
    }
}
