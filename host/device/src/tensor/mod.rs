//! Tensors in the memory of a device, and views of them.

#[cfg(feature = "ndarray")]
mod array;
pub(crate) mod layout;
pub(crate) mod owned;

use std::fmt;
use std::ops::RangeBounds;

use bytemuck::Pod;
use cuda_std::launch::RawBuffer;

use crate::device::buffer::{Buffer, BufferView, BufferViewMut, bounds};
use crate::device::error::DeviceError;
use crate::device::handle::Device;
use crate::error::Error;

pub use layout::Shape;
#[doc(hidden)]
pub use layout::{Layout, Rows};
pub use owned::Tensor;

/// A tensor of 1 to 4 axes that is read: a view of a [`Tensor`], a [`Buffer`] or memory of another library, with strides.
///
/// It is a pointer, a shape and strides; copying a view copies no elements. Every operation takes `&tensor`, `&buffer` (one axis) or
/// a view.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, TensorView};
///
/// let buffer = Device::cpu().upload(&[1.0f32, 2.0, 0.0, 3.0, 4.0])?;
/// let matrix = TensorView::with_strides(&buffer, [2, 2], [3, 1])?; // [[1, 2], [3, 4]]
/// assert_eq!(matrix.t().to_vec()?, [1.0, 3.0, 2.0, 4.0]);
/// assert_eq!(matrix.slice(1, 1..)?.to_vec()?, [2.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct TensorView<'a, T> {
    /// From the first element to the last.
    elements: BufferView<'a, T>,
    layout: Layout,
}

/// A tensor of 1 to 4 axes that is written, or read and written in place. Elements between its own are left alone.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Softmax, TensorViewMut};
///
/// let device = Device::cpu();
/// let mut buffer = device.upload(&[1.0f32, 1.0, 9.0, 2.0, 2.0])?;
/// Softmax::new().run_in_place(&device, TensorViewMut::with_strides(&mut buffer, [2, 2], [3, 1])?)?;
/// assert_eq!(buffer.to_vec()?, [0.5, 0.5, 9.0, 0.5, 0.5]);
/// # Ok::<(), Error>(())
/// ```
pub struct TensorViewMut<'a, T> {
    elements: BufferViewMut<'a, T>,
    layout: Layout,
}

impl<T: Pod> TensorView<'_, T> {
    /// Repeats the tensor along axes of extent 1, and along new ones in front of the others, until it has this shape. Nothing is
    /// copied. Not every operation takes a repeated operand.
    ///
    /// # Errors
    /// An extent is neither 1 nor that of the shape, or the shape has fewer axes.
    pub fn broadcast(self, shape: impl Into<Shape>) -> Result<Self, Error> {
        Ok(Self { layout: self.layout.broadcast(shape.into())?, ..self })
    }

    /// Copies the elements into a vector, in the order of the axes, after all work queued on the device.
    ///
    /// # Errors
    /// The host is out of memory, or the device failed, now or in an earlier kernel.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        let len = self.layout.shape().elements();
        let all = self.elements.to_vec()?;
        if self.layout.is_dense() && all.len() == len {
            return Ok(all);
        }
        let mut elements = Vec::new();
        elements.try_reserve_exact(len).map_err(|error| DeviceError::OutOfMemory {
            device: "the host".to_owned(),
            elements: len,
            element_bytes: size_of::<T>(),
            reason: error.to_string(),
            memory: None,
        })?;
        self.layout.for_each(|offset| elements.push(all[offset]));
        Ok(elements)
    }

    /// The elements as a launch argument.
    #[doc(hidden)]
    pub fn raw(&self) -> RawBuffer<T> {
        RawBuffer::read(self.elements)
    }
}

impl<T: Pod> TensorViewMut<'_, T> {
    /// Reborrows the tensor, to pass it to an operation and keep it.
    pub fn reborrow(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut { elements: self.elements.reborrow(), layout: self.layout }
    }

    /// Reborrows the tensor for reading.
    pub fn as_view(&self) -> TensorView<'_, T> {
        TensorView { elements: self.elements.as_view(), layout: self.layout }
    }

    /// The elements as a launch argument.
    #[doc(hidden)]
    pub fn raw(&mut self) -> RawBuffer<T> {
        RawBuffer::written(&mut self.elements)
    }
}

/// A view as an operand of an operation.
#[doc(hidden)]
pub trait Operand {
    /// Its shape and strides.
    fn layout(&self) -> &Layout;
    /// The device that owns its memory.
    fn device(&self) -> &Device;
}

