//! The operands of the multiplications: row-major matrices in global memory, read four elements at a time.

use cuda_std::mem::{self, f32x4};

/// A row-major matrix in global memory that is not written while the kernel runs.
#[derive(Clone, Copy)]
pub struct Matrix {
    ptr: *const f32,
    rows: usize,
    cols: usize,
    /// Elements from one row to the next.
    pitch: usize,
    /// Whether each group of four elements, counted from a row's start, is aligned to 16 bytes, and a row
    /// consists of such groups.
    is_aligned: bool,
    /// Whether one more column, of ones, follows.
    has_ones: bool,
    /// Whether it is scaled before it is rounded; see [`Operands::scale`](super::operand::Operands::scale).
    is_gradient: bool,
}

impl Matrix {
    /// Creates the `rows` x `cols` matrix at `ptr`.
    ///
    /// # Safety
    /// `ptr` is valid for `rows * cols` elements, which are not written while the matrix is in use.
    #[inline(always)]
    pub unsafe fn new(ptr: *const f32, rows: usize, cols: usize) -> Self {
        let is_aligned = (ptr as usize | (cols * size_of::<f32>())).is_multiple_of(16);
        Self { ptr, rows, cols, pitch: cols, is_aligned, has_ones: false, is_gradient: false }
    }

    /// Adds a column of ones after the last, which a bias is multiplied by.
    #[inline(always)]
    pub fn with_ones(self) -> Self {
        Self { has_ones: true, ..self }
    }

    /// Marks the matrix as gradients.
    #[inline(always)]
    pub fn of_gradients(self) -> Self {
        Self { is_gradient: true, ..self }
    }

    /// Returns the rows `start..end` that exist.
    #[inline(always)]
    fn of_rows(self, start: usize, end: usize) -> Self {
        let (start, end) = (start.min(self.rows), end.min(self.rows));
        Self { ptr: self.ptr.wrapping_add(start * self.pitch), rows: end - start, ..self }
    }

    /// Returns the columns `start..end` that exist; `start` is a multiple of four.
    #[inline(always)]
    fn of_cols(self, start: usize, end: usize) -> Self {
        let (start, end) = (start.min(self.cols), end.min(self.cols));
        Self { ptr: self.ptr.wrapping_add(start), cols: end - start, ..self }
    }

    /// Returns the elements of a row.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Returns the element.
    ///
    /// # Safety
    /// The element lies in the matrix.
    #[inline(always)]
    pub unsafe fn at(&self, row: usize, col: usize) -> f32 {
        // SAFETY: the element lies in the matrix.
        unsafe { *self.ptr.add(row * self.pitch + col) }
    }

    /// Returns the address of an element, and the distance to the next row.
    #[inline(always)]
    pub fn pointer(&self, row: usize, col: usize) -> (*const f32, usize) {
        (self.ptr.wrapping_add(row * self.pitch + col), self.pitch)
    }

    /// Returns elements `col..col + 4` of a row, where `col` is a multiple of four; zero outside the matrix.
    #[inline(always)]
    pub fn quad(&self, row: usize, col: usize) -> f32x4 {
        let one = |col: usize| if self.has_ones && col == self.cols && row < self.rows { 1.0 } else { 0.0 };
        // The whole block takes the same branch. In this one, four neighbours are either all in the matrix or all outside.
        if self.is_aligned {
            if row < self.rows && col + 4 <= self.cols {
                // Not by the read-only path: the launch before may still write them when this one begins.
                // SAFETY: the elements lie in the matrix, at a multiple of 16 bytes.
                return unsafe { mem::load_global(self.ptr.add(row * self.pitch + col).cast()) };
            }
            return f32x4::new(one(col), 0.0, 0.0, 0.0);
        }
        let element = |col: usize| {
            if row < self.rows && col < self.cols {
                // SAFETY: row and column lie in the matrix.
                unsafe { self.at(row, col) }
            } else {
                one(col)
            }
        };
        f32x4::new(element(col), element(col + 1), element(col + 2), element(col + 3))
    }

