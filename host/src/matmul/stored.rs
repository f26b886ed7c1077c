//! How a batch of matrices is stored.

use ferrowarp_device::error::Error;
use ferrowarp_device::tensor::Layout;

/// Elements that are a multiple of 128 bytes for every type.
const LINE: usize = 64;

/// Where the elements of a batch of matrices are: in stored rows without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    /// Whether the stored rows are the matrix's columns.
    pub is_transposed: bool,
    /// Elements from one stored row to the next. If there is no second one, a multiple of 128 bytes.
    pub stride: u64,
    /// The number of matrices; 0 if they are empty.
    pub batch: usize,
    /// Elements from one matrix to the next; 0 if there is one for the whole batch.
    pub batch_stride: u64,
}

impl Stored {
    /// The last two axes as a matrix, and those before as the batch. A vector counts as one row.
    pub fn new(layout: &Layout, may_be_transposed: bool) -> Result<Self, Error> {
        let (shape, strides, first) = (layout.shape(), layout.strides(), layout.shape().len() - 2);
        let [rows, cols] = [shape[first], shape[first + 1]];
        let [row_stride, col_stride] = [strides[first], strides[first + 1]];
        // An axis of one index has no stride.
        let is_stored = |rows, row_stride, cols, col_stride| {
            (cols <= 1 || col_stride == 1) && (rows <= 1 || row_stride >= cols)
        };
        let is_plain = is_stored(rows, row_stride, cols, col_stride);
        let is_transposed = may_be_transposed && is_stored(cols, col_stride, rows, row_stride);
        let is_transposed = is_transposed && (!is_plain || rows > cols);
        if !is_plain && !is_transposed {
            return Err(layout.unfit(match may_be_transposed {
                true => "rows or columns without gaps that do not overlap",
                false => "rows without gaps that do not overlap",
            }));
        }
        let merged = if layout.is_empty() { Some([0, 0]) } else { layout.merged(0..first) };
        let [batch, batch_stride] = merged.ok_or_else(|| layout.unfit("matrices at equal distances"))?;
        let [stored_rows, stored_cols, stride] = match is_transposed {
            true => [cols, rows, col_stride],
            false => [rows, cols, row_stride],
        };
        let is_used = stored_rows > 1 && !layout.is_empty();
        // Kernels refuse longer rows.
        let unused = || stored_cols.checked_next_multiple_of(LINE).unwrap_or(0);
        let stride = if is_used { stride } else { unused() } as u64;
        Ok(Self { is_transposed, stride, batch, batch_stride: batch_stride as u64 })
    }

    /// Whether each stored row starts at a multiple of `bytes` bytes.
    pub fn is_aligned<T>(&self, pointer: *mut T, bytes: usize) -> bool {
        let is_multiple = |elements: u64| is_multiple_of::<T>(elements, bytes);
        pointer.addr().is_multiple_of(bytes) && is_multiple(self.stride) && is_multiple(self.batch_stride)
    }
}

/// Whether the bytes of `elements` are a multiple of `bytes`.
pub(super) fn is_multiple_of<T>(elements: u64, bytes: usize) -> bool {
    (elements * size_of::<T>() as u64).is_multiple_of(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::{Layout, Stored};

    fn stored(shape: [usize; 2], strides: [usize; 2]) -> Option<(bool, u64)> {
        let stored = Stored::new(&Layout::strided(shape, strides), true).ok()?;
        Some((stored.is_transposed, stored.stride))
    }

    #[test]
    fn strides_tell_how_a_matrix_is_stored() {
        assert_eq!(stored([3, 5], [8, 1]), Some((false, 8)));
        assert_eq!(stored([3, 5], [1, 3]), Some((true, 3)));
        for strides in [[4, 1], [1, 2], [5, 2], [0, 1], [1, 0]] {
            assert_eq!(stored([3, 5], strides), None, "{strides:?}");
        }
        assert_eq!(Stored::new(&Layout::strided([3, 5], [1, 3]), false).ok(), None);
    }

    #[test]
    fn a_vector_is_one_row_whatever_its_unused_stride() {
        for unused in [0, 1, 5, usize::MAX] {
            assert_eq!(stored([1, 5], [unused, 1]), Some((false, 64)), "{unused}");
            assert_eq!(stored([5, 1], [1, unused]), Some((true, 64)), "{unused}");
            assert_eq!(stored([1, 5], [unused, 7]), Some((true, 7)), "{unused}");
            assert_eq!(stored([5, 1], [7, unused]), Some((false, 7)), "{unused}");
            assert_eq!(stored([1, 1], [unused, unused]), Some((false, 64)), "{unused}");
        }
        let out = Stored::new(&Layout::strided([5, 1], [1, 0]), false).unwrap();
        assert_eq!((out.is_transposed, out.stride), (false, 1));
    }

    #[test]
    fn axes_in_front_are_a_batch_if_their_distances_are_equal() {
        let batch = |strides| {
            let stored = Stored::new(&Layout::strided([2, 3, 4, 5], strides), true);
            stored.ok().map(|stored| (stored.batch, stored.batch_stride))
        };
        assert_eq!(batch([60, 20, 5, 1]), Some((6, 20)));
        assert_eq!(batch([0, 0, 5, 1]), Some((6, 0)));
        assert_eq!(batch([90, 30, 1, 4]), Some((6, 30)));
        assert_eq!([batch([0, 20, 5, 1]), batch([61, 20, 5, 1])], [None; 2]);
    }
}
