//! Contexts of other libraries, and their streams and memory in the same context: the CUDA runtime's, PyTorch's, cudarc's.

use std::ptr::NonNull;

use bytemuck::Pod;
use cust::sys::{CUcontext, CUstream};

use super::buffer::{Buffer, BufferView, BufferViewMut};
use super::cuda::{CudaDevice, Lane};
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::modules::PtxModules;
use super::stream::Stream;

impl Device {
    /// Opens the GPU of a context that another library created (`cuCtxCreate`), with the [kernels that are found](PtxModules::find)
    /// and loaded into it. [`Self::with_modules`] adds others. The context is neither retained nor released, and the GPU's primary
    /// context, which [`Self::cuda`] uses, stays as it is. As on every device, a call makes the context the calling thread's.
    ///
    /// # Errors
    /// There is no driver; `context` is null, or the driver finds that it is not a context; as for [`Self::cuda`].
    ///
    /// # Safety
    /// `context` is null, or a context of the process's CUDA driver that lives until all handles to the device, and all buffers,
    /// tensors, streams, events and graphs of it, are dropped.
    pub unsafe fn attach(context: CUcontext) -> Result<Device, DeviceError> {
        // SAFETY: the caller's contract is the callee's.
        let device = unsafe { CudaDevice::attach(context, &PtxModules::find()?) }?;
        Ok(Self::of(Backend::Cuda(Box::new(device))))
    }

    /// The driver's handle of its context, for other libraries; `None` on the CPU. It lives as long as the device.
    pub fn raw_context(&self) -> Option<CUcontext> {
        self.gpu().map(CudaDevice::raw_context)
    }
}

impl Stream {
    /// Uses a stream of another library; null is the legacy default stream. Its later work begins after the work that is queued on
    /// the device's default stream now. Dropping this object neither waits for the stream nor destroys it; work that is queued on
    /// the default stream afterwards begins after its work.
    ///
    /// The order of work is checked as for [other streams](Device::stream). What the other library queues is unknown here: its own
    /// work on the same stream is in order with ours, and for other streams its events are needed.
    ///
    /// On the CPU `raw` is ignored.
    ///
    /// # Errors
    /// This thread is recording, or the device failed.
    ///
    /// # Safety
    /// `raw` is a stream of the device's [context](Device::raw_context), which lives as long as this object and is not being captured.
    pub unsafe fn from_raw(device: &Device, raw: CUstream) -> Result<Stream, DeviceError> {
        device.refuse_in_recorded_work("using a stream of another library")?;
        let order = &device.inner.order;
        let number = order.open();
        let lane = match &device.inner.backend {
            Backend::Cpu(_) => Lane { number, is_foreign: true, ..Lane::default() },
            Backend::Cuda(cuda) => {
                // SAFETY: the caller's contract is the callee's.
                unsafe { cuda.open_foreign(number, raw) }.inspect_err(|_| order.close(number))?
            }
        };
        Ok(Stream::of(device.clone(), lane))
    }

    /// Uses a stream of another library that keeps the order of all work itself, as PyTorch does: nothing is tracked, nothing waits
    /// for the default stream, and the stream may be captured. Scratch memory is allocated and freed in its order. In checks its work
    /// counts as the default stream's.
    ///
    /// On the CPU `raw` is ignored.
    ///
    /// # Errors
    /// The device failed.
    ///
    /// # Safety
    /// `raw` is null or a stream of the device's [context](Device::raw_context), and lives as long as this object and all buffers that
    /// are allocated with it. The caller orders its work with all other work on the same memory.
    pub unsafe fn borrow_raw(device: &Device, raw: CUstream) -> Result<Stream, DeviceError> {
        let lane = match &device.inner.backend {
            Backend::Cpu(_) => Lane::default(),
            // SAFETY: the caller's contract is the callee's.
            Backend::Cuda(cuda) => unsafe { cuda.borrow_stream(raw) }?,
        };
        Ok(Stream::of(device.clone(), lane))
    }

    /// The driver's handle, for other libraries; `None` on the CPU. It lives as long as this object, and that of the
    /// [default stream](Device::default_stream) as long as the device.
    ///
    /// # Errors
    /// The device failed.
    pub fn as_raw(&self) -> Result<Option<CUstream>, DeviceError> {
        self.device().gpu().map(|cuda| cuda.raw_stream(self.lane())).transpose()
    }
}

impl<'a, T: Pod> BufferView<'a, T> {
    /// Borrows `len` elements of another library's memory for kernels to read. On a GPU, a [recording](Device::record)
    /// refuses this memory, since it cannot keep it, and the order of streams is checked. The CPU device does neither.
    ///
    /// ```
    /// use ferrowarp::device::{BufferView, Device, DeviceError};
    ///
    /// let (device, numbers) = (Device::cpu(), [1.0f32, 2.0]);
    /// // SAFETY: the CPU's kernels read host memory, which is borrowed until all work has ended.
    /// let view = unsafe { BufferView::from_raw(&device, numbers.as_ptr(), numbers.len()) };
    /// assert_eq!(view.to_vec()?, numbers);
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Safety
    /// `pointer` is aligned and, if `len` is not 0, valid in the device's memory (on the CPU, the host's) for `len` initialised
    /// elements, until all work that is queued with the view has ended. Until then, other libraries' work writes them only in
    /// order with it.
    pub unsafe fn from_raw(device: &'a Device, pointer: *const T, len: usize) -> Self {
        let pointer = NonNull::new(pointer.cast_mut()).unwrap_or(NonNull::dangling());
        // SAFETY: the caller's contract.
        unsafe { Self::of(device, pointer, len) }
    }

    /// The address of the first element, in the device's memory.
    pub fn as_ptr(&self) -> *const T {
        self.first_byte().cast()
    }
}

impl<'a, T: Pod> BufferViewMut<'a, T> {
    /// Borrows `len` elements of another library's memory for kernels to read and write, like [`BufferView::from_raw`].
    ///
    /// # Safety
    /// As for [`BufferView::from_raw`]; until all work that is queued with the view has ended, no other code uses the elements
    /// except in order with it.
    pub unsafe fn from_raw(device: &'a Device, pointer: *mut T, len: usize) -> Self {
        // SAFETY: the caller's contract.
        unsafe { Self::of(device, NonNull::new(pointer).unwrap_or(NonNull::dangling()), len) }
    }

    /// The address of the first element, in the device's memory.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.first_byte().cast()
    }
}

impl<T: Pod> Buffer<T> {
    /// The address of the first element, in the device's memory. Work that other libraries queue with it is unknown here: before
    /// the buffer is dropped, it must have ended or come before work on one of the device's streams that used the buffer.
    pub fn as_ptr(&self) -> *const T {
        BufferView::from(self).as_ptr()
    }
}
