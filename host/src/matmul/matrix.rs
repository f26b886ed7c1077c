//! Matrices and batches of matrices in the memory of a device.

use bytemuck::Pod;
use cuda_std::launch::{PtrMutArg, RawBuffer};

use super::MatmulError;
use crate::device::{BufferView, BufferViewMut, Device};

/// Where the elements of a batch of matrices are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Stored rows.
    pub rows: usize,
    /// Elements of a stored row.
    pub cols: usize,
    /// Elements from one stored row to the next.
    pub stride: usize,
    /// The number of matrices.
    pub batch: usize,
    /// Elements from one matrix to the next.
    pub batch_stride: usize,
    /// Whether the matrix is stored transposed.
    pub is_transposed: bool,
}

impl Layout {
    const fn dense(rows: usize, cols: usize) -> Self {
        Self { rows, cols, stride: cols, batch: 1, batch_stride: 0, is_transposed: false }
    }

    /// Elements from the first to the last of a matrix, or `None` on overflow.
    fn extent(&self) -> Option<usize> {
        match self.rows.min(self.cols) {
            0 => Some(0),
            _ => (self.rows - 1).checked_mul(self.stride)?.checked_add(self.cols),
        }
    }

    /// The layout, if its rows do not overlap and it fits a view of `len` elements.
    fn checked(self, len: usize) -> Result<Self, MatmulError> {
        let Self { rows, cols, stride, batch, batch_stride, .. } = self;
        if stride < cols {
            return Err(MatmulError::StrideTooSmall { stride, cols });
        }
        let needed = match batch {
            0 => Some(0),
            _ => self.extent().and_then(|extent| (batch - 1).checked_mul(batch_stride)?.checked_add(extent)),
        };
        if needed.is_none_or(|needed| needed > len) {
            return Err(MatmulError::ViewTooShort { batch, rows, cols, stride, batch_stride, len });
        }
        Ok(self)
    }

    /// The layout, if the matrices of a batch do not overlap either.
    fn checked_for_writes(self, len: usize) -> Result<Self, MatmulError> {
        let this = self.checked(len)?;
        match this.extent() {
            Some(needed) if this.batch > 1 && this.batch_stride < needed => {
                let Self { rows, cols, batch_stride: stride, .. } = this;
                Err(MatmulError::BatchOverlaps { rows, cols, stride, needed })
            }
            _ => Ok(this),
        }
    }

    /// Rows and columns of the matrix.
    pub fn shape(&self) -> [usize; 2] {
        if self.is_transposed { [self.cols, self.rows] } else { [self.rows, self.cols] }
    }
}

/// A matrix that is read, or a batch of matrices. Elements between the rows are not read.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{MatmulError, Matrix};
///
/// let buffer = Device::cpu().upload(&[1.0f32, 2.0, 0.0, 3.0, 4.0, 0.0])?;
/// let matrix = Matrix::new(&buffer, 2, 2)?.with_stride(3)?; // [[1, 2], [3, 4]]
/// let transpose = matrix.transposed(); // [[1, 3], [2, 4]]
/// assert_eq!((transpose.rows(), transpose.cols(), transpose.stride()), (2, 2, 3));
/// # Ok::<(), MatmulError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    view: BufferView<'a, T>,
    pub(super) layout: Layout,
}

/// A matrix that is written, or a batch of matrices. Elements between the rows are left alone.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::matmul::{MatmulError, MatrixMut};
///
/// let mut buffer = Device::cpu().alloc_zeroed::<f32>(12)?;
/// let batch = MatrixMut::new(&mut buffer, 2, 3)?.with_batch(2, 6)?;
/// assert_eq!((batch.rows(), batch.cols(), batch.batch()), (2, 3, 2));
/// # Ok::<(), MatmulError>(())
/// ```
pub struct MatrixMut<'a, T> {
    view: BufferViewMut<'a, T>,
    pub(super) layout: Layout,
}

impl<'a, T: Pod> Matrix<'a, T> {
    /// The first `rows * cols` elements of a buffer or a view, row-major.
    ///
    /// # Errors
    /// The view has fewer elements.
    pub fn new(view: impl Into<BufferView<'a, T>>, rows: usize, cols: usize) -> Result<Self, MatmulError> {
        let view = view.into();
        let layout = Layout::dense(rows, cols).checked(view.len())?;
        Ok(Self { view, layout })
    }

    /// Sets the stride: a stored row every `stride` elements. Nothing is needed after the last row.
    ///
    /// # Errors
    /// The stride is smaller than a stored row, or the view ends before the last row does.
    pub fn with_stride(self, stride: usize) -> Result<Self, MatmulError> {
        let layout = Layout { stride, ..self.layout }.checked(self.view.len())?;
        Ok(Self { layout, ..self })
    }

