//! Page-locked host memory, and asynchronous copies.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use bytemuck::Pod;

use super::allocation_error::{RawAllocError, allocate};
use super::buffer::{BufferView, BufferViewMut};
use super::cpu;
use super::error::DeviceError;
use super::handle::{Backend, Device};
use super::order::{Admission, Touch};
use super::race::StreamWork;
use super::stream::{Event, Stream};

/// Page-locked ("pinned") host memory for `len` elements, freed when dropped. A GPU copies from and to it while the host
/// does other work. On the CPU it is ordinary memory. It dereferences to a slice.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let device = Device::cpu();
/// let mut numbers = device.alloc_pinned::<u32>(3)?;
/// numbers.copy_from_slice(&[1, 2, 3]);
/// let mut buffer = device.alloc_zeroed::<u32>(3)?;
/// let upload = device.stream()?.upload(numbers, &mut buffer)?;
/// let numbers = upload.wait()?; // To be filled again.
/// assert_eq!(buffer.to_vec()?, *numbers);
/// # Ok::<(), DeviceError>(())
/// ```
pub struct PinnedBuffer<T> {
    device: Device,
    /// Dangling and aligned for 0 bytes.
    pointer: NonNull<T>,
    len: usize,
}

// SAFETY: the buffer owns its memory, like a `Vec`.
unsafe impl<T: Send> Send for PinnedBuffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for PinnedBuffer<T> {}

impl Device {
    /// Allocates page-locked memory for `len` elements, with all bytes zero. Allocation is slow and the memory cannot be
    /// swapped out, so reuse it.
    ///
    /// # Errors
    /// The system is out of memory, or the device failed.
    pub fn alloc_pinned<T: Pod>(&self, len: usize) -> Result<PinnedBuffer<T>, DeviceError> {
        self.refuse_in_recorded_work("allocating page-locked memory")?;
        let host = || format!("the host of {}", self.name());
        let memory = allocate::<T, _>(host, len, |bytes| match &self.inner.backend {
            Backend::Cpu(_) => cpu::alloc_zeroed(bytes).ok_or_else(RawAllocError::system_is_full),
            Backend::Cuda(cuda) => cuda.alloc_pinned(bytes),
        })?;
        let pointer = memory.map_or(NonNull::dangling(), NonNull::cast);
        Ok(PinnedBuffer { device: self.clone(), pointer, len })
    }
}

impl<T> Deref for PinnedBuffer<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: this buffer alone owns the memory, which has `len` elements of initialised bytes. `T` is `Pod` in the only
        // constructor.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for PinnedBuffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.len) }
    }
}

impl<T> Drop for PinnedBuffer<T> {
    fn drop(&mut self) {
        let bytes = self.len * size_of::<T>();
        match &self.device.inner.backend {
            _ if bytes == 0 => {}
            // SAFETY: `cpu` allocated it with the same number of bytes, and the buffer is being dropped.
            Backend::Cpu(_) => unsafe { cpu::free(self.pointer.cast(), bytes) },
            Backend::Cuda(cuda) => cuda.free_pinned(self.pointer.cast()),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for PinnedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

/// A copy that is queued on a stream, with the host memory that it reads or writes. Dropping it waits for the copy.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError, InFlight, PinnedBuffer};
///
/// let device = Device::cpu();
/// let stream = device.stream()?;
/// let losses = device.upload(&[0.5f32, 0.25])?;
/// let download: InFlight<PinnedBuffer<f32>> = stream.download(&losses, device.alloc_pinned(2)?)?;
/// // Meanwhile the host does something else.
/// assert_eq!(*download.wait()?, [0.5, 0.25]);
/// # Ok::<(), DeviceError>(())
/// ```
#[must_use = "dropping it waits for the copy and loses the memory"]
pub struct InFlight<B> {
    /// `None` once it is returned.
    memory: Option<B>,
    end: Event,
}

impl<B> InFlight<B> {
    /// Waits for this copy and returns the memory.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel. The memory is then kept until the process ends.
    pub fn wait(mut self) -> Result<B, DeviceError> {
        self.end.synchronize()?;
        match self.memory.take() {
            Some(memory) => Ok(memory),
            None => unreachable!("only this function and the drop take the memory"),
        }
    }

    /// Whether the copy has ended.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel.
    pub fn is_complete(&self) -> Result<bool, DeviceError> {
        self.end.is_complete()
    }
}

impl<B> Drop for InFlight<B> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            give_up(memory, self.end.synchronize());
        }
    }
}

