//! The product of two matrices.

use super::group::Sums;
use crate::exec::bits::Bits;
use crate::exec::number::{number, used};
use crate::instr::Ty;

/// The k of a multiplication: 32 bytes of elements.
pub(crate) fn depth(ty: Ty) -> usize {
    32 / ty.bytes() as usize
}

/// A matrix: the rows of A or the columns of B, with `k` elements each.
#[derive(Debug, Default)]
pub(crate) struct Matrix {
    pub k: usize,
    /// By row of A or column of B.
    pub values: Vec<f64>,
    /// By row of A or column of B, whether it has undefined bits.
    pub is_undefined: Vec<bool>,
}

impl Matrix {
    pub fn new(count: usize, k: usize) -> Matrix {
        Matrix { k, values: vec![0.0; count * k], is_undefined: vec![false; count] }
    }

    /// Sets element `at` of row or column `line`.
    #[inline]
    pub fn set(&mut self, line: usize, at: usize, bits: Bits, (ty, negates): (Ty, bool)) {
        let value = number(ty, bits.value);
        self.values[line * self.k + at] = if negates { -value } else { value };
        self.is_undefined[line] |= bits.undefined & used(ty) != 0;
    }

    /// Sets the elements of A in register `i` of a thread of the warpgroup. Registers go down first: the thread's row, the
    /// row 8 below, then the same in the second half of k.
    pub fn set_fragment(&mut self, thread: usize, i: usize, bits: Bits, of: (Ty, bool)) {
        let (warp, lane, in_register) = (thread / 32, thread % 32, 4 / of.0.bytes() as usize);
        let row = 16 * warp + lane / 4 + 8 * (i % 2);
        let first = lane % 4 * in_register + (i / 2) * (self.k / 2);
        let width = of.0.bits as usize;
        for element in 0..in_register {
            self.set(row, first + element, bits.map(|raw| raw >> (width * element)), of);
        }
    }
}

/// Adds the product of A and B to the accumulators, or replaces them. Each is the exact sum, rounded once: the ISA leaves
/// order and precision open.
pub(crate) fn multiply(a: &Matrix, b: &Matrix, n: usize, keeps: bool, sums: &mut Sums) {
    let k = a.k;
    // Columns of B innermost, so that a row of sums is updated at once.
    let mut columns = vec![0.0; n * k];
    for (column, elements) in b.values.chunks_exact(k).enumerate() {
        elements.iter().enumerate().for_each(|(at, &element)| columns[at * n + column] = element);
    }
    let mut row_sums = vec![0.0; n];
    for (row, elements) in a.values.chunks_exact(k).enumerate() {
        let place = row * n..(row + 1) * n;
        let (values, is_undefined) = (&mut sums.values[place.clone()], &mut sums.is_undefined[place]);
        match keeps {
            true => row_sums.iter_mut().zip(&*values).for_each(|(sum, &value)| *sum = f64::from(value)),
            false => row_sums.fill(0.0),
        }
        for (&element, column) in elements.iter().zip(columns.chunks_exact(n)) {
            row_sums.iter_mut().zip(column).for_each(|(sum, &other)| *sum += element * other);
        }
        for (at, (value, &sum)) in values.iter_mut().zip(&row_sums).enumerate() {
            *value = sum as f32;
            let was_undefined = keeps && is_undefined[at];
            is_undefined[at] = was_undefined || a.is_undefined[row] || b.is_undefined[at];
        }
    }
}