    /// Returns the quads of [`Self::quad`] at these rows and columns. All loads are in flight at once, and bypass L1: the
    /// data was written by a launch before the previous one, and that previous launch may still run.
    #[inline(always)]
    pub fn quads<const N: usize>(&self, place: impl Fn(usize) -> (usize, usize)) -> [f32x4; N] {
        if self.rows == 0 || self.cols == 0 {
            return [f32x4::new(0.0, 0.0, 0.0, 0.0); N];
        }
        if self.is_aligned {
            let quads = self.any_quads::<N>(&place);
            return core::array::from_fn(|i| {
                let (row, col) = place(i);
                match row < self.rows && col < self.cols {
                    true => quads[i],
                    false => f32x4::new(self.one(row, col), 0.0, 0.0, 0.0),
                }
            });
        }
        core::array::from_fn(|i| {
            let (row, col) = place(i);
            let elements: [f32; 4] = core::array::from_fn(|j| {
                let col = col + j;
                let at = row.min(self.rows - 1) * self.pitch + col.min(self.cols - 1);
                // SAFETY: the element lies in the matrix.
                let element = unsafe { self.ptr.add(at).read_volatile() };
                match row < self.rows && col < self.cols {
                    true => element,
                    false => self.one(row, col),
                }
            });
            elements.into()
        })
    }

    /// Does the same for a matrix that [`Self::is_aligned`] and has elements; returns any other quads for those outside.
    #[inline(always)]
    pub fn any_quads<const N: usize>(&self, place: impl Fn(usize) -> (usize, usize)) -> [f32x4; N] {
        // No branch before a load, and nothing after it that would wait.
        core::array::from_fn(|i| {
            let (row, col) = place(i);
            let at = row.min(self.rows - 1) * self.pitch + col.min((self.cols - 1) & !3);
            // SAFETY: the elements lie in the matrix, at a multiple of 16 bytes.
            unsafe { mem::load_global_l2(self.ptr.add(at).cast()) }
        })
    }

    /// Returns the value outside the matrix: 1 in the column of ones, and 0 elsewhere.
    #[inline(always)]
    fn one(&self, row: usize, col: usize) -> f32 {
        if self.has_ones && col == self.cols && row < self.rows { 1.0 } else { 0.0 }
    }

    /// Returns whether every four neighbours from a multiple of four on are aligned to 16 bytes, and either all inside the
    /// matrix or all outside.
    #[inline(always)]
    pub fn is_aligned(&self) -> bool {
        self.is_aligned
    }
}

/// The layout of the A operand of a multiplication in global memory.
#[derive(Clone, Copy)]
pub enum OperandA {
    /// As `[m, k]`, for A B.
    RowMajor(Matrix),
    /// As `[k, m]`, for A^T B.
    Transposed(Matrix),
}

impl OperandA {
    /// Returns the number of rows of the result, without that of a column of ones.
    #[inline(always)]
    pub fn rows(&self) -> usize {
        match self {
            Self::RowMajor(a) => a.rows,
            Self::Transposed(a) => a.cols,
        }
    }

    /// Returns whether the result has one more row, the sums of B's columns.
    #[inline(always)]
    pub fn has_ones(&self) -> bool {
        matches!(self, Self::Transposed(a) if a.has_ones)
    }

    /// Returns whether the operand holds gradients.
    #[inline(always)]
    pub fn is_gradient(&self) -> bool {
        let (Self::RowMajor(a) | Self::Transposed(a)) = self;
        a.is_gradient
    }

    /// Returns the part `start..end` along k; `start` is a multiple of four.
    #[inline(always)]
    pub fn of_depth(self, start: usize, end: usize) -> Self {
        match self {
            Self::RowMajor(a) => Self::RowMajor(a.of_cols(start, end)),
            Self::Transposed(a) => Self::Transposed(a.of_rows(start, end)),
        }
    }
}

/// The layout of the B operand of a multiplication in global memory.
#[derive(Clone, Copy)]
pub enum OperandB {
    /// As `[k, n]`, for A B.
    RowMajor(Matrix),
    /// As `[n, k]`, for A B^T.
    Transposed(Matrix),
}

impl OperandB {
    /// Returns the number of columns of the result.
    #[inline(always)]
    pub fn cols(&self) -> usize {
        match self {
            Self::RowMajor(b) => b.cols,
            Self::Transposed(b) => b.rows,
        }
    }

    /// Returns the terms of each sum.
    #[inline(always)]
    pub fn depth(&self) -> usize {
        match self {
            Self::RowMajor(b) => b.rows,
            Self::Transposed(b) => b.cols,
        }
    }

    /// Returns whether the operand holds gradients.
    #[inline(always)]
    pub fn is_gradient(&self) -> bool {
        let (Self::RowMajor(b) | Self::Transposed(b)) = self;
        b.is_gradient
    }

    /// Returns the part `start..end` along k; `start` is a multiple of four.
    #[inline(always)]
    pub fn of_depth(self, start: usize, end: usize) -> Self {
        match self {
            Self::RowMajor(b) => Self::RowMajor(b.of_rows(start, end)),
            Self::Transposed(b) => Self::Transposed(b.of_cols(start, end)),
        }
    }
}
