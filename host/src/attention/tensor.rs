//! Tensors in the memory of a device.

use attention_kernels::args::Strides;
use bytemuck::Pod;
use cuda_std::launch::{PtrMutArg, RawBuffer};

use super::AttentionError;
use crate::device::{BufferView, BufferViewMut, Device};

/// Where the elements of a tensor are stored. The elements of a row (one head of one position) are contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Batch, length, heads and head size.
    pub shape: [usize; 4],
    /// Elements from one batch entry, position and head to the next.
    pub strides: [usize; 3],
}

impl Layout {
    /// The dense layout, if it does not overflow and fits a view of `len` elements.
    fn dense(shape: [usize; 4], len: usize) -> Result<Self, AttentionError> {
        let [_, length, heads, size] = shape;
        let position = heads.checked_mul(size);
        let strides = position.and_then(|position| Some([length.checked_mul(position)?, position, size]));
        let strides = strides.ok_or(AttentionError::ViewTooShort { shape, strides: [0; 3], len })?;
        Self { shape, strides }.checked(len)
    }

    /// The layout, if it fits a view of `len` elements.
    fn checked(self, len: usize) -> Result<Self, AttentionError> {
        let Self { shape, strides } = self;
        let last =
            || (0..3).try_fold(shape[3], |end, i| (shape[i] - 1).checked_mul(strides[i])?.checked_add(end));
        let needed = if self.is_empty() { Some(0) } else { last() };
        if needed.is_none_or(|needed| needed > len) {
            return Err(AttentionError::ViewTooShort { shape, strides, len });
        }
        Ok(self)
    }

    /// The layout, if its rows do not overlap either.
    fn checked_for_writes(self, len: usize) -> Result<Self, AttentionError> {
        let this = self.checked(len)?;
        if this.is_empty() {
            return Ok(this);
        }
        let Self { shape, strides } = this;
        let mut dimensions = [0, 1, 2].map(|i| (strides[i], shape[i]));
        dimensions.sort_unstable();
        let mut extent = shape[3];
        for (stride, count) in dimensions {
            if count > 1 && stride < extent {
                return Err(AttentionError::RowsOverlap { shape, strides });
            }
            if count > 1 {
                // At most the end of the last row, which fits the view.
                extent += (count - 1) * stride;
            }
        }
        Ok(this)
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.shape.contains(&0)
    }

    /// Whether the rows follow each other without gaps, in the order of the dimensions.
    pub fn is_dense(&self) -> bool {
        let [_, length, heads, size] = self.shape;
        // The extents of an empty tensor may be anything.
        let position = heads.saturating_mul(size);
        self.strides == [length.saturating_mul(position), position, size]
    }

    /// The strides as kernels take them.
    pub fn strides(&self) -> Strides {
        let [batch, length, head] = self.strides.map(|stride| stride as u64);
        Strides { batch, length, head }
    }

    /// Whether every row of a tensor at this address starts at a multiple of 16 bytes, and no stride makes rows coincide.
    pub fn is_aligned<T>(&self, pointer: *const T) -> bool {
        let is_aligned = |i: usize| {
            let bytes = self.strides[i].wrapping_mul(size_of::<T>());
            self.shape[i] <= 1 || bytes.is_multiple_of(16) && bytes > 0
        };
        pointer.addr().is_multiple_of(16) && (0..3).all(is_aligned)
    }
}

/// A tensor `[batch, length, heads, head size]` that is read. Elements between the rows are not read.
///
/// ```
/// use ferrowarp::attention::{AttentionError, Tensor};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// // Q, K and V of 5 positions and 2 heads of 64 elements, next to each other for each position.
/// let buffer = Device::cpu().alloc_zeroed::<bf16>(5 * 3 * 2 * 64)?;
/// let strides = [0, 3 * 2 * 64, 64];
/// let k = Tensor::with_strides(buffer.view(2 * 64..)?, [1, 5, 2, 64], strides)?;
/// assert_eq!((k.shape(), k.strides()), ([1, 5, 2, 64], strides));
/// # Ok::<(), AttentionError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Tensor<'a, T> {
    view: BufferView<'a, T>,
    pub(super) layout: Layout,
}

/// A tensor `[batch, length, heads, head size]` that is written. Elements between the rows are left alone.
///
/// ```
/// use ferrowarp::attention::{AttentionError, TensorMut};
/// use ferrowarp::bf16;
/// use ferrowarp::device::Device;
///
/// // In memory, all positions of a head follow each other.
/// let mut buffer = Device::cpu().alloc_zeroed::<bf16>(2 * 5 * 64)?;
/// let out = TensorMut::with_strides(&mut buffer, [1, 5, 2, 64], [2 * 5 * 64, 64, 5 * 64])?;
/// assert_eq!(out.shape(), [1, 5, 2, 64]);
/// # Ok::<(), AttentionError>(())
/// ```
pub struct TensorMut<'a, T> {
    view: BufferViewMut<'a, T>,
    pub(super) layout: Layout,
}

