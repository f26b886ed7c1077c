//! The layout of a buffer's elements.

use core::ops::Range;

/// The layout of a matrix in a test's buffer. There may be gaps between its rows, and an offset from a boundary.
///
/// The bytes around its rows must not change, like those around a buffer.
///
/// ```
/// use cuda_std::testing::Layout;
///
/// let three_rows = Layout::dense(3, 5).with_stride(8).with_offset(1);
/// assert_eq!((three_rows.len(), three_rows.span()), (15, 21));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub cols: usize,
    /// Elements from the start of a row to the start of the next.
    pub stride: usize,
    /// Elements from a boundary, of [`ALIGNMENT`](super::ALIGNMENT) bytes, to the first row.
    pub offset: usize,
}

impl Layout {
    /// Rows one after the other, from a boundary on.
    pub const fn dense(rows: usize, cols: usize) -> Self {
        Self { rows, cols, stride: cols, offset: 0 }
    }

    /// Rows that start every `stride` elements.
    pub const fn with_stride(self, stride: usize) -> Self {
        Self { stride, ..self }
    }

    /// Rows that start `offset` elements after a boundary.
    pub const fn with_offset(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Returns the number of elements.
    pub const fn len(&self) -> usize {
        self.rows.saturating_mul(self.cols)
    }

    /// Returns whether there are no elements.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    /// Returns the number of elements from the first one to the end of the last row, including the gaps.
    pub const fn span(&self) -> usize {
        if self.is_empty() {
            0
        } else {
            (self.rows - 1).saturating_mul(self.stride).saturating_add(self.cols)
        }
    }

    /// Returns whether memory can be that large and the rows do not overlap.
    pub(super) fn is_possible(&self, element: usize) -> bool {
        let end =
            self.rows.checked_mul(self.stride.max(self.cols)).and_then(|end| end.checked_add(self.offset));
        let bytes = end.and_then(|end| end.checked_mul(element));
        self.stride >= self.cols && bytes.is_some_and(|bytes| bytes <= isize::MAX as usize / 2)
    }

    /// Returns where each row lies, in bytes.
    pub(super) fn rows_in_bytes(self, element: usize) -> impl Iterator<Item = Range<usize>> {
        let rows = if self.is_empty() { 0 } else { self.rows };
        (0..rows).map(move |row| {
            let start = (self.offset + row * self.stride) * element;
            start..start + self.cols * element
        })
    }
}
