//! The matrices and their operations.

use ferrowarp::Reduction;

use crate::Scope;
use crate::scopes::{DEVICE, EMULATORS, LARGER, SMALL, TINY};

/// The values of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Values {
    /// Numbers between -1 and 1.
    Ordinary,
    /// Numbers around 100.
    Offset,
    /// 0.1: all roundings of a chain of additions go the same way.
    Equal,
    /// Pairs of large numbers with opposite signs and a small sum.
    Cancelling,
    /// Row and column 0 have a NaN, 1 an infinity, and 2 both infinities.
    Special,
}

/// A matrix and its operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Problem {
    pub scopes: &'static [Scope],
    pub shape: [usize; 2],
    /// Elements between the rows.
    pub gap: usize,
    /// The index in the buffer where the matrix starts.
    pub start: usize,
    pub values: Values,
    /// For reductions.
    pub operation: Reduction,
    pub is_of_rows: bool,
    /// Whether the results are `f32`.
    pub is_full: bool,
    /// Whether several blocks share a long row or column.
    pub is_split: bool,
}

pub(super) const ROWS: Problem = Problem {
    scopes: &[],
    shape: [1, 1],
    gap: 0,
    start: 0,
    values: Values::Ordinary,
    operation: Reduction::Sum,
    is_of_rows: true,
    is_full: false,
    is_split: false,
};
const COLUMNS: Problem = Problem { is_of_rows: false, ..ROWS };
/// For cumulative sums and transposes.
const MATRIX: Problem = ROWS;

/// Rows that end within a vector, a pass and a part. Columns that end within a vector and a block; rows in groups and parts.
pub(super) const REDUCTIONS: &[Problem] = &[
    Problem { scopes: TINY, shape: [3, 21], gap: 1, operation: Reduction::Mean, ..ROWS },
    Problem { scopes: TINY, shape: [5, 11], operation: Reduction::Max, values: Values::Special, ..COLUMNS },
    Problem { scopes: SMALL, shape: [5, 43], gap: 2, operation: Reduction::Mean, ..ROWS },
    Problem { scopes: SMALL, shape: [1, 20_001], is_split: true, ..ROWS },
    Problem { scopes: SMALL, shape: [9, 300], operation: Reduction::Min, values: Values::Special, ..ROWS },
    Problem { scopes: SMALL, shape: [50, 31], gap: 1, operation: Reduction::Max, ..COLUMNS },
    Problem {
        scopes: SMALL,
        shape: [20_001, 8],
        values: Values::Offset,
        is_full: true,
        is_split: true,
        ..COLUMNS
    },
    Problem { scopes: EMULATORS, shape: [3, 301], gap: 4, start: 1, ..ROWS },
    Problem { scopes: EMULATORS, shape: [2, 20_000], operation: Reduction::Max, is_split: true, ..ROWS },
    Problem { scopes: EMULATORS, shape: [37, 13], gap: 3, operation: Reduction::Min, ..COLUMNS },
    Problem { scopes: EMULATORS, shape: [200, 72], is_full: true, is_split: true, ..COLUMNS },
    Problem { scopes: LARGER, shape: [1, 1], operation: Reduction::Mean, ..ROWS },
    Problem { scopes: LARGER, shape: [300, 3], operation: Reduction::Max, ..ROWS },
    Problem { scopes: LARGER, shape: [7, 256], operation: Reduction::Mean, values: Values::Offset, ..ROWS },
    Problem { scopes: LARGER, shape: [6, 1000], gap: 5, start: 3, operation: Reduction::Max, ..ROWS },
    Problem { scopes: LARGER, shape: [5, 1023], gap: 1, values: Values::Special, ..ROWS },
    Problem { scopes: LARGER, shape: [5, 1023], start: 2, values: Values::Cancelling, is_full: true, ..ROWS },
    Problem { scopes: LARGER, shape: [33, 8200], values: Values::Cancelling, ..ROWS },
    Problem { scopes: LARGER, shape: [3, 40_001], operation: Reduction::Min, is_split: true, ..ROWS },
    Problem {
        scopes: LARGER,
        shape: [1, 1 << 20],
        values: Values::Equal,
        is_full: true,
        is_split: true,
        ..ROWS
    },
    Problem {
        scopes: LARGER,
        shape: [1 << 17, 8],
        values: Values::Equal,
        is_full: true,
        is_split: true,
        ..COLUMNS
    },
    Problem { scopes: LARGER, shape: [1, 1], ..COLUMNS },
    Problem {
        scopes: LARGER,
        shape: [1000, 8],
        operation: Reduction::Mean,
        values: Values::Offset,
        ..COLUMNS
    },
    Problem { scopes: LARGER, shape: [77, 1023], gap: 1, values: Values::Cancelling, ..COLUMNS },
    Problem { scopes: LARGER, shape: [40, 520], start: 1, operation: Reduction::Min, ..COLUMNS },
    Problem {
        scopes: LARGER,
        shape: [9, 4096],
        values: Values::Special,
        operation: Reduction::Max,
        ..COLUMNS
    },
    Problem { scopes: LARGER, shape: [9, 1000], values: Values::Special, ..COLUMNS },
    Problem { scopes: LARGER, shape: [20_000, 24], gap: 8, is_full: true, is_split: true, ..COLUMNS },
    Problem { scopes: DEVICE, shape: [1000, 768], operation: Reduction::Max, ..ROWS },
    Problem { scopes: DEVICE, shape: [4, 300_001], is_full: true, is_split: true, ..ROWS },
    Problem { scopes: DEVICE, shape: [1, 5_000_011], is_split: true, ..ROWS },
    Problem { scopes: DEVICE, shape: [5000, 515], is_full: true, is_split: true, ..COLUMNS },
    Problem { scopes: DEVICE, shape: [100_003, 6], operation: Reduction::Mean, is_split: true, ..COLUMNS },
];

