//! Where work is queued.

use bytemuck::Pod;
use cuda_std::launch::Launcher;

use super::cuda::Lane;
use super::memory::Contents;
use super::{Buffer, Device, DeviceError, Stream};

/// Where work is queued: a [`Device`], which stands for its default stream, or a [`Stream`], such as the one that
/// [`Device::record`] records. Every operation and every kernel's `launch` takes one.
///
/// ```
/// use ferrowarp::device::{Device, Queue};
/// use ferrowarp::softmax::{MatrixMut, Options, SoftmaxError, softmax_in_place};
///
/// fn normalise(queue: &impl Queue, logits: &mut MatrixMut<'_, f32>) -> Result<(), SoftmaxError> {
///     softmax_in_place(queue, logits, &Options::new())
/// }
///
/// let device = Device::cpu();
/// let mut logits = device.upload(&[1.0f32; 4])?;
/// normalise(&device.stream()?, &mut MatrixMut::new(&mut logits, 1, 4)?)?;
/// assert_eq!(logits.to_vec()?, [0.25; 4]);
/// # Ok::<(), SoftmaxError>(())
/// ```
pub trait Queue: Launcher + sealed::Sealed {
    /// The device that does the work.
    fn device(&self) -> &Device;

    /// Allocates a buffer of `len` elements with arbitrary contents, which kernels must write before they read them. On a GPU
    /// the allocation is in the order of this queue and does not wait; in a recording, the graph owns the memory.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    #[doc(hidden)]
    fn alloc_unwritten<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError>;
}

mod sealed {
    pub trait Sealed {}

    impl Sealed for super::Device {}
    impl Sealed for super::Stream {}
}

impl Queue for Device {
    fn device(&self) -> &Device {
        self
    }

    fn alloc_unwritten<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::new(self, &Lane::default(), len, Contents::Any)
    }
}

impl Queue for Stream {
    fn device(&self) -> &Device {
        self.device()
    }

    fn alloc_unwritten<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::new(self.device(), self.lane(), len, Contents::Any)
    }
}