    /// Makes a batch: `batch` matrices of this shape, one every `stride` elements. With a stride of 0, all are this matrix.
    ///
    /// # Errors
    /// The view ends before the last matrix does.
    pub fn with_batch(self, batch: usize, stride: usize) -> Result<Self, MatmulError> {
        let layout = Layout { batch, batch_stride: stride, ..self.layout }.checked(self.view.len())?;
        Ok(Self { layout, ..self })
    }

    /// Transposes the matrix. Nothing is copied: the kernels read the stored elements the other way.
    pub fn transposed(mut self) -> Self {
        self.layout.is_transposed = !self.layout.is_transposed;
        self
    }

    /// Whether the matrix is stored transposed.
    pub fn is_transposed(&self) -> bool {
        self.layout.is_transposed
    }

    /// The elements as a launch argument.
    pub(super) fn raw(&self) -> RawBuffer<T> {
        RawBuffer::read(self.view)
    }
}

impl<'a, T: Pod> MatrixMut<'a, T> {
    /// The first `rows * cols` elements of a buffer or a view, row-major.
    ///
    /// # Errors
    /// The view has fewer elements.
    pub fn new(view: impl Into<BufferViewMut<'a, T>>, rows: usize, cols: usize) -> Result<Self, MatmulError> {
        let view = view.into();
        let layout = Layout::dense(rows, cols).checked_for_writes(view.len())?;
        Ok(Self { view, layout })
    }

    /// Sets the stride: a row every `stride` elements. Nothing is needed after the last row.
    ///
    /// # Errors
    /// The stride is smaller than a row, the view ends before the last row does, or matrices of the batch overlap.
    pub fn with_stride(self, stride: usize) -> Result<Self, MatmulError> {
        let layout = Layout { stride, ..self.layout }.checked_for_writes(self.view.len())?;
        Ok(Self { layout, ..self })
    }

    /// Makes a batch of this shape, one matrix every `stride` elements.
    ///
    /// # Errors
    /// The matrices overlap, or the view ends before the last one does.
    pub fn with_batch(self, batch: usize, stride: usize) -> Result<Self, MatmulError> {
        let layout =
            Layout { batch, batch_stride: stride, ..self.layout }.checked_for_writes(self.view.len())?;
        Ok(Self { layout, ..self })
    }

    /// The elements as a launch argument.
    pub(super) fn raw(&mut self) -> RawBuffer<T> {
        let view = &mut self.view;
        let (bytes, residence) = (Some(view.len() * size_of::<T>()), view.device().residence());
        RawBuffer { pointer: PtrMutArg::<T>::as_raw_mut_ptr(view), bytes, residence }
    }
}

macro_rules! extents {
    ($($matrix:ident),*) => {$(
        impl<'a, T: Pod> $matrix<'a, T> {
            /// Number of rows.
            pub fn rows(&self) -> usize {
                self.layout.shape()[0]
            }

            /// Number of columns.
            pub fn cols(&self) -> usize {
                self.layout.shape()[1]
            }

            /// Elements from one stored row to the next.
            pub fn stride(&self) -> usize {
                self.layout.stride
            }

            /// Number of matrices.
            pub fn batch(&self) -> usize {
                self.layout.batch
            }

            pub(super) fn device(&self) -> &'a Device {
                self.view.device()
            }
        }
    )*};
}

extents! { Matrix, MatrixMut }

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn layouts_are_checked_without_overflow() {
        let fits = |rows, cols, stride, batch, batch_stride, len| {
            Layout { stride, batch, batch_stride, ..Layout::dense(rows, cols) }.checked(len).is_ok()
        };
        assert!(fits(3, 5, 8, 1, 0, 21) && !fits(3, 5, 8, 1, 0, 20) && !fits(3, 5, 4, 1, 0, 100));
        assert!(fits(3, 5, 8, 2, 30, 51) && !fits(3, 5, 8, 2, 30, 50) && fits(3, 5, 8, 9, 0, 21));
        assert!(fits(0, 5, 5, 3, 0, 0) && fits(5, 0, 0, 3, 0, 0) && fits(5, 5, 5, 0, 0, 0));
        assert!(!fits(usize::MAX, 2, usize::MAX, 1, 0, 100) && !fits(2, 2, 2, usize::MAX, usize::MAX, 100));
    }

    #[test]
    fn written_matrices_do_not_overlap() {
        let layout = Layout { batch: 2, batch_stride: 20, ..Layout { stride: 8, ..Layout::dense(3, 5) } };
        let error = layout.checked_for_writes(100).unwrap_err().to_string();
        assert!(error.contains("every 20 elements") && error.contains("at least 21"), "{error}");
        assert!(layout.checked(100).is_ok());
        assert!(Layout { batch_stride: 21, ..layout }.checked_for_writes(100).is_ok());
    }
}
