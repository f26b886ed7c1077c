//! Memory that the host and a device share.

use std::fmt;
use std::ops::RangeBounds;
use std::sync::Arc;

use bytemuck::Pod;

use super::buffer::{Buffer, BufferView, BufferViewMut};
use super::cuda::CudaDevice;
use super::error::DeviceError;
use super::handle::Device;
use super::memory::Allocation;
use super::placement::{Advice, Place};
use super::stream::Stream;

/// `len` elements at the same address on the host and the device ("unified" or "managed" memory), freed when dropped. On a
/// GPU the driver moves a page to the side that touches it; on the CPU it is ordinary memory.
///
/// Kernels access the elements through views. The host gets a slice once all queued work has ended. While it holds the
/// slice, Rust's borrows prevent launches that write the elements.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::{kernel, thread};
/// use ferrowarp::device::{Device, DeviceError, Place};
///
/// /// # Safety
/// /// A thread for each element.
/// #[kernel]
/// pub unsafe fn double(numbers: *mut u32) {
///     unsafe { *numbers.add(thread::index_1d() as usize) *= 2 };
/// }
///
/// let device = Device::cpu(); // On a GPU: Device::open()?
/// let mut numbers = device.alloc_unified::<u32>(32)?;
/// numbers.host_mut()?.fill(21);
/// numbers.prefetch(.., Place::Device, &device.default_stream())?;
/// unsafe { double::launch(&device, LaunchConfig::new(1, 32), numbers.view_mut(..)?)? };
/// assert_eq!(numbers.host()?, [42; 32]);
/// # Ok::<(), DeviceError>(())
/// ```
pub struct UnifiedBuffer<T>(Buffer<T>);

impl Device {
    /// Allocates unified memory for `len` elements, with all bytes zero. The host writes them, so the pages are on the host.
    ///
    /// # Errors
    /// [`DeviceError::NoUnifiedMemory`] if host and device cannot use it at the same time; the device does not have enough
    /// free memory to hold all of it; the device failed.
    pub fn alloc_unified<T: Pod>(&self, len: usize) -> Result<UnifiedBuffer<T>, DeviceError> {
        // SAFETY: all of it is written below before any read.
        let mut buffer = unsafe { self.alloc_unified_unwritten(len) }?;
        buffer.host_mut()?.fill(T::zeroed());
        Ok(buffer)
    }

    /// Allocates uninitialised unified memory for `len` elements. A page is allocated where it is first touched.
    ///
    /// # Safety
    /// Neither a kernel nor the host reads an element before it is written.
    ///
    /// # Errors
    /// Same as for [`Self::alloc_unified`].
    pub unsafe fn alloc_unified_unwritten<T: Pod>(
        &self,
        len: usize,
    ) -> Result<UnifiedBuffer<T>, DeviceError> {
        self.refuse_in_recorded_work("allocating unified memory")?;
        Ok(UnifiedBuffer(Buffer::of(self, len, |bytes| Allocation::unified(self, bytes))?))
    }
}

impl<T: Pod> UnifiedBuffer<T> {
    /// Borrows the elements for the host to read, after all work queued on the device. Kernels may read them meanwhile.
    ///
    /// # Errors
    /// [`DeviceError::NoUnifiedMemory`] while a [graph](super::Graph) has launches that touch the buffer; the device failed,
    /// now or in an earlier kernel.
    pub fn host(&self) -> Result<&[T], DeviceError> {
        self.wait_for_host("reading unified memory on the host")?;
        // SAFETY: this buffer owns the memory, which has `len` elements that are initialised by the constructor's contract.
        // Earlier work that writes them has ended, no graph can begin other such work, and a launch that writes them needs an
        // exclusive borrow. Host and device may use the memory at the same time, since the allocation checks that.
        Ok(unsafe { std::slice::from_raw_parts(self.0.pointer.as_ptr(), self.len()) })
    }

    /// Borrows the elements for the host to write, after all work queued on the device.
    ///
    /// # Errors
    /// Same as for [`Self::host`].
    pub fn host_mut(&mut self) -> Result<&mut [T], DeviceError> {
        self.wait_for_host("writing unified memory on the host")?;
        // SAFETY: as in `host`; a launch that reads them needs a borrow too. Uninitialised bytes are written before they are
        // read, by the contract of `alloc_unified_unwritten`.
        Ok(unsafe { std::slice::from_raw_parts_mut(self.0.pointer.as_ptr(), self.len()) })
    }

    /// Waits for all queued work, unless a graph could begin other work that touches the memory.
    fn wait_for_host(&self, action: &'static str) -> Result<(), DeviceError> {
        if self.0.memory.as_ref().is_some_and(|memory| Arc::strong_count(memory) > 1) {
            let (device, reason) =
                (self.device().name(), "a graph touches it; drop the graph first".to_owned());
            return Err(DeviceError::NoUnifiedMemory { action, device, reason });
        }
        self.device().wait_before(action)
    }

    /// Borrows the elements of `range` for kernels to read.
    ///
    /// # Errors
    /// The range is not within the buffer.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<BufferView<'_, T>, DeviceError> {
        self.0.view(range)
    }

    /// Borrows the elements of `range` for kernels to read and write.
    ///
    /// # Errors
    /// The range is not within the buffer.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>, DeviceError> {
        self.0.view_mut(range)
    }

    /// Queues a move of the pages of `range`, so that they do not move one by one on first access. Values do not change, so
    /// this is not ordered with other streams. On the CPU it does nothing.
    ///
    /// # Errors
    /// The range is not within the buffer; the stream belongs to another device or is being recorded;
    /// [`DeviceError::NoUnifiedMemory`] if the driver, such as one before CUDA 12.2, lacks the function; the device failed.
    pub fn prefetch(
        &self,
        range: impl RangeBounds<usize>,
        to: Place,
        stream: &Stream,
    ) -> Result<(), DeviceError> {
        let action = "prefetching unified memory";
        self.device().refuse_other(stream.device(), action)?;
        // SAFETY: the bytes are the buffer's.
        self.on_gpu(range, action, |cuda, first, bytes| unsafe {
            cuda.prefetch(stream.lane(), first, bytes, to)
        })
    }

    /// Tells the driver how the elements of `range` will be used. On the CPU it does nothing.
    ///
    /// # Errors
    /// The range is not within the buffer; [`DeviceError::NoUnifiedMemory`] if the driver, such as one before CUDA 12.2,
    /// lacks the function; the device failed.
    pub fn advise(&self, range: impl RangeBounds<usize>, advice: Advice) -> Result<(), DeviceError> {
        let action = "advising of unified memory";
        // SAFETY: the bytes are the buffer's.
        self.on_gpu(range, action, |cuda, first, bytes| unsafe { cuda.advise(first, bytes, advice) })
    }

    /// Passes the bytes of `range` to the driver of a GPU, if there are any.
    fn on_gpu(
        &self,
        range: impl RangeBounds<usize>,
        action: &'static str,
        call: impl FnOnce(&CudaDevice, *mut u8, usize) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        self.device().refuse_in_recorded_work(action)?;
        let part = self.view(range)?;
        let bytes = part.len() * size_of::<T>();
        match self.device().gpu() {
            Some(cuda) if bytes > 0 => call(cuda, part.first_byte(), bytes),
            _ => Ok(()),
        }
    }
}

impl<T> UnifiedBuffer<T> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The device that shares it.
    pub fn device(&self) -> &Device {
        self.0.device()
    }
}

impl<T> fmt::Debug for UnifiedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnifiedBuffer({} elements shared with {})", self.len(), self.device().residence())
    }
}
