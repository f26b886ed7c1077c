//! Device memory, and copies from and to it.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable};

use super::copy::{DeviceCopy, bytes_of};
use super::pointer::DevicePointer;
use crate::context::InContext;
use crate::error::{CudaError, CudaResult};
use crate::stream::Stream;
use crate::sys;

/// Memory with synchronous copies.
pub trait CopyDestination<O: ?Sized> {
    /// Copies `source` into this memory.
    fn copy_from(&mut self, source: &O) -> CudaResult<()>;

    /// Copies this memory into `dest`.
    fn copy_to(&self, dest: &mut O) -> CudaResult<()>;
}

/// Memory with copies in a stream.
pub trait AsyncCopyDestination<O: ?Sized> {
    /// Queues a copy of `source` into this memory.
    ///
    /// # Safety
    /// Both memories live until the copy has ended. Until then only later work in the stream uses them.
    unsafe fn async_copy_from(&mut self, source: &O, stream: &Stream) -> CudaResult<()>;

    /// Queues a copy of this memory into `dest`.
    ///
    /// # Safety
    /// Same as for [`AsyncCopyDestination::async_copy_from`].
    unsafe fn async_copy_to(&self, dest: &mut O, stream: &Stream) -> CudaResult<()>;
}

/// Elements in a device's memory.
#[derive(Debug)]
pub struct DeviceSlice<T: DeviceCopy> {
    pointer: DevicePointer<T>,
    len: usize,
}

impl<T: DeviceCopy> DeviceSlice<T> {
    /// Creates a slice of the elements at an address.
    ///
    /// # Safety
    /// There are `len` elements, and they are not freed or changed while the slice is used. The slice is not exchanged with a
    /// buffer's, as by [`std::mem::swap`]: the buffer would free the memory.
    pub unsafe fn from_raw_parts(pointer: DevicePointer<T>, len: usize) -> Self {
        Self { pointer, len }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The address, as a kernel takes it.
    pub fn as_device_ptr(&self) -> DevicePointer<T> {
        self.pointer
    }

    /// Copies the elements to the host.
    pub fn as_host_vec(&self) -> CudaResult<Vec<T>>
    where
        T: Default,
    {
        let mut elements = vec![T::default(); self.len];
        self.copy_to(&mut elements)?;
        Ok(elements)
    }

    /// Sets all bytes to `value`.
    pub fn set_8(&mut self, value: u8) -> CudaResult<()>
    where
        T: Pod,
    {
        self.fill(value)
    }

    /// Sets all elements to zero.
    pub fn set_zero(&mut self) -> CudaResult<()>
    where
        T: Zeroable,
    {
        self.fill(0)
    }

    fn fill(&mut self, byte: u8) -> CudaResult<()> {
        match self.bytes() {
            0 => Ok(()),
            // SAFETY: the memory has that many bytes, and the callers' bounds make any bytes valid elements.
            bytes => unsafe { sys::cuMemsetD8_v2(self.pointer.as_raw(), byte, bytes) }.ok(),
        }
    }

    fn bytes(&self) -> usize {
        self.len * size_of::<T>()
    }

    /// The bytes of a copy between this memory and `other` elements; `None` if there is nothing to copy.
    fn bytes_with(&self, from: usize, to: usize) -> CudaResult<Option<usize>> {
        if from != to {
            return Err(CudaError::DifferentLengths { from, to });
        }
        Ok(Some(self.bytes()).filter(|&bytes| bytes > 0))
    }
}

impl<T: DeviceCopy, I: AsRef<[T]> + AsMut<[T]> + ?Sized> CopyDestination<I> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &I) -> CudaResult<()> {
        let source = source.as_ref();
        let Some(bytes) = self.bytes_with(source.len(), self.len)? else { return Ok(()) };
        // SAFETY: both memories have that many bytes.
        unsafe { sys::cuMemcpyHtoD_v2(self.pointer.as_raw(), source.as_ptr().cast(), bytes) }.ok()
    }

    fn copy_to(&self, dest: &mut I) -> CudaResult<()> {
        let dest = dest.as_mut();
        let Some(bytes) = self.bytes_with(self.len, dest.len())? else { return Ok(()) };
        // SAFETY: both memories have that many bytes.
        unsafe { sys::cuMemcpyDtoH_v2(dest.as_mut_ptr().cast(), self.pointer.as_raw(), bytes) }.ok()
    }
}

impl<T: DeviceCopy, I: AsRef<[T]> + AsMut<[T]> + ?Sized> AsyncCopyDestination<I> for DeviceSlice<T> {
    unsafe fn async_copy_from(&mut self, source: &I, stream: &Stream) -> CudaResult<()> {
        let source = source.as_ref();
        let Some(bytes) = self.bytes_with(source.len(), self.len)? else { return Ok(()) };
        let (to, from) = (self.pointer.as_raw(), source.as_ptr().cast());
        // SAFETY: both memories have that many bytes; the caller keeps them alive.
        unsafe { sys::cuMemcpyHtoDAsync_v2(to, from, bytes, stream.as_inner()) }.ok()
    }

    unsafe fn async_copy_to(&self, dest: &mut I, stream: &Stream) -> CudaResult<()> {
        let dest = dest.as_mut();
        let Some(bytes) = self.bytes_with(self.len, dest.len())? else { return Ok(()) };
        let (to, from) = (dest.as_mut_ptr().cast(), self.pointer.as_raw());
        // SAFETY: both memories have that many bytes; the caller keeps them alive.
        unsafe { sys::cuMemcpyDtoHAsync_v2(to, from, bytes, stream.as_inner()) }.ok()
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceSlice<T>> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &DeviceSlice<T>) -> CudaResult<()> {
        source.copy_to(self)
    }

