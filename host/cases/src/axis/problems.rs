//! The matrices and their operations.

use ferrowarp::{Reduce, Reduction};

use crate::scopes::{DEVICE, EMULATORS, LARGER, SMALL, Scope, TINY, setters};
use Reduction::{Max, Mean, Min};
use Values::{Cancelling, Equal, Offset, Special};

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
    /// How much later the output starts in its buffer, for scans and transposes.
    pub later: usize,
    pub values: Values,
    /// For reductions.
    pub operation: Reduction,
    pub is_of_rows: bool,
    /// Whether the results are `f32`.
    pub is_full: bool,
    /// Whether several blocks share a long row or column.
    pub is_split: bool,
}

impl Problem {
    /// Its reduction.
    pub fn reduce(&self) -> Reduce {
        if self.is_of_rows { Reduce::rows(self.operation) } else { Reduce::columns(self.operation) }
    }

    /// Whether the matrix and its transpose have whole, aligned vectors.
    pub fn is_aligned<T>(&self) -> bool {
        let Self { shape: [rows, cols], gap, start, later, .. } = *self;
        [rows, cols, gap, start, start + later].iter().all(|len| len.is_multiple_of(16 / size_of::<T>()))
    }
}

pub(super) const ROWS: Problem = Problem {
    scopes: &[],
    shape: [1, 1],
    gap: 0,
    start: 0,
    later: 0,
    values: Values::Ordinary,
    operation: Reduction::Sum,
    is_of_rows: true,
    is_full: false,
    is_split: false,
};

/// A matrix for the reduction of its rows, or for another operation.
const fn rows(scopes: &'static [Scope], shape: [usize; 2]) -> Problem {
    Problem { scopes, shape, ..ROWS }
}

/// A matrix for the reduction of its columns.
const fn columns(scopes: &'static [Scope], shape: [usize; 2]) -> Problem {
    Problem { is_of_rows: false, ..rows(scopes, shape) }
}

setters! {
    Problem;
    gap(gap: usize): gap = gap;
    start(start: usize): start = start;
    later(later: usize): later = later;
    values(values: Values): values = values;
    operation(operation: Reduction): operation = operation;
    full(): is_full = true;
    split(): is_split = true;
}

/// Rows that end within a vector, a pass and a part. Columns that end within a vector and a block; rows in groups and parts.
pub(super) const REDUCTIONS: &[Problem] = &[
    rows(TINY, [3, 21]).gap(1).operation(Mean),
    columns(TINY, [5, 11]).operation(Max).values(Special),
    rows(SMALL, [5, 43]).gap(2).operation(Mean),
    rows(SMALL, [1, 20_001]).split(),
    rows(SMALL, [9, 300]).operation(Min).values(Special),
    columns(SMALL, [50, 31]).gap(1).operation(Max),
    columns(SMALL, [20_001, 8]).values(Offset).full().split(),
    columns(SMALL, [2, 4001]).gap(1).operation(Mean),
    rows(EMULATORS, [3, 301]).gap(4).start(1),
    rows(EMULATORS, [2, 20_000]).operation(Max).split(),
    columns(EMULATORS, [37, 13]).gap(3).operation(Min),
    columns(EMULATORS, [200, 72]).full().split(),
    rows(LARGER, [1, 1]).operation(Mean),
    rows(LARGER, [300, 3]).operation(Max),
    rows(LARGER, [7, 256]).operation(Mean).values(Offset),
    rows(LARGER, [6, 1000]).gap(5).start(3).operation(Max),
    rows(LARGER, [5, 1023]).gap(1).values(Special),
    rows(LARGER, [5, 1023]).start(2).values(Cancelling).full(),
    rows(LARGER, [33, 8200]).values(Cancelling),
    rows(LARGER, [3, 40_001]).operation(Min).split(),
    rows(LARGER, [1, 1 << 20]).values(Equal).full().split(),
    columns(LARGER, [1 << 17, 8]).values(Equal).full().split(),
    columns(LARGER, [1, 1]),
    columns(LARGER, [1000, 8]).operation(Mean).values(Offset),
    columns(LARGER, [77, 1023]).gap(1).values(Cancelling),
    columns(LARGER, [40, 520]).start(1).operation(Min),
    columns(LARGER, [1, 70_001]).start(3),
    columns(LARGER, [3, 40_000]).full(),
    columns(LARGER, [6, 30_011]).gap(2).values(Special),
    columns(LARGER, [9, 4096]).values(Special).operation(Max),
    columns(LARGER, [9, 1000]).values(Special),
    columns(LARGER, [20_000, 24]).gap(8).full().split(),
    rows(DEVICE, [1000, 768]).operation(Max),
    rows(DEVICE, [4, 300_001]).full().split(),
    rows(DEVICE, [1, 5_000_011]).split(),
    columns(DEVICE, [5000, 515]).full().split(),
    columns(DEVICE, [100_003, 6]).operation(Mean).split(),
    columns(DEVICE, [1, 3_000_001]),
    columns(DEVICE, [7, 500_009]).operation(Max),
];

