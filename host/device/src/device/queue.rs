//! Where work is queued.

use bytemuck::Pod;
use cuda_std::launch::Launcher;

use super::buffer::{Buffer, BufferView, BufferViewMut};
use super::error::DeviceError;
use super::handle::Device;
use super::memory::Contents;
use super::stream::Stream;
use super::stream::foreign::{Access, Queue as Work};

/// Where work is queued: a [`Device`], which stands for its default stream, or a [`Stream`], such as the one that
/// [`Device::record`] records. Every operation and every kernel's `launch` takes one.
///
/// ```
/// use ferrowarp::device::{Device, Queue};
/// use ferrowarp::{Error, Softmax, Tensor};
///
/// fn normalise(queue: &impl Queue, logits: &mut Tensor<f32>) -> Result<(), Error> {
///     Softmax::new().run_in_place(queue, logits)
/// }
///
/// let device = Device::cpu();
/// let mut logits = device.tensor(&[1.0f32; 4], [1, 4])?;
/// normalise(&device.stream()?, &mut logits)?;
/// assert_eq!(logits.to_vec()?, [0.25; 4]);
/// # Ok::<(), Error>(())
/// ```
pub trait Queue: Launcher + sealed::Sealed {
    /// The device that does the work.
    fn device(&self) -> &Device;

    /// Calls `work` with the stream.
    #[doc(hidden)]
    fn with_stream<R>(&self, work: impl FnOnce(&Stream) -> R) -> R;

    /// Allocates a buffer of `len` elements with arbitrary contents, which kernels must write before they read them. On a GPU
    /// the allocation is in the order of this queue and does not wait; in a recording, the graph owns the memory.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    #[doc(hidden)]
    fn alloc_unwritten<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        self.with_stream(|stream| Buffer::new(stream.device(), stream.lane(), len, Contents::Any))
    }

    /// Allocates a buffer of `len` elements with all bytes zero, in the order of this queue.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    #[doc(hidden)]
    fn alloc_zeros<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        self.with_stream(|stream| Buffer::new(stream.device(), stream.lane(), len, Contents::Zeros))
    }

    /// Copies `from` to `to`, which are of the same length and device, in the order of this queue. It can be recorded.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError, Queue};
    ///
    /// let device = Device::cpu();
    /// let (from, mut to) = (device.upload(&[1.0f32, 2.0, 3.0])?, device.alloc_zeroed::<f32>(5)?);
    /// device.stream()?.copy(to.view_mut(1..4)?, &from)?;
    /// assert_eq!(to.to_vec()?, [0.0, 1.0, 2.0, 3.0, 0.0]);
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// The lengths differ; a buffer belongs to another device; [`DeviceError::Unordered`]; the device failed.
    fn copy<'a, 'b, T: Pod + 'a + 'b>(
        &self,
        to: impl Into<BufferViewMut<'a, T>>,
        from: impl Into<BufferView<'b, T>>,
    ) -> Result<(), DeviceError> {
        const ACTION: &str = "a copy between buffers";
        let (to, from) = (to.into(), from.into());
        [to.device(), from.device()].iter().try_for_each(|at| self.device().refuse_other(at, ACTION))?;
        if to.len() != from.len() {
            let (action, buffer, slice) = (ACTION, to.len(), from.len());
            return Err(DeviceError::LengthMismatch { action, buffer, slice });
        }
        let bytes = to.len() * size_of::<T>();
        if bytes == 0 {
            return Ok(());
        }
        let (to, from) = (to.first_byte(), from.first_byte());
        let access = |argument, first: *mut u8, is_write| Access { argument, first, bytes, is_write };
        let accesses = [access("to", to, true), access("from", from, false)].into_iter();
        self.with_stream(|stream| {
            // SAFETY: both views have this many bytes and are borrowed, one of them exclusively; later work on them is in order.
            let copy = |queue: Work| unsafe { stream.copy_foreign(&queue, to, from, bytes) };
            stream.queue_foreign(ACTION, accesses, None, copy).map(drop)
        })
    }
}

mod sealed {
    pub trait Sealed {}
}

impl sealed::Sealed for Device {}
impl sealed::Sealed for Stream {}

impl Queue for Device {
    fn device(&self) -> &Device {
        self
    }

    fn with_stream<R>(&self, work: impl FnOnce(&Stream) -> R) -> R {
        work(&self.default_stream())
    }
}

impl Queue for Stream {
    fn device(&self) -> &Device {
        self.device()
    }

    fn with_stream<R>(&self, work: impl FnOnce(&Stream) -> R) -> R {
        work(self)
    }
}