    fn copy_to(&self, dest: &mut DeviceSlice<T>) -> CudaResult<()> {
        let Some(bytes) = self.bytes_with(self.len, dest.len)? else { return Ok(()) };
        // SAFETY: both memories have that many bytes.
        unsafe { sys::cuMemcpyDtoD_v2(dest.pointer.as_raw(), self.pointer.as_raw(), bytes) }.ok()
    }
}

impl<T: DeviceCopy> CopyDestination<DeviceBuffer<T>> for DeviceSlice<T> {
    fn copy_from(&mut self, source: &DeviceBuffer<T>) -> CudaResult<()> {
        self.copy_from(&**source)
    }

    fn copy_to(&self, dest: &mut DeviceBuffer<T>) -> CudaResult<()> {
        self.copy_to(&mut **dest)
    }
}

/// Device memory for elements, freed when dropped. It dereferences to a [`DeviceSlice`].
#[derive(Debug)]
pub struct DeviceBuffer<T: DeviceCopy> {
    slice: DeviceSlice<T>,
    /// `None` for 0 bytes.
    _context: Option<InContext>,
}

impl<T: DeviceCopy> DeviceBuffer<T> {
    /// Allocates memory for `size` elements.
    ///
    /// # Safety
    /// No element is read before it is written.
    pub unsafe fn uninitialized(size: usize) -> CudaResult<Self> {
        let mut address = 0;
        let bytes = bytes_of::<T>(size)?;
        let context = (bytes > 0).then(InContext::current).transpose()?;
        if bytes > 0 {
            // SAFETY: the out parameter is valid.
            unsafe { sys::cuMemAlloc_v2(&mut address, bytes) }.ok()?;
        }
        let slice = DeviceSlice { pointer: DevicePointer::from_raw(address), len: size };
        Ok(Self { slice, _context: context })
    }

    /// Allocates `size` zeros.
    pub fn zeroed(size: usize) -> CudaResult<Self>
    where
        T: Zeroable,
    {
        // SAFETY: all bytes are written before they are read.
        let mut buffer = unsafe { Self::uninitialized(size) }?;
        buffer.set_zero()?;
        Ok(buffer)
    }

    /// Copies the slice's elements to new device memory.
    pub fn from_slice(slice: &[T]) -> CudaResult<Self> {
        // SAFETY: all elements are written before they are read.
        let mut buffer = unsafe { Self::uninitialized(slice.len()) }?;
        buffer.copy_from(slice)?;
        Ok(buffer)
    }

    /// Allocates memory and copies the slice's elements to it in the stream.
    ///
    /// # Safety
    /// Same as for [`AsyncCopyDestination::async_copy_from`].
    pub unsafe fn from_slice_async(slice: &[T], stream: &Stream) -> CudaResult<Self> {
        // SAFETY: the copy precedes later work in the stream; the caller keeps the rest of the contract.
        unsafe {
            let mut buffer = Self::uninitialized(slice.len())?;
            buffer.async_copy_from(slice, stream)?;
            Ok(buffer)
        }
    }

    /// The elements.
    pub fn as_slice(&self) -> &DeviceSlice<T> {
        self
    }
}

impl<T: DeviceCopy> Deref for DeviceBuffer<T> {
    type Target = DeviceSlice<T>;

    fn deref(&self) -> &DeviceSlice<T> {
        &self.slice
    }
}

impl<T: DeviceCopy> DerefMut for DeviceBuffer<T> {
    fn deref_mut(&mut self) -> &mut DeviceSlice<T> {
        &mut self.slice
    }
}

impl<T: DeviceCopy> Drop for DeviceBuffer<T> {
    fn drop(&mut self) {
        if !self.pointer.is_null() {
            // SAFETY: this object owns the memory. After a failure it lives until the context ends.
            let _ = unsafe { sys::cuMemFree_v2(self.pointer.as_raw()) };
        }
    }
}

/// A value in device memory, freed when dropped.
#[derive(Debug)]
pub struct DeviceBox<T: DeviceCopy> {
    buffer: DeviceBuffer<T>,
}

impl<T: DeviceCopy> DeviceBox<T> {
    /// Copies the value to new device memory.
    pub fn new(value: &T) -> CudaResult<Self> {
        Ok(Self { buffer: DeviceBuffer::from_slice(std::slice::from_ref(value))? })
    }

    /// Allocates a value of zero bytes.
    pub fn zeroed() -> CudaResult<Self>
    where
        T: Zeroable,
    {
        Ok(Self { buffer: DeviceBuffer::zeroed(1)? })
    }

    /// Copies the value to the host.
    pub fn as_host_value(&self) -> CudaResult<T>
    where
        T: Default,
    {
        let mut value = T::default();
        self.copy_to(&mut value)?;
        Ok(value)
    }

    /// The address, as a kernel takes it.
    pub fn as_device_ptr(&self) -> DevicePointer<T> {
        self.buffer.as_device_ptr()
    }
}

impl<T: DeviceCopy> CopyDestination<T> for DeviceBox<T> {
    fn copy_from(&mut self, source: &T) -> CudaResult<()> {
        self.buffer.copy_from(std::slice::from_ref(source))
    }

    fn copy_to(&self, dest: &mut T) -> CudaResult<()> {
        self.buffer.copy_to(std::slice::from_mut(dest))
    }
}