macro_rules! views {
    ($($view:ident of $elements:ident from $pointer:ty, $overlap:literal $(with $check:ident)?;)*) => {$(
        impl<'a, T: Pod> $view<'a, T> {
            /// Views the first elements of a buffer or a view, in the order of the axes.
            ///
            /// # Errors
            /// There are fewer elements.
            pub fn new(elements: impl Into<$elements<'a, T>>, shape: impl Into<Shape>) -> Result<Self, Error> {
                Self::of(elements.into(), Layout::dense(shape.into()))
            }

            /// Views elements of a buffer or a view with strides: elements from one index of each axis to the next, from the first
            /// element on. Nothing is needed after the last element.
            ///
            /// # Errors
            #[doc = concat!("The elements end before the last one of the tensor", $overlap, ".")]
            pub fn with_strides<const RANK: usize>(
                elements: impl Into<$elements<'a, T>>,
                shape: [usize; RANK],
                strides: [usize; RANK],
            ) -> Result<Self, Error>
            where
                Shape: From<[usize; RANK]>,
            {
                Self::of(elements.into(), Layout::strided(shape, strides))
            }

            fn of(elements: $elements<'a, T>, layout: Layout) -> Result<Self, Error> {
                let needed = layout.needed(elements.len())?;
                $(layout.$check()?;)?
                Ok(Self { elements: elements.part(0, needed), layout })
            }

            /// Views memory of another library.
            ///
            /// # Errors
            #[doc = concat!("The strides are larger than an address space", $overlap, ".")]
            ///
            /// # Safety
            #[doc = concat!("As for [`", stringify!($elements), "::from_raw`], for all elements from the first to the last.")]
            pub unsafe fn from_raw<const RANK: usize>(
                device: &'a Device,
                pointer: $pointer,
                shape: [usize; RANK],
                strides: [usize; RANK],
            ) -> Result<Self, Error>
            where
                Shape: From<[usize; RANK]>,
            {
                let layout = Layout::strided(shape, strides);
                let len = layout.needed(isize::MAX as usize / size_of::<T>().max(1))?;
                // SAFETY: the caller's contract.
                Self::of(unsafe { $elements::from_raw(device, pointer, len) }, layout)
            }

            /// The extents of the axes.
            pub fn shape(&self) -> Shape {
                self.layout.shape()
            }

            /// Elements from one index of each axis to the next.
            pub fn strides(&self) -> &[usize] {
                self.layout.strides()
            }

            /// The device that owns the memory.
            pub fn device(&self) -> &'a Device {
                self.elements.device()
            }

            /// Exchanges the last two axes; a tensor of one axis stays as it is. Nothing is copied.
            pub fn t(self) -> Self {
                let last = self.shape().len() - 1;
                let layout = self.layout.swapped(last, last.saturating_sub(1)).expect("these axes exist");
                Self { layout, ..self }
            }

            /// Exchanges two axes. Nothing is copied.
            ///
            /// # Errors
            /// There is no such axis.
            pub fn swap_axes(self, a: usize, b: usize) -> Result<Self, Error> {
                Ok(Self { layout: self.layout.swapped(a, b)?, ..self })
            }

            /// Takes some indices of an axis.
            ///
            /// # Errors
            /// There is no such axis, or the range is not within it.
            pub fn slice(self, axis: usize, range: impl RangeBounds<usize>) -> Result<Self, Error> {
                let len = self.shape().get(axis).copied().unwrap_or(0);
                let [start, end] = bounds(range, len);
                let (layout, first) = self.layout.sliced(axis, [start, end])?;
                let needed = layout.needed(self.elements.len() - first)?;
                Ok(Self { elements: self.elements.part(first, needed), layout })
            }

            /// Gives the tensor another shape with as many elements.
            ///
            /// # Errors
            /// The number of elements differs, or there are gaps between them.
            pub fn reshape(self, shape: impl Into<Shape>) -> Result<Self, Error> {
                Ok(Self { layout: self.layout.reshaped(shape.into())?, ..self })
            }
        }

        impl<T: Pod> Operand for $view<'_, T> {
            fn layout(&self) -> &Layout {
                &self.layout
            }

            fn device(&self) -> &Device {
                self.elements.device()
            }
        }

        impl<T: Pod> fmt::Debug for $view<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let (shape, strides, at) = (self.shape(), self.strides(), self.elements.device().residence());
                write!(f, "{}({shape}, strides {strides:?}, in the memory of {at})", stringify!($view))
            }
        }
    )*};
}

views! {
    TensorView of BufferView from *const T, "";
    TensorViewMut of BufferViewMut from *mut T, ", or several indices name the same element" with check_overlap;
}

/// Conversions to views.
macro_rules! conversions {
    ($view:ident, $elements:ident: $($name:ident: $from:ty => $of:expr),*) => {
        impl<'a, T: Pod> From<$elements<'a, T>> for $view<'a, T> {
            /// All elements, as a tensor of one axis.
            fn from(elements: $elements<'a, T>) -> Self {
                let layout = Layout::dense([elements.len()].into());
                Self { elements, layout }
            }
        }

        $(
            impl<'a, T: Pod> From<$from> for $view<'a, T> {
                fn from($name: $from) -> Self {
                    $of
                }
            }
        )*
    };
}

conversions! { TensorView, BufferView:
    buffer: &'a Buffer<T> => BufferView::from(buffer).into(),
    tensor: &'a Tensor<T> => tensor.view(),
    view: &'a TensorViewMut<'_, T> => view.as_view()
}

conversions! { TensorViewMut, BufferViewMut:
    buffer: &'a mut Buffer<T> => BufferViewMut::from(buffer).into(),
    tensor: &'a mut Tensor<T> => tensor.view_mut(),
    view: &'a mut TensorViewMut<'_, T> => view.reborrow()
}

impl<'a, T> From<&TensorView<'a, T>> for TensorView<'a, T> {
    fn from(view: &TensorView<'a, T>) -> Self {
        TensorView { ..*view }
    }
}
