//! Rows that tests of a softmax run over.

pub use crate::reference::edge_rows;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

/// The largest relative error of a probability, except where one thread alone adds up a long row.
pub const RELATIVE: f64 = 2e-6;

/// Values in -8..8 with outliers, and rows that are hard on a softmax.
pub fn logits(rows: usize, cols: usize) -> Vec<f32> {
    let mut rng = StdRng::seed_from_u64((rows * 10_000 + cols) as u64);
    let mut logits: Vec<f32> = (0..rows * cols).map(|_| rng.random_range(-8.0..8.0)).collect();
    for (row, values) in logits.chunks_mut(cols).enumerate() {
        match row % 7 {
            1 => values.fill(3.5),
            2 => values.iter_mut().for_each(|x| *x += 1e4),
            3 => values.iter_mut().for_each(|x| *x = *x * 4.0 - 1e5),
            4 => values[cols - 1] = 90.0,
            5 => values.fill(f32::MIN),
            6 => values[..cols / 2].fill(f32::NEG_INFINITY),
            _ => {}
        }
    }
    logits
}
