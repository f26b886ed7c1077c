//! Matrices of any type in memory, with rows apart from each other.

#![allow(dead_code, reason = "each test file uses its own part of it")]

use ferrowarp::reference::Number;

/// What lies around the rows.
const AROUND: f32 = 7.0;

/// Where the elements of a matrix `[rows, cols]` lie.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub rows: usize,
    pub cols: usize,
    /// Elements from the start of a row to that of the next.
    pub stride: usize,
    /// Elements before the first row.
    pub offset: usize,
}

impl Layout {
    /// One row behind the other from the start on.
    pub fn dense(rows: usize, cols: usize) -> Self {
        Self { rows, cols, stride: cols, offset: 0 }
    }

    /// The memory of a matrix with these elements, and of no element behind the last row.
    pub fn spread<T: Number>(&self, elements: &[f32]) -> Vec<T> {
        let len = self.offset + (self.rows - 1) * self.stride + self.cols;
        let mut memory = vec![T::nearest(AROUND); len];
        for (row, elements) in elements.chunks(self.cols).enumerate() {
            let place = &mut memory[self.offset + row * self.stride..][..self.cols];
            place.iter_mut().zip(elements).for_each(|(to, &from)| *to = T::nearest(from));
        }
        memory
    }

    /// The elements of the matrix in this memory, in which nothing has changed around them.
    pub fn gather<T: Number>(&self, memory: &[T]) -> Vec<f32> {
        let is_element = |i: usize| i >= self.offset && (i - self.offset) % self.stride < self.cols;
        let mut elements = Vec::new();
        for (i, x) in memory.iter().map(|x| x.value()).enumerate() {
            if is_element(i) {
                elements.push(x);
            } else {
                assert_eq!(x, AROUND, "element {i} lies outside of all rows of {self:?}");
            }
        }
        elements
    }
}

/// Whether a result is the expected one, NaN for NaN, within `tolerance`.
pub fn is_close(got: f32, want: f64, tolerance: f64) -> bool {
    let got = f64::from(got);
    got.is_nan() && want.is_nan() || got == want || (got - want).abs() <= tolerance
}

/// The numbers as the type has them.
pub fn rounded<T: Number>(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().map(|&x| T::nearest(x).value()).collect()
}

/// Bits to compare by, the same for all NaN.
pub fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}