/// Rows that end within a vector, a warp and a tile, with up to several tiles.
pub(super) const SCANS: &[Problem] = &[
    Problem { scopes: TINY, shape: [2, 9], ..MATRIX },
    Problem { scopes: SMALL, shape: [3, 43], gap: 2, ..MATRIX },
    Problem { scopes: SMALL, shape: [2, 8200], ..MATRIX },
    Problem { scopes: SMALL, shape: [1, 17_001], values: Values::Cancelling, ..MATRIX },
    Problem { scopes: EMULATORS, shape: [3, 601], gap: 3, ..MATRIX },
    Problem { scopes: EMULATORS, shape: [2, 520], gap: 8, ..MATRIX },
    Problem { scopes: EMULATORS, shape: [1, 17_000], ..MATRIX },
    Problem { scopes: LARGER, shape: [1, 1], ..MATRIX },
    Problem { scopes: LARGER, shape: [35, 64], ..MATRIX },
    Problem { scopes: LARGER, shape: [20, 513], gap: 3, start: 1, ..MATRIX },
    Problem { scopes: LARGER, shape: [5, 8192], values: Values::Cancelling, ..MATRIX },
    Problem { scopes: LARGER, shape: [4, 1000], values: Values::Special, ..MATRIX },
    Problem { scopes: LARGER, shape: [3, 20_000], values: Values::Special, ..MATRIX },
    Problem { scopes: LARGER, shape: [2, 30_001], gap: 7, values: Values::Offset, ..MATRIX },
    Problem { scopes: LARGER, shape: [1, 70_000], ..MATRIX },
    Problem { scopes: DEVICE, shape: [1000, 4096], ..MATRIX },
    Problem { scopes: DEVICE, shape: [7, 300_000], gap: 16, ..MATRIX },
    Problem { scopes: DEVICE, shape: [1, 6_000_003], ..MATRIX },
];

/// Full and partial tiles; aligned and unaligned rows.
pub(super) const TRANSPOSES: &[Problem] = &[
    Problem { scopes: TINY, shape: [5, 3], gap: 1, ..MATRIX },
    Problem { scopes: SMALL, shape: [130, 136], gap: 8, ..MATRIX },
    Problem { scopes: SMALL, shape: [7, 65], gap: 3, ..MATRIX },
    Problem { scopes: EMULATORS, shape: [128, 264], ..MATRIX },
    Problem { scopes: EMULATORS, shape: [67, 33], gap: 1, ..MATRIX },
    Problem { scopes: LARGER, shape: [1, 1], ..MATRIX },
    Problem { scopes: LARGER, shape: [256, 384], gap: 8, ..MATRIX },
    Problem { scopes: LARGER, shape: [264, 200], ..MATRIX },
    Problem { scopes: LARGER, shape: [131, 257], start: 1, ..MATRIX },
    Problem { scopes: LARGER, shape: [1, 1000], gap: 5, ..MATRIX },
    Problem { scopes: LARGER, shape: [777, 2], ..MATRIX },
    Problem { scopes: DEVICE, shape: [2048, 1280], gap: 64, ..MATRIX },
    Problem { scopes: DEVICE, shape: [3001, 2003], ..MATRIX },
];
