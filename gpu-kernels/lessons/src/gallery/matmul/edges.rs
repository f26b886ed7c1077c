//! Matrices whose extents are not multiples of a tile: elements outside are read as zero, and are not written.

use cuda_std::mem::{f32x4, load_global, store_global};

/// Returns the offset of an element in rows of `cols`.
#[inline(always)]
fn index(row: u32, col: u32, cols: u32) -> usize {
    row as usize * cols as usize + col as usize
}

/// A row-major matrix `[rows, cols]` to read.
#[derive(Clone, Copy)]
pub struct Matrix {
    pub elements: *const f32,
    pub rows: u32,
    pub cols: u32,
}

impl Matrix {
    /// Returns an element, or 0 outside.
    ///
    /// # Safety
    /// The matrix holds its elements.
    #[inline(always)]
    pub unsafe fn at(&self, row: usize, col: usize) -> f32 {
        let (row, col) = (row as u32, col as u32);
        let is_inside = row < self.rows && col < self.cols;
        // SAFETY: the element lies in the matrix.
        if is_inside { unsafe { *self.elements.add(index(row, col, self.cols)) } } else { 0.0 }
    }

    /// Returns four neighbours in a row from `col` on, a multiple of four; 0 outside. It is one access if all rows begin at
    /// a multiple of 16 bytes.
    ///
    /// # Safety
    /// The matrix holds its elements, the first of them at a multiple of 16 bytes.
    #[inline(always)]
    pub unsafe fn quad(&self, row: usize, col: usize) -> f32x4 {
        let (row, col) = (row as u32, col as u32);
        if row >= self.rows || col >= self.cols {
            return f32x4::splat(0.0);
        }
        // SAFETY: the first of the four lies in the matrix, and if the rows are whole quads, all four do.
        unsafe {
            if self.cols.is_multiple_of(4) {
                load_global(self.elements.add(index(row, col, self.cols)).cast())
            } else {
                let at = |i: u32| self.at(row as usize, (col + i) as usize);
                f32x4::new(at(0), at(1), at(2), at(3))
            }
        }
    }
}

/// A row-major matrix `[rows, cols]` to write.
#[derive(Clone, Copy)]
pub struct Output {
    pub elements: *mut f32,
    pub rows: u32,
    pub cols: u32,
}

impl Output {
    /// Writes an element, if it lies inside.
    ///
    /// # Safety
    /// The matrix holds its elements, and no other code uses this one.
    #[inline(always)]
    pub unsafe fn set(&self, row: usize, col: usize, value: f32) {
        let (row, col) = (row as u32, col as u32);
        if row < self.rows && col < self.cols {
            // SAFETY: the element lies in the matrix.
            unsafe { *self.elements.add(index(row, col, self.cols)) = value };
        }
    }

    /// Writes four neighbours in a row from `col` on, a multiple of four, except those outside. It is one access if all rows
    /// begin at a multiple of 16 bytes.
    ///
    /// # Safety
    /// The matrix holds its elements, the first of them at a multiple of 16 bytes, and no other code uses these.
    #[inline(always)]
    pub unsafe fn set_quad(&self, row: usize, col: usize, values: f32x4) {
        if self.cols.is_multiple_of(4) {
            let (row, col) = (row as u32, col as u32);
            if row < self.rows && col < self.cols {
                // SAFETY: the first of the four lies in the matrix, and the rows are whole quads.
                unsafe { store_global(self.elements.add(index(row, col, self.cols)).cast(), values) };
            }
        } else {
            for (i, value) in values.to_array().into_iter().enumerate() {
                // SAFETY: only this thread writes the element.
                unsafe { self.set(row, col + i, value) };
            }
        }
    }
}
