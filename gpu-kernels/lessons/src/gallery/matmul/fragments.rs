//! The registers of a thread in the last rungs: rows and columns by fours, and their sums.

use cuda_std::GpuFloat as _;
use cuda_std::mem::f32x4;

use super::edges::Output;

/// Expands the body once for each of the eight terms in shared memory; `kk` is the term's number. Compilers do not unroll a
/// loop with this many multiply-adds, and its iterations would not overlap.
macro_rules! for_each_term {
    ($kk:ident, $body:block) => {
        for_each_term!(@ $kk, $body, 0 1 2 3 4 5 6 7)
    };
    (@ $kk:ident, $body:block, $($number:literal)*) => {
        $({
            let $kk: usize = $number;
            $body
        })*
    };
}
pub(super) use for_each_term;

/// Returns the length of a row of A's transposed tile in shared memory. With four elements more than 128, or any multiple of
/// 32, the elements of a column and its neighbours are in different banks.
pub const fn pitch(rows: usize) -> usize {
    rows + 4
}

/// Loads `N` numbers from shared memory by fours: at `at`, then every `step` numbers.
///
/// # Safety
/// The numbers are in shared memory of the block, each four at a multiple of 16 bytes.
#[inline(always)]
pub unsafe fn quads<const N: usize>(at: *const f32, step: usize) -> [f32; N] {
    let mut numbers = [0.0; N];
    for i in 0..N / 4 {
        // SAFETY: the caller's contract.
        let quad = unsafe { *at.add(i * step).cast::<f32x4>() };
        [numbers[4 * i], numbers[4 * i + 1], numbers[4 * i + 2], numbers[4 * i + 3]] = quad.to_array();
    }
    numbers
}

/// Adds a term to each sum.
#[inline(always)]
pub fn add<const ROWS: usize, const COLS: usize>(
    sums_reg: &mut [[f32; COLS]; ROWS],
    a_reg: [f32; ROWS],
    b_reg: [f32; COLS],
) {
    for i in 0..ROWS {
        for j in 0..COLS {
            sums_reg[i][j] = a_reg[i].mul_add(b_reg[j], sums_reg[i][j]);
        }
    }
}

/// Writes the sums from `row` and `col` on: rows by fours, `row_step` apart, and columns by fours, `col_step` apart.
///
/// # Safety
/// Same as for [`Output::set_quad`].
#[inline(always)]
pub unsafe fn store<const ROWS: usize, const COLS: usize>(
    out: Output,
    (row, col): (usize, usize),
    [row_step, col_step]: [usize; 2],
    sums_reg: &[[f32; COLS]; ROWS],
) {
    for i in 0..ROWS {
        for j in 0..COLS / 4 {
            let values: [f32; 4] = core::array::from_fn(|x| sums_reg[i][4 * j + x]);
            // SAFETY: the caller's contract.
            unsafe { out.set_quad(row + i / 4 * row_step + i % 4, col + j * col_step, values.into()) };
        }
    }
}