/// Rows that end within a vector, a warp and a tile, with up to several tiles.
pub(super) const SCANS: &[Problem] = &[
    rows(TINY, [2, 9]),
    rows(SMALL, [3, 43]).gap(2),
    rows(SMALL, [71, 5]),
    rows(SMALL, [9, 90]).gap(1).later(1),
    rows(SMALL, [2, 8200]),
    rows(SMALL, [1, 17_001]).values(Cancelling),
    rows(EMULATORS, [3, 601]).gap(3),
    rows(EMULATORS, [2, 520]).gap(8),
    rows(EMULATORS, [1, 17_000]),
    rows(LARGER, [1, 1]),
    rows(LARGER, [35, 64]),
    rows(LARGER, [300, 3]).start(1),
    rows(LARGER, [600, 17]).values(Cancelling),
    rows(LARGER, [40, 129]).start(2).later(3),
    rows(LARGER, [3, 8189]),
    rows(LARGER, [2, 16_380]).start(5),
    rows(LARGER, [2, 20_001]).later(1),
    rows(LARGER, [20, 513]).gap(3).start(1),
    rows(LARGER, [5, 8192]).values(Cancelling),
    rows(LARGER, [4, 1000]).values(Special),
    rows(LARGER, [3, 20_000]).values(Special),
    rows(LARGER, [2, 30_001]).gap(7).values(Offset),
    rows(LARGER, [1, 70_000]),
    rows(DEVICE, [1000, 4096]),
    rows(DEVICE, [1000, 4099]),
    rows(DEVICE, [100_003, 7]),
    rows(DEVICE, [7, 300_000]).gap(16),
    rows(DEVICE, [5, 200_003]).gap(2),
    rows(DEVICE, [1, 6_000_003]),
];

/// Full and partial tiles; aligned and unaligned rows; few rows and few columns, with and without gaps.
pub(super) const TRANSPOSES: &[Problem] = &[
    rows(TINY, [5, 3]).gap(1),
    rows(SMALL, [136, 136]).gap(8),
    rows(SMALL, [131, 290]).gap(3),
    rows(SMALL, [7, 65]).gap(3),
    rows(SMALL, [3, 1500]).later(1),
    rows(SMALL, [900, 5]).start(1),
    rows(EMULATORS, [128, 264]),
    rows(EMULATORS, [140, 300]).gap(3),
    rows(EMULATORS, [67, 33]).gap(1),
    rows(LARGER, [1, 1]),
    rows(LARGER, [256, 384]).gap(8),
    rows(LARGER, [264, 200]),
    rows(LARGER, [131, 257]).start(1),
    rows(LARGER, [1, 1000]).gap(5),
    rows(LARGER, [777, 2]),
    rows(LARGER, [1, 20_001]).start(1).later(2),
    rows(LARGER, [20_001, 1]),
    rows(LARGER, [8, 5003]),
    rows(LARGER, [5003, 16]),
    rows(LARGER, [5003, 3]).gap(1),
    rows(LARGER, [2, 5003]).gap(3).later(1),
    rows(LARGER, [100, 1000]),
    rows(LARGER, [1001, 33]).start(7),
    rows(DEVICE, [2048, 1280]).gap(64),
    rows(DEVICE, [3001, 2003]),
    rows(DEVICE, [3, 700_001]),
    rows(DEVICE, [300_007, 9]),
    rows(DEVICE, [64, 40_000]),
];
