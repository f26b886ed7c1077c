//! Host memory that a device can access: page-locked for fast copies, or unified.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::copy::{DeviceCopy, bytes_of};
use super::pointer::DevicePointer;
use crate::context::InContext;
use crate::error::{CudaError, CudaResult};
use crate::sys;

/// The kind of memory of a [`HostBuffer`].
pub trait Kind: sealed::Kind {}

mod sealed {
    use super::{CudaResult, NonNull};

    pub trait Kind {
        /// Allocates at least one byte.
        fn allocate(bytes: usize) -> CudaResult<*mut u8>;

        /// # Safety
        /// The memory is from [`Kind::allocate`] and is not used afterwards.
        unsafe fn free(memory: NonNull<u8>) -> CudaResult<()>;
    }
}

/// Page-locked memory, which the device copies directly.
#[derive(Debug)]
pub struct Locked;

/// Memory that migrates between host and device on use.
#[derive(Debug)]
pub struct Unified;

impl Kind for Locked {}
impl Kind for Unified {}

impl sealed::Kind for Locked {
    fn allocate(bytes: usize) -> CudaResult<*mut u8> {
        const DEVICEMAP: u32 = 2;
        let mut memory = ptr::null_mut();
        // SAFETY: the out parameter is valid.
        unsafe { sys::cuMemHostAlloc(&mut memory, bytes, DEVICEMAP) }.ok()?;
        Ok(memory.cast())
    }

    unsafe fn free(memory: NonNull<u8>) -> CudaResult<()> {
        // SAFETY: the caller's contract.
        unsafe { sys::cuMemFreeHost(memory.as_ptr().cast()) }.ok()
    }
}

impl sealed::Kind for Unified {
    fn allocate(bytes: usize) -> CudaResult<*mut u8> {
        const GLOBAL: u32 = 1;
        // SAFETY: the out parameter is valid.
        let address = sys::out(|address| unsafe { sys::cuMemAllocManaged(address, bytes, GLOBAL) })?;
        Ok(ptr::with_exposed_provenance_mut(address as usize))
    }

    unsafe fn free(memory: NonNull<u8>) -> CudaResult<()> {
        // SAFETY: the caller's contract.
        unsafe { sys::cuMemFree_v2(memory.as_ptr().expose_provenance() as u64) }.ok()
    }
}

/// Page-locked memory for elements. It dereferences to a slice.
pub type LockedBuffer<T> = HostBuffer<T, Locked>;

/// Memory that host and device share. It dereferences to a slice, which the host must not use while a kernel does.
pub type UnifiedBuffer<T> = HostBuffer<T, Unified>;

/// Memory that host and device can access. See [`LockedBuffer`] and [`UnifiedBuffer`].
pub struct HostBuffer<T: DeviceCopy, K: Kind> {
    memory: NonNull<T>,
    len: usize,
    kind: PhantomData<K>,
    /// `None` for 0 bytes.
    _context: Option<InContext>,
}

// SAFETY: this object alone owns the memory, like a `Vec`.
unsafe impl<T: DeviceCopy + Send, K: Kind> Send for HostBuffer<T, K> {}
// SAFETY: same as for `Send`.
unsafe impl<T: DeviceCopy + Sync, K: Kind> Sync for HostBuffer<T, K> {}

impl<T: DeviceCopy, K: Kind> HostBuffer<T, K> {
    /// Allocates `size` copies of a value.
    pub fn new(value: &T, size: usize) -> CudaResult<Self> {
        Self::filled(size, |_| *value)
    }

    /// Allocates a copy of the slice's elements.
    pub fn from_slice(slice: &[T]) -> CudaResult<Self> {
        Self::filled(slice.len(), |i| slice[i])
    }

    /// Allocates memory for `size` elements.
    ///
    /// # Safety
    /// No element is read before it is written.
    pub unsafe fn uninitialized(size: usize) -> CudaResult<Self> {
        let bytes = bytes_of::<T>(size)?;
        let context = (bytes > 0).then(InContext::current).transpose()?;
        let memory = match bytes {
            0 => NonNull::dangling(),
            _ => NonNull::new(K::allocate(bytes)?).ok_or(CudaError::OutOfMemory)?.cast(),
        };
        Ok(Self { memory, len: size, kind: PhantomData, _context: context })
    }

    fn filled(size: usize, element: impl Fn(usize) -> T) -> CudaResult<Self> {
        // SAFETY: every element is written below.
        let buffer = unsafe { Self::uninitialized(size) }?;
        for i in 0..size {
            // SAFETY: the memory has room for `size` elements.
            unsafe { buffer.memory.add(i).write(element(i)) };
        }
        Ok(buffer)
    }

    /// The elements.
    pub fn as_slice(&self) -> &[T] {
        self
    }

    /// The elements.
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        self
    }
}

impl<T: DeviceCopy> UnifiedBuffer<T> {
    /// The address, as a kernel takes it.
    pub fn as_device_ptr(&self) -> DevicePointer<T> {
        DevicePointer::from_raw(self.memory.as_ptr().expose_provenance() as u64)
    }
}

impl<T: DeviceCopy, K: Kind> Deref for HostBuffer<T, K> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: this object owns the memory, which has that many elements, and they were written.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl<T: DeviceCopy, K: Kind> DerefMut for HostBuffer<T, K> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: same as in `deref`.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl<T: DeviceCopy, K: Kind> AsRef<[T]> for HostBuffer<T, K> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T: DeviceCopy, K: Kind> AsMut<[T]> for HostBuffer<T, K> {
    fn as_mut(&mut self) -> &mut [T] {
        self
    }
}

impl<T: DeviceCopy + fmt::Debug, K: Kind> fmt::Debug for HostBuffer<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: DeviceCopy, K: Kind> Drop for HostBuffer<T, K> {
    fn drop(&mut self) {
        if self.len * size_of::<T>() > 0 {
            // SAFETY: this object owns the memory. After a failure it lives until the context ends.
            let _ = unsafe { K::free(self.memory.cast()) };
        }
    }
}