/// Drops a copy's memory after the wait for the copy. If the wait failed without a fault, the GPU may still use the memory,
/// so it is leaked. After a fault, its drop keeps it allocated.
fn give_up<B>(memory: B, waited: Result<(), DeviceError>) {
    if waited.is_err_and(|error| error.fault().is_none()) {
        std::mem::forget(memory);
    }
}

impl<B> fmt::Debug for InFlight<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InFlight(to or from {})", self.end.device().residence())
    }
}

impl Stream {
    /// Queues a copy of `from` into the device's memory and returns at once. The copy owns the page-locked memory until
    /// [`InFlight::wait`] returns it.
    ///
    /// # Errors
    /// The lengths differ; the memory belongs to another device; [`DeviceError::Unordered`] if another stream may still use
    /// it; the stream is being recorded; the device failed. `from` is freed.
    pub fn upload<'a, T: Pod>(
        &self,
        from: PinnedBuffer<T>,
        to: impl Into<BufferViewMut<'a, T>>,
    ) -> Result<InFlight<PinnedBuffer<T>>, DeviceError> {
        let to = to.into();
        let copy = Copy { work: StreamWork::Upload, elements: to.len(), first: to.first_byte() };
        self.copy("uploading page-locked memory", &copy, to.device(), from)
    }

    /// Queues a copy of the device's memory into `to` and returns at once. The copy owns the page-locked memory until
    /// [`InFlight::wait`] returns it.
    ///
    /// # Errors
    /// Same as for [`Self::upload`]; `to` is freed.
    pub fn download<'a, T: Pod>(
        &self,
        from: impl Into<BufferView<'a, T>>,
        to: PinnedBuffer<T>,
    ) -> Result<InFlight<PinnedBuffer<T>>, DeviceError> {
        let from = from.into();
        let copy = Copy { work: StreamWork::Download, elements: from.len(), first: from.first_byte() };
        self.copy("downloading to page-locked memory", &copy, from.device(), to)
    }

    /// Queues a copy between page-locked memory and the memory of `owner`.
    fn copy<T: Pod>(
        &self,
        action: &'static str,
        copy: &Copy,
        owner: &Device,
        memory: PinnedBuffer<T>,
    ) -> Result<InFlight<PinnedBuffer<T>>, DeviceError> {
        let device = self.device();
        device.refuse_in_recorded_work(action)?;
        device.refuse_other(owner, action)?;
        device.refuse_other(&memory.device, action)?;
        let &Copy { work, elements, first } = copy;
        if elements != memory.len {
            return Err(DeviceError::LengthMismatch { action, buffer: elements, slice: memory.len });
        }
        let bytes = size_of_val(&memory[..]);
        if bytes > 0 {
            let touch = Touch {
                argument: "",
                bytes: first.addr()..first.addr() + bytes,
                is_write: work == StreamWork::Upload,
                work,
            };
            let order = &device.inner.order;
            let admission = match order.is_plain() {
                true => Admission::Run(None),
                false => device.admit(self.lane(), None, &[touch])?,
            };
            // SAFETY: both have this many bytes. The device's are borrowed by the caller's view, and `admit` orders later
            // work on them after the copy. The host's are kept until the copy has ended, below.
            let queued = unsafe { self.queue(copy, memory.pointer.as_ptr().cast(), bytes) };
            if queued.is_err() {
                order.cancel(&admission);
            }
            queued?;
        }
        match self.record() {
            Ok(end) => Ok(InFlight { memory: Some(memory), end }),
            Err(error) => {
                // The copy is in progress, and only the whole stream can be waited for.
                give_up(memory, self.synchronize());
                Err(error)
            }
        }
    }

    /// # Safety
    /// Both sides have this many bytes and are valid until the copy has ended; until then no other code writes its source or
    /// uses its destination.
    unsafe fn queue(&self, copy: &Copy, host: *mut u8, bytes: usize) -> Result<(), DeviceError> {
        let is_upload = copy.work == StreamWork::Upload;
        // SAFETY: the caller's memories, which do not overlap.
        unsafe {
            match &self.device().inner.backend {
                Backend::Cpu(_) if is_upload => copy.first.copy_from_nonoverlapping(host, bytes),
                Backend::Cpu(_) => host.copy_from_nonoverlapping(copy.first, bytes),
                Backend::Cuda(cuda) if is_upload => cuda.upload(self.lane(), copy.first, host, bytes)?,
                Backend::Cuda(cuda) => cuda.download(self.lane(), host, copy.first, bytes)?,
            }
        }
        Ok(())
    }
}

/// The device's side of a copy.
struct Copy {
    work: StreamWork,
    elements: usize,
    first: *mut u8,
}