impl<'a, T: Pod> Tensor<'a, T> {
    /// Makes a dense tensor of a view's first elements, in the order of the dimensions: batch, length, heads, head size.
    ///
    /// # Errors
    /// The view has fewer elements.
    pub fn new(view: impl Into<BufferView<'a, T>>, shape: [usize; 4]) -> Result<Self, AttentionError> {
        let view = view.into();
        let layout = Layout::dense(shape, view.len())?;
        Ok(Self { view, layout })
    }

    /// Makes a tensor with strides: elements from one batch entry, position and head to the next. Nothing is needed after
    /// the last row.
    ///
    /// # Errors
    /// The view ends before the last row does.
    pub fn with_strides(
        view: impl Into<BufferView<'a, T>>,
        shape: [usize; 4],
        strides: [usize; 3],
    ) -> Result<Self, AttentionError> {
        let view = view.into();
        let layout = Layout { shape, strides }.checked(view.len())?;
        Ok(Self { view, layout })
    }

    /// The elements as a launch argument.
    pub(super) fn raw(&self) -> RawBuffer<T> {
        RawBuffer::read(self.view)
    }
}

impl<'a, T: Pod> TensorMut<'a, T> {
    /// Makes a dense tensor of a view's first elements, in the order of the dimensions: batch, length, heads, head size.
    ///
    /// # Errors
    /// The view has fewer elements.
    pub fn new(view: impl Into<BufferViewMut<'a, T>>, shape: [usize; 4]) -> Result<Self, AttentionError> {
        let view = view.into();
        let layout = Layout::dense(shape, view.len())?;
        Ok(Self { view, layout })
    }

    /// Makes a tensor with strides: elements from one batch entry, position and head to the next. Nothing is needed after
    /// the last row.
    ///
    /// # Errors
    /// The view ends before the last row does, or rows overlap.
    pub fn with_strides(
        view: impl Into<BufferViewMut<'a, T>>,
        shape: [usize; 4],
        strides: [usize; 3],
    ) -> Result<Self, AttentionError> {
        let view = view.into();
        let layout = Layout { shape, strides }.checked_for_writes(view.len())?;
        Ok(Self { view, layout })
    }

    /// The elements as a launch argument.
    pub(super) fn raw(&mut self) -> RawBuffer<T> {
        raw_mut(&mut self.view)
    }
}

/// The elements of a view as a launch argument.
pub(super) fn raw_mut<T: Pod>(view: &mut BufferViewMut<'_, T>) -> RawBuffer<T> {
    let (bytes, residence) = (Some(view.len() * size_of::<T>()), view.device().residence());
    RawBuffer { pointer: PtrMutArg::<T>::as_raw_mut_ptr(view), bytes, residence }
}

macro_rules! extents {
    ($($tensor:ident),*) => {$(
        impl<'a, T: Pod> $tensor<'a, T> {
            /// Batch, length, heads and head size.
            pub fn shape(&self) -> [usize; 4] {
                self.layout.shape
            }

            /// Elements from one batch entry, position and head to the next.
            pub fn strides(&self) -> [usize; 3] {
                self.layout.strides
            }

            pub(super) fn device(&self) -> &'a Device {
                self.view.device()
            }
        }
    )*};
}

extents! { Tensor, TensorMut }

#[cfg(test)]
mod tests {
    use super::Layout;

    #[test]
    fn layouts_are_checked_without_overflow() {
        let fits = |shape, strides, len| Layout { shape, strides }.checked(len).is_ok();
        assert!(fits([2, 3, 4, 8], [96, 32, 8], 192) && !fits([2, 3, 4, 8], [96, 32, 8], 191));
        assert!(fits([2, 3, 4, 8], [0, 0, 0], 8) && fits([0, 3, 4, 8], [9, 9, 9], 0));
        assert!(!fits([3, 3, 3, 3], [usize::MAX, 1, 1], 100));
        assert!(Layout::dense([usize::MAX, 2, 2, 2], 100).is_err());
    }

    #[test]
    fn written_rows_do_not_overlap() {
        let is_fine = |strides| Layout { shape: [2, 3, 4, 8], strides }.checked_for_writes(1000).is_ok();
        assert!(is_fine([96, 32, 8]) && is_fine([96, 8, 24]) && is_fine([8, 16, 48]));
        assert!(!is_fine([95, 32, 8]) && !is_fine([96, 32, 7]) && !is_fine([96, 0, 8]));
        let error =
            Layout { shape: [2, 3, 4, 8], strides: [96, 31, 8] }.checked_for_writes(1000).unwrap_err();
        assert!(error.to_string().contains("strides [96, 31, 8]"), "{error}");
    }
}
