//! Device memory, and views of parts of it.

use std::fmt;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::Pod;

use super::allocation_error::{RawAllocError, allocate};
use super::allocations::Memory as _;
use super::cuda::Lane;
use super::error::DeviceError;
use super::handle::Device;
use super::memory::{Allocation, Contents};

/// `len` elements in the memory of a device, freed when dropped: after the queued work that uses them, without waiting for it.
///
/// Kernels access them through launch arguments: pass `&buffer` for `&[T]` and `*const T`, and `&mut buffer` for `*mut T`
/// and `*mut [T]`. The views [`Buffer::view`] and [`Buffer::view_mut`] are arguments too.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError};
///
/// let mut buffer = Device::cpu().alloc_zeroed::<u32>(4)?;
/// buffer.view_mut(1..3)?.copy_from(&[7, 8])?;
/// assert_eq!(buffer.to_vec()?, [0, 7, 8, 0]);
/// # Ok::<(), DeviceError>(())
/// ```
pub struct Buffer<T> {
    device: Device,
    /// A host address on the CPU, a device address on a GPU. Dangling, aligned and not null for 0 bytes.
    pub(super) pointer: NonNull<T>,
    len: usize,
    /// `None` for 0 bytes.
    pub(super) memory: Option<Arc<Allocation>>,
}

// SAFETY: a buffer owns its memory, and `T` is plain data.
unsafe impl<T: Pod + Send> Send for Buffer<T> {}
// SAFETY: `&Buffer` only allows reads of the memory.
unsafe impl<T: Pod + Sync> Sync for Buffer<T> {}

impl<T: Pod> Buffer<T> {
    /// Allocates `len` elements in the order of the lane's work.
    pub(super) fn new(
        device: &Device,
        lane: &Lane,
        len: usize,
        contents: Contents,
    ) -> Result<Self, DeviceError> {
        Self::of(device, len, |bytes| Allocation::new(device, lane, bytes, contents))
    }

    /// Takes memory for `len` elements from `give`.
    pub(super) fn of(
        device: &Device,
        len: usize,
        give: impl FnOnce(usize) -> Result<Arc<Allocation>, RawAllocError>,
    ) -> Result<Self, DeviceError> {
        let memory = allocate::<T, _>(|| device.name(), len, give)?;
        let pointer = memory.as_ref().map_or(NonNull::dangling(), |memory| memory.first().cast());
        Ok(Self { device: device.clone(), pointer, len, memory })
    }

    /// Copies `data` into the buffer, after all work queued on the device.
    ///
    /// # Errors
    /// The lengths differ, or the device failed, now or in an earlier kernel.
    pub fn copy_from(&mut self, data: &[T]) -> Result<(), DeviceError> {
        self.view_mut(..)?.copy_from(data)
    }

    /// Copies the buffer into `data`, after all work queued on the device.
    ///
    /// # Errors
    /// The lengths differ, or the device failed, now or in an earlier kernel.
    pub fn copy_to(&self, data: &mut [T]) -> Result<(), DeviceError> {
        self.view(..)?.copy_to(data)
    }

    /// Copies the elements into a vector, after all work queued on the device.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel.
    pub fn to_vec(&self) -> Result<Vec<T>, DeviceError> {
        self.view(..)?.to_vec()
    }

    /// Borrows the elements of `range` for kernels to read.
    ///
    /// # Errors
    /// The range is not within the buffer.
    pub fn view(&self, range: impl RangeBounds<usize>) -> Result<BufferView<'_, T>, DeviceError> {
        let (start, len) = resolve(range, self.len)?;
        Ok(BufferView::from(self).part(start, len))
    }

    /// Borrows the elements of `range` for kernels to read and write.
    ///
    /// # Errors
    /// The range is not within the buffer.
    pub fn view_mut(&mut self, range: impl RangeBounds<usize>) -> Result<BufferViewMut<'_, T>, DeviceError> {
        let (start, len) = resolve(range, self.len)?;
        Ok(BufferViewMut::from(self).part(start, len))
    }

    /// Splits the buffer at `mid`, so that one kernel can write both parts.
    ///
    /// # Errors
    /// `mid` is greater than the buffer's length.
    pub fn split_at_mut(
        &mut self,
        mid: usize,
    ) -> Result<(BufferViewMut<'_, T>, BufferViewMut<'_, T>), DeviceError> {
        // As a view of the first part, which names `mid` alone.
        resolve(..mid, self.len)?;
        let len = self.len - mid;
        let device = &self.device;
        let low = BufferViewMut { device, pointer: self.pointer, len: mid, borrow: PhantomData };
        // SAFETY: `mid` is at most the buffer's length.
        let pointer = unsafe { self.pointer.add(mid) };
        Ok((low, BufferViewMut { device, pointer, len, borrow: PhantomData }))
    }
}

