//! How the operands of a random problem are stored, and the random extents.

use rand::{RngExt as _, rngs::StdRng};

use crate::place::Place;

/// The most elements after an operand.
const AFTER: usize = 20;

/// The largest problems to draw.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The most elements of a matrix. One of 16 may have 16 times as many.
    pub elements: usize,
    /// The most products of a matrix multiplication or an attention. One of 16 may have 16 times as many.
    pub terms: usize,
}

impl Size {
    /// For tests.
    pub const SMALL: Size = Size { elements: 1 << 9, terms: 1 << 12 };
    /// For a program that checks the CPU.
    pub const CPU: Size = Size { elements: 1 << 14, terms: 1 << 16 };
    /// For a program that checks a GPU.
    pub const GPU: Size = Size { elements: 1 << 16, terms: 1 << 21 };
    /// For a program that times a GPU.
    pub const TIMED: Size = Size { elements: 1 << 26, terms: 1 << 37 };

    /// Rows and columns of a matrix.
    pub(super) fn matrix(&self, rng: &mut StdRng) -> [usize; 2] {
        extents(rng, self.elements)
    }
}

/// Draws extents whose product is at most `most`, or 16 times as much. Half of them are small in all dimensions.
pub(super) fn extents<const N: usize>(rng: &mut StdRng, most: usize) -> [usize; N] {
    let most = if rng.random_ratio(1, 16) { 16 * most } else { most };
    let is_small = rng.random_bool(0.5);
    let (mut extents, mut left, first) = ([0; N], most, rng.random_range(0..N));
    for i in 0..N {
        let extent = extent(rng, left, is_small);
        extents[(first + i) % N] = extent;
        left /= extent.max(1);
    }
    extents
}

/// Draws an extent up to `most`, at least 1, or rarely 0: up to 20, often a multiple of 4, or as a logarithm evenly.
pub(super) fn extent(rng: &mut StdRng, most: usize, is_small: bool) -> usize {
    let most = most.max(1);
    let extent = match rng.random_range(0..64) {
        0 => 0,
        1..=15 => 4 * rng.random_range(1..=5),
        kind if is_small || kind < 32 => rng.random_range(1..=20),
        kind => {
            let any = (most as f64).powf(rng.random::<f64>()) as usize;
            // Vectors, tiles and warps need multiples.
            if kind < 48 { any } else { any.next_multiple_of(rng.random_range(1..=16) * 4) }
        }
    };
    extent.min(most)
}

/// How the operands of a problem are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// From the start of a buffer, without gaps.
    Dense,
    /// With gaps; every row starts at a multiple of 16 bytes.
    Aligned,
    /// With or without gaps, from any element on.
    Anywhere,
}

impl Layout {
    pub(super) fn draw(rng: &mut StdRng) -> Self {
        [Self::Dense, Self::Dense, Self::Aligned, Self::Anywhere][rng.random_range(0..4)]
    }

    /// The name of the layout in a report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::Dense => "dense",
            Layout::Aligned => "gaps",
            Layout::Anywhere => "any element",
        }
    }

    /// Draws a place for elements of type `T`. `order` has the dimensions from the one with the smallest stride on.
    pub(super) fn place<T>(self, rng: &mut StdRng, shape: [usize; 4], order: [usize; 3]) -> Place {
        let unit = if self == Self::Aligned { 16 / size_of::<T>() } else { 1 };
        let mut gap = || match self {
            Layout::Dense => 0,
            Layout::Aligned => unit * rng.random_range(0..3),
            Layout::Anywhere => rng.random_range(0..10) * rng.random_range(0..2),
        };
        let (first, mut strides, mut extent) = (gap(), [0; 3], shape[3]);
        for dimension in order {
            strides[dimension] = (extent + gap()).next_multiple_of(unit);
            extent = shape[dimension] * strides[dimension];
        }
        // Matrices without columns need views for their strides, too.
        let last: usize = shape.iter().zip(strides).map(|(len, stride)| len.saturating_sub(1) * stride).sum();
        let len = first + last + shape[3] + rng.random_range(0..AFTER);
        Place { shape, first, strides, len }
    }

    /// Draws a place for a matrix.
    pub(super) fn matrix<T>(self, rng: &mut StdRng, [rows, cols]: [usize; 2]) -> Place {
        self.place::<T>(rng, [1, 1, rows, cols], [2, 1, 0])
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;
    use crate::place::GAP;

    #[test]
    fn elements_come_back_and_others_are_errors() {
        let mut rng = StdRng::seed_from_u64(1);
        for layout in [Layout::Dense, Layout::Aligned, Layout::Anywhere] {
            for _ in 0..100 {
                let shape: [usize; 4] = extents(&mut rng, 300);
                let place = layout.place::<u16>(&mut rng, shape, [1, 2, 0]);
                let elements: Vec<u16> = (0..shape.iter().product::<usize>() as u16).collect();
                let mut buffer = place.filled(&elements);
                assert_eq!(place.inside(&buffer, GAP).unwrap(), elements);
                let is_whole = layout == Layout::Aligned && place.first.is_multiple_of(8);
                assert!(layout != Layout::Aligned || is_whole && place.strides.iter().all(|it| it % 8 == 0));
                if let Some(gap) = (0..buffer.len()).find(|i| place.indices().all(|index| index != *i)) {
                    buffer[gap] = 7;
                    let error = place.inside(&buffer, GAP).unwrap_err().to_string();
                    assert!(error.starts_with(&format!("element {gap} ")), "{error}");
                }
            }
        }
    }

    #[test]
    fn small_extents_of_all_kinds_are_drawn() {
        let mut rng = StdRng::seed_from_u64(2);
        let drawn: Vec<[usize; 2]> = (0..20_000).map(|_| extents(&mut rng, 1 << 16)).collect();
        for rows in 1..=20 {
            for cols in 1..=20 {
                assert!(drawn.contains(&[rows, cols]), "{rows} x {cols}");
            }
        }
        assert!(drawn.iter().any(|[_, cols]| *cols > 10_000) && drawn.iter().any(|[rows, _]| *rows == 0));
    }
}
