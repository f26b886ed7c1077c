//! A matrix multiplication for a single thread. It is fast on a CPU, where waiting for other threads costs more than
//! computing. No PTX has these kernels.
//!
//! `ROWS` x `WIDTH` sums stay in registers while the thread walks a panel of B, `WIDTH` columns wide, along k: as vector
//! instructions, twelve multiply-adds for two loads of B and six of A. A panel is copied once for all rows, in pieces that
//! fit L1; elements outside the matrix are zero there.

use cuda_std::{GpuFloat as _, hint};

use super::matrix::{OperandA, OperandB};
use super::operand::{Operand, Operands};

/// Rows of A at a time.
pub const ROWS: usize = 6;
/// Columns of the result that a thread computes.
pub const WIDTH: usize = 16;
/// Terms of a piece of a panel.
const DEPTH: usize = 256;
/// Rows whose sums wait for the next piece.
const WAITING: usize = 16 * ROWS;

/// The distance in rows of B from the copied row to the prefetched one: rows lie too far apart for the CPU to detect a
/// pattern.
const ROWS_AHEAD: usize = 16;

/// Floats of shared memory that a thread needs: a piece of a panel and the waiting sums.
pub const SHARED: usize = (DEPTH + WAITING) * WIDTH;

/// The sums of a few rows.
type Sums = [[f32; WIDTH]; ROWS];

/// Returns an operand as it is multiplied: rounded to `T`.
#[inline(always)]
fn rounded<T: Operand>(x: f32, is_gradient: bool) -> f32 {
    let scale = T::OPERANDS.scale(is_gradient);
    T::round(x * scale) * (1.0 / scale)
}

/// Computes the rows `rows` of the panel of [`WIDTH`] columns from `col` on. Calls `write(row, col, sums)` once for the
/// columns of each row that lie in the result, and `soon(row, col)` some time before. Operands are rounded to `T`.
///
/// # Safety
/// `shared` is valid for [`SHARED`] floats, which no other code uses. The operands have the same k, at least 1. The rows lie
/// in the result; the last may be the row with the sums of B's columns.
#[inline(always)]
pub unsafe fn product<T: Operand>(
    shared: *mut f32,
    rows: core::ops::Range<usize>,
    col: usize,
    a: OperandA,
    b: OperandB,
    soon: impl Fn(usize, usize),
    mut write: impl FnMut(usize, usize, &[f32]),
) {
    let width = WIDTH.min(b.cols() - col);
    let (panel, waiting) = (shared.cast::<[f32; WIDTH]>(), shared.wrapping_add(DEPTH * WIDTH).cast::<Sums>());
    let depth = b.depth();
    let (mut first, last) = (rows.start, rows.end.min(a.rows()));
    while first < last {
        let end = last.min(first + WAITING);
        let mut k0 = 0;
        while k0 < depth {
            let (len, is_last) = (DEPTH.min(depth - k0), k0 + DEPTH >= depth);
            // SAFETY: piece and sums lie in `shared`; rows, columns and terms in the operands.
            unsafe {
                // A panel of one piece is only copied for the first rows.
                if depth > DEPTH || first == rows.start {
                    for k in 0..len {
                        if let OperandB::RowMajor(b) = b {
                            // A row usually lies in two cache lines.
                            let ahead = k0 + k + ROWS_AHEAD;
                            hint::prefetch_line(b.pointer(ahead, col).0);
                            hint::prefetch_line(b.pointer(ahead, col + WIDTH - 1).0);
                        }
                        copy_row::<T>(panel.add(k), b, k0 + k, col);
                    }
                }
                for row in (first..end).step_by(ROWS) {
                    let sums = waiting.add((row - first) / ROWS);
                    if is_last {
                        (row..end.min(row + ROWS)).for_each(|row| soon(row, col));
                    }
                    let before = if k0 == 0 { [[0.0; WIDTH]; ROWS] } else { sums.read() };
                    let acc = multiply::<T>(before, a, row, k0, panel, len);
                    if !is_last {
                        sums.write(acc);
                        continue;
                    }
                    for (i, acc) in acc.iter().enumerate().take(end - row) {
                        // The common case has no branch inside, so that the compiler can use vectors.
                        if width == WIDTH {
                            write(row + i, col, acc)
                        } else {
                            write(row + i, col, &acc[..width])
                        }
                    }
                }
            }
            k0 += DEPTH;
        }
        first = end;
    }
    // Not in an empty range after the last row.
    if rows.end > last && !rows.is_empty() {
        let mut sums = [0.0; WIDTH];
        for k in 0..depth {
            // SAFETY: row and column lie in the operand.
            let row = unsafe { row_of::<T>(b, k, col) };
            (0..WIDTH).for_each(|j| sums[j] += row[j]);
        }
        write(last, col, &sums[..width]);
    }
}

/// Copies the result of [`row_of`].
///
/// # Safety
/// Same as for [`row_of`]; `to` is valid for a write.
#[inline(always)]
unsafe fn copy_row<T: Operand>(to: *mut [f32; WIDTH], b: OperandB, row: usize, col: usize) {
    // SAFETY: the caller's contract; the whole row lies in the operand, and the panel does not.
    unsafe {
        match b {
            // A separate branch: a compiler splits a vector into numbers if it can come from several branches.
            OperandB::RowMajor(b) if matches!(T::OPERANDS, Operands::F32) && col + WIDTH <= b.cols() => {
                to.copy_from_nonoverlapping(b.pointer(row, col).0.cast(), 1);
            }
            _ => to.write(row_of::<T>(b, row, col)),
        }
    }
}

/// Returns the columns from `col` on of a row of B, rounded, and 0 after the last.
///
/// # Safety
/// The row and the first of the columns lie in the operand.
#[inline(always)]
unsafe fn row_of<T: Operand>(b: OperandB, row: usize, col: usize) -> [f32; WIDTH] {
    let is_gradient = b.is_gradient();
    let mut elements = [0.0; WIDTH];
    for (j, element) in elements.iter_mut().take(b.cols() - col).enumerate() {
        // SAFETY: the element lies in the operand.
        let exact = unsafe {
            match b {
                OperandB::RowMajor(b) => b.at(row, col + j),
                OperandB::Transposed(b) => b.at(col + j, row),
            }
        };
        *element = rounded::<T>(exact, is_gradient);
    }
    elements
}

/// Adds `len` terms, from `k0` on, to the sums of the rows from `row` on. The sums of rows after the last are meaningless.
#[inline(always)]
unsafe fn multiply<T: Operand>(
    mut acc: Sums,
    a: OperandA,
    row: usize,
    k0: usize,
    panel: *const [f32; WIDTH],
    len: usize,
) -> Sums {
    let (last, is_gradient) = (a.rows() - 1, a.is_gradient());
    let (rows, step): ([*const f32; ROWS], usize) = match a {
        OperandA::RowMajor(a) => (core::array::from_fn(|i| a.pointer((row + i).min(last), k0).0), 1),
        OperandA::Transposed(a) => {
            (core::array::from_fn(|i| a.pointer(k0, (row + i).min(last)).0), a.pointer(0, 0).1)
        }
    };
    for k in 0..len {
        // SAFETY: the terms lie in the piece and in the rows of A.
        unsafe {
            let b = panel.add(k).read();
            for i in 0..ROWS {
                let a = rounded::<T>(*rows[i].add(k * step), is_gradient);
                for j in 0..WIDTH {
                    acc[i][j] = a.mul_add(b[j], acc[i][j]);
                }
            }
        }
    }
    acc
}
