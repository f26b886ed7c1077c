//! Tensors that own their memory.

use std::fmt;

use bytemuck::Pod;

use super::layout::{Layout, Shape};
use super::{TensorView, TensorViewMut};
use crate::device::buffer::Buffer;
use crate::device::handle::Device;
use crate::device::queue::Queue;
use crate::error::{Error, Kind};

/// A tensor of 1 to 4 axes without gaps, which owns its memory: a [`Buffer`] with a shape. Operations return it and take
/// `&tensor`; kernels take it as they take a buffer.
///
/// ```
/// use ferrowarp::device::Device;
/// use ferrowarp::{Error, Tensor};
///
/// let device = Device::cpu();
/// let a = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
/// assert_eq!(a.view().t().to_vec()?, [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
/// let zeros = Tensor::<f32>::zeros(&device, [3, 2])?;
/// assert_eq!((zeros.shape().to_vec(), zeros.to_vec()?), (vec![3, 2], vec![0.0; 6]));
/// # Ok::<(), Error>(())
/// ```
pub struct Tensor<T> {
    buffer: Buffer<T>,
    shape: Shape,
}

impl Device {
    /// Allocates a tensor with a copy of `values`, in the order of the axes.
    ///
    /// # Errors
    /// The shape does not have as many elements, the device is out of memory, or it failed.
    pub fn tensor<T: Pod>(&self, values: &[T], shape: impl Into<Shape>) -> Result<Tensor<T>, Error> {
        Tensor::from_buffer(self.upload(values)?, shape)
    }
}

impl<T: Pod> Tensor<T> {
    /// Allocates a tensor of zeros, in the order of the queue.
    ///
    /// # Errors
    /// The device is out of memory, or it failed.
    pub fn zeros(queue: &impl Queue, shape: impl Into<Shape>) -> Result<Self, Error> {
        let shape = shape.into();
        Ok(Self { buffer: queue.alloc_zeros(shape.elements())?, shape })
    }

    /// Allocates a tensor with arbitrary contents, which kernels must write before they read them.
    ///
    /// # Errors
    /// The device is out of memory, or it failed.
    #[doc(hidden)]
    pub fn unwritten(queue: &impl Queue, shape: impl Into<Shape>) -> Result<Self, Error> {
        let shape = shape.into();
        Ok(Self { buffer: queue.alloc_unwritten(shape.elements())?, shape })
    }

    /// Gives a buffer a shape.
    ///
    /// # Errors
    /// The shape does not have as many elements.
    pub fn from_buffer(buffer: Buffer<T>, shape: impl Into<Shape>) -> Result<Self, Error> {
        let shape = shape.into();
        if buffer.len() != shape.elements() {
            let (expected, rule) = ([buffer.len()].into(), "as many elements as");
            return Err(Kind::Shape { got: shape, expected, rule }.into());
        }
        Ok(Self { buffer, shape })
    }

    /// Views the tensor.
    pub fn view(&self) -> TensorView<'_, T> {
        TensorView { elements: (&self.buffer).into(), layout: Layout::dense(self.shape) }
    }

    /// Views the tensor for writing.
    pub fn view_mut(&mut self) -> TensorViewMut<'_, T> {
        TensorViewMut { elements: (&mut self.buffer).into(), layout: Layout::dense(self.shape) }
    }

    /// Views the tensor with its last two axes exchanged.
    pub fn t(&self) -> TensorView<'_, T> {
        self.view().t()
    }

    /// Copies `values` into the tensor, in the order of the axes, after all work queued on the device.
    ///
    /// # Errors
    /// The number of values differs, or the device failed, now or in an earlier kernel.
    pub fn copy_from(&mut self, values: &[T]) -> Result<(), Error> {
        Ok(self.buffer.copy_from(values)?)
    }

    /// Copies the elements into a vector, in the order of the axes, after all work queued on the device.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel.
    pub fn to_vec(&self) -> Result<Vec<T>, Error> {
        Ok(self.buffer.to_vec()?)
    }
}

impl<T> Tensor<T> {
    /// The extents of the axes.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The device that owns the memory.
    pub fn device(&self) -> &Device {
        self.buffer.device()
    }

    pub(crate) fn first_byte(&self) -> *mut u8 {
        self.buffer.first_byte()
    }

    /// Number of elements.
    pub(crate) fn len(&self) -> usize {
        self.buffer.len()
    }

    /// The memory.
    pub fn buffer(&self) -> &Buffer<T> {
        &self.buffer
    }

    /// The memory, without the shape.
    pub fn into_buffer(self) -> Buffer<T> {
        self.buffer
    }
}

impl<T> fmt::Debug for Tensor<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}, in the memory of {})", self.shape, self.buffer.device().residence())
    }
}