impl<T> Buffer<T> {
    pub(crate) fn first_byte(&self) -> *mut u8 {
        self.pointer.as_ptr().cast()
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The device that owns the memory.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        if let Some(action) = self.memory.as_ref().and_then(|memory| memory.freeing()) {
            self.device.note_drop(action);
        }
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} elements in the memory of {})", self.len, self.device.residence())
    }
}

/// The start and the end of `range` in `len` elements; they may lie beyond these.
pub(crate) fn bounds(range: impl RangeBounds<usize>, len: usize) -> [usize; 2] {
    let start = match range.start_bound() {
        Bound::Included(&start) => start,
        Bound::Excluded(&before) => before.saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.saturating_add(1),
        Bound::Excluded(&end) => end,
        Bound::Unbounded => len,
    };
    [start, end]
}

/// Resolves `range` to a start and a length in a buffer of `len` elements.
pub(super) fn resolve(range: impl RangeBounds<usize>, len: usize) -> Result<(usize, usize), DeviceError> {
    let [start, end] = bounds(range, len);
    if start > end.min(len) || end > len {
        return Err(DeviceError::ViewOutOfRange { start, end, len });
    }
    Ok((start, end - start))
}

/// A part of a buffer that kernels read.
///
/// ```
/// let buffer = ferrowarp::device::Device::cpu().upload(&[1u8, 2, 3, 4])?;
/// let tail = buffer.view(2..)?;
/// assert_eq!((tail.len(), tail.to_vec()?), (2, vec![3, 4]));
/// # Ok::<(), ferrowarp::device::DeviceError>(())
/// ```
pub struct BufferView<'a, T> {
    device: &'a Device,
    pointer: NonNull<T>,
    len: usize,
    borrow: PhantomData<&'a T>,
}

/// A part of a buffer that kernels read and write.
///
/// ```
/// let mut buffer = ferrowarp::device::Device::cpu().upload(&[1u8, 2, 3, 4])?;
/// let (mut left, right) = buffer.split_at_mut(2)?;
/// left.copy_from(&right.as_view().to_vec()?)?;
/// assert_eq!(buffer.to_vec()?, [3, 4, 3, 4]);
/// # Ok::<(), ferrowarp::device::DeviceError>(())
/// ```
pub struct BufferViewMut<'a, T> {
    device: &'a Device,
    pointer: NonNull<T>,
    len: usize,
    borrow: PhantomData<&'a mut T>,
}

// SAFETY: a view is a shared borrow of a buffer, which is `Sync`.
unsafe impl<T: Pod + Sync> Send for BufferView<'_, T> {}
// SAFETY: as above.
unsafe impl<T: Pod + Sync> Sync for BufferView<'_, T> {}
// SAFETY: a view is an exclusive borrow of a buffer, which is `Send`.
unsafe impl<T: Pod + Send> Send for BufferViewMut<'_, T> {}
// SAFETY: a shared reference to the view only allows reads of the memory.
unsafe impl<T: Pod + Sync> Sync for BufferViewMut<'_, T> {}

impl<'a, T> From<&'a Buffer<T>> for BufferView<'a, T> {
    fn from(buffer: &'a Buffer<T>) -> Self {
        Self { device: &buffer.device, pointer: buffer.pointer, len: buffer.len, borrow: PhantomData }
    }
}

impl<'a, T> From<&'a mut Buffer<T>> for BufferViewMut<'a, T> {
    fn from(buffer: &'a mut Buffer<T>) -> Self {
        Self { device: &buffer.device, pointer: buffer.pointer, len: buffer.len, borrow: PhantomData }
    }
}

impl<T> Clone for BufferView<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BufferView<'_, T> {}

macro_rules! views {
    ($($view:ident: $safety:literal),*) => {$(
        impl<'a, T: Pod> $view<'a, T> {
            /// # Safety
            #[doc = $safety]
            pub(super) unsafe fn of(device: &'a Device, pointer: NonNull<T>, len: usize) -> Self {
                Self { device, pointer, len, borrow: PhantomData }
            }

            pub(crate) fn first_byte(&self) -> *mut u8 {
                self.pointer.as_ptr().cast()
            }

            /// `len` elements from `start` on, which are within the view.
            pub(crate) fn part(self, start: usize, len: usize) -> Self {
                assert!(
                    start <= self.len && len <= self.len - start,
                    "elements {start} and {len} more of {}",
                    self.len
                );
                // SAFETY: `start` is at most the view's length.
                Self { pointer: unsafe { self.pointer.add(start) }, len, ..self }
            }

            /// The device that owns the memory.
            pub fn device(&self) -> &'a Device {
                self.device
            }

            /// Number of elements.
            pub fn len(&self) -> usize {
                self.len
            }

            /// Whether it has no elements.
            pub fn is_empty(&self) -> bool {
                self.len == 0
            }
        }
    )*};
}

