//! Matrices in the memory of a device.

use bytemuck::Pod;
use cuda_std::launch::{PtrMutArg, RawBuffer};

use super::SoftmaxError;
use crate::device::{BufferView, BufferViewMut, Device};

/// The rows, the columns, and the number of elements from one row to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Layout {
    rows: usize,
    cols: usize,
    stride: usize,
}

impl Layout {
    /// Checks the extents against a view of `len` elements. The last row needs only `cols` of them.
    fn checked(rows: usize, cols: usize, stride: usize, len: usize) -> Result<Self, SoftmaxError> {
        if stride < cols {
            return Err(SoftmaxError::StrideTooSmall { stride, cols });
        }
        let needed = match rows {
            0 => Some(0),
            _ => (rows - 1).checked_mul(stride).and_then(|before| before.checked_add(cols)),
        };
        if needed.is_none_or(|needed| needed > len) {
            return Err(SoftmaxError::ViewTooShort { rows, cols, stride, len });
        }
        Ok(Self { rows, cols, stride })
    }
}

/// A row-major matrix that is read: `rows` rows of `cols` elements, one every [`stride`](Self::stride) elements.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{Matrix, SoftmaxError};
///
/// let buffer = Device::cpu().upload(&[1.0f32, 2.0, 0.0, 3.0, 4.0])?;
/// let matrix = Matrix::new(&buffer, 2, 2)?.with_stride(3)?; // [[1, 2], [3, 4]]
/// assert_eq!((matrix.rows(), matrix.cols(), matrix.stride()), (2, 2, 3));
/// # Ok::<(), SoftmaxError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Matrix<'a, T> {
    view: BufferView<'a, T>,
    layout: Layout,
}

/// A matrix that is written, or read and written in place; the elements between its rows are left alone.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::softmax::{MatrixMut, Options, SoftmaxError, softmax_in_place};
///
/// let device = Device::cpu();
/// let mut buffer = device.upload(&[1.0f32, 1.0, 9.0, 2.0, 2.0])?;
/// let mut matrix = MatrixMut::new(&mut buffer, 2, 2)?.with_stride(3)?;
/// softmax_in_place(&device, &mut matrix, &Options::new())?;
/// assert_eq!(buffer.to_vec()?, [0.5, 0.5, 9.0, 0.5, 0.5]);
/// # Ok::<(), SoftmaxError>(())
/// ```
pub struct MatrixMut<'a, T> {
    view: BufferViewMut<'a, T>,
    layout: Layout,
}

impl<'a, T: Pod> Matrix<'a, T> {
    /// The first `rows * cols` elements of a buffer or a view, one row after the other.
    ///
    /// # Errors
    /// The view has fewer elements.
    pub fn new(view: impl Into<BufferView<'a, T>>, rows: usize, cols: usize) -> Result<Self, SoftmaxError> {
        let view = view.into();
        let layout = Layout::checked(rows, cols, cols, view.len())?;
        Ok(Self { view, layout })
    }

    /// Sets the stride: a row every `stride` elements. Nothing is needed after the last row.
    ///
    /// # Errors
    /// The stride is less than the columns, or the view ends before the last row does.
    pub fn with_stride(self, stride: usize) -> Result<Self, SoftmaxError> {
        let layout = Layout::checked(self.layout.rows, self.layout.cols, stride, self.view.len())?;
        Ok(Self { layout, ..self })
    }

    /// The elements as a launch argument.
    pub(crate) fn raw(&self) -> RawBuffer<T> {
        RawBuffer::read(self.view)
    }
}

impl<'a, T: Pod> MatrixMut<'a, T> {
    /// The first `rows * cols` elements of a buffer or a view, one row after the other.
    ///
    /// # Errors
    /// The view has fewer elements.
    pub fn new(
        view: impl Into<BufferViewMut<'a, T>>,
        rows: usize,
        cols: usize,
    ) -> Result<Self, SoftmaxError> {
        let view = view.into();
        let layout = Layout::checked(rows, cols, cols, view.len())?;
        Ok(Self { view, layout })
    }

    /// Sets the stride: a row every `stride` elements. Nothing is needed after the last row.
    ///
    /// # Errors
    /// The stride is less than the columns, or the view ends before the last row does.
    pub fn with_stride(self, stride: usize) -> Result<Self, SoftmaxError> {
        let layout = Layout::checked(self.layout.rows, self.layout.cols, stride, self.view.len())?;
        Ok(Self { layout, ..self })
    }

    /// The elements as a launch argument.
    pub(crate) fn raw(&mut self) -> RawBuffer<T> {
        let view = &mut self.view;
        let (bytes, residence) = (Some(view.len() * size_of::<T>()), view.device().residence());
        RawBuffer { pointer: PtrMutArg::<T>::as_raw_mut_ptr(view), bytes, residence }
    }
}

/// The extents of a matrix.
macro_rules! extents {
    ($($matrix:ident),*) => {$(
        impl<'a, T: Pod> $matrix<'a, T> {
            /// Number of rows.
            pub fn rows(&self) -> usize {
                self.layout.rows
            }

            /// Elements of a row.
            pub fn cols(&self) -> usize {
                self.layout.cols
            }

            /// Elements from the start of one row to the start of the next.
            pub fn stride(&self) -> usize {
                self.layout.stride
            }

            pub(crate) fn device(&self) -> &'a Device {
                self.view.device()
            }

            pub(crate) fn shape(&self) -> [usize; 2] {
                [self.layout.rows, self.layout.cols]
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
        let fits = |rows, cols, stride, len| Layout::checked(rows, cols, stride, len).is_ok();
        assert!(fits(3, 5, 8, 21) && !fits(3, 5, 8, 20));
        assert!(fits(1, 5, 1000, 5) && fits(0, 5, 5, 0) && fits(5, 0, 0, 0));
        assert!(!fits(3, 5, 4, 100));
        assert!(!fits(usize::MAX, 2, usize::MAX, 100) && !fits(usize::MAX, 1, 1, usize::MAX - 1));
        assert!(fits(usize::MAX, 1, 1, usize::MAX) && !fits(2, usize::MAX, usize::MAX, usize::MAX));
    }
}