views! {
    BufferView: "The memory is the device's and has `len` elements. Within the lifetime they are written only through \
                 exclusive borrows.",
    BufferViewMut: "The memory is the device's and has `len` elements. No other code uses them within the lifetime."
}

impl<T: Pod> BufferView<'_, T> {
    /// Copies the elements into `data`, after all work queued on the device.
    ///
    /// # Errors
    /// The lengths differ, or the device failed, now or in an earlier kernel.
    pub fn copy_to(&self, data: &mut [T]) -> Result<(), DeviceError> {
        check_lengths("copying from the device", self.len, data.len())?;
        if size_of_val(data) == 0 {
            return self.device.synchronize();
        }
        // SAFETY: the view's elements are valid, and the slice has the same length.
        unsafe { self.device.raw_read(bytemuck::cast_slice_mut(data), self.pointer.as_ptr().cast()) }
    }

    /// Copies the elements into a vector, after all work queued on the device.
    ///
    /// # Errors
    /// The device failed, now or in an earlier kernel.
    pub fn to_vec(&self) -> Result<Vec<T>, DeviceError> {
        let mut data = vec![T::zeroed(); self.len];
        self.copy_to(&mut data)?;
        Ok(data)
    }
}

impl<T: Pod> BufferViewMut<'_, T> {
    /// Reborrows the elements, to pass the view on and keep it.
    pub fn reborrow(&mut self) -> BufferViewMut<'_, T> {
        BufferViewMut { device: self.device, pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    /// Reborrows the elements for kernels to read.
    pub fn as_view(&self) -> BufferView<'_, T> {
        BufferView { device: self.device, pointer: self.pointer, len: self.len, borrow: PhantomData }
    }

    /// Copies `data` into the elements, after all work queued on the device.
    ///
    /// # Errors
    /// The lengths differ, or the device failed, now or in an earlier kernel.
    pub fn copy_from(&mut self, data: &[T]) -> Result<(), DeviceError> {
        check_lengths("copying to the device", self.len, data.len())?;
        if size_of_val(data) == 0 {
            return self.device.synchronize();
        }
        // SAFETY: the view's elements are valid and exclusively borrowed, and the slice has the same length.
        unsafe { self.device.raw_write(self.pointer.as_ptr().cast(), bytemuck::cast_slice(data)) }
    }

    /// Marks the elements as uninitialised, so that Miri reports reads before the next write. Without Miri it does nothing.
    ///
    /// # Safety
    /// Every element is written before it is read.
    pub unsafe fn mark_uninit(&mut self) {
        if cfg!(miri) {
            let nothing = Box::<[T]>::new_uninit_slice(self.len);
            let elements = self.pointer.as_ptr().cast::<MaybeUninit<T>>();
            // SAFETY: the view's elements are valid, exclusively borrowed, and in host memory, the only one under Miri.
            unsafe { elements.copy_from_nonoverlapping(nothing.as_ptr(), self.len) };
        }
    }
}

fn check_lengths(action: &'static str, buffer: usize, slice: usize) -> Result<(), DeviceError> {
    if buffer == slice { Ok(()) } else { Err(DeviceError::LengthMismatch { action, buffer, slice }) }
}

#[cfg(test)]
mod tests {
    use super::resolve;

    #[test]
    fn ranges_are_resolved_and_checked() {
        assert_eq!(resolve(.., 5).unwrap(), (0, 5));
        assert_eq!(resolve(2..4, 5).unwrap(), (2, 2));
        assert_eq!(resolve(2..=4, 5).unwrap(), (2, 3));
        assert_eq!(resolve(5.., 5).unwrap(), (5, 0));
        assert_eq!(resolve(..0, 0).unwrap(), (0, 0));
        for (start, end) in [(0, 6), (6, 6), (4, 3), (usize::MAX, usize::MAX)] {
            let error = resolve(start..end, 5).unwrap_err().to_string();
            assert!(error.contains("buffer of 5 elements"), "{error}");
        }
        assert!(resolve(..=usize::MAX, 5).is_err());
    }
}
