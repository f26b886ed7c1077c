//! Pointers to shared memory as the device's instructions take them.

use core::fmt;

/// A pointer to shared memory of the block. On the device it is a 32-bit address; a generic pointer has 64 bits and is
/// converted at each use. Use it for addresses that a loop computes for
/// [`pipeline::memcpy_async`](crate::pipeline::memcpy_async), [`mma::ldmatrix`](crate::mma::ldmatrix) and similar functions:
/// a constant distance from it is part of the instruction.
///
/// ```
/// use cuda_std::launch::LaunchConfig;
/// use cuda_std::shared::SharedPtr;
/// use cuda_std::simt::Executor;
/// use cuda_std::{kernel, pipeline, shared_array, thread};
///
/// /// # Safety
/// /// Launched with blocks of 32 threads; one element for each thread.
/// #[kernel(min_arch = 80)]
/// pub unsafe fn copy(inp: &[u32], out: *mut u32) {
///     let (tile, i) = (shared_array![u32; 32], thread::thread_idx_x());
///     let place = SharedPtr::from(tile).wrapping_byte_add(4 * i);
///     // SAFETY: each thread copies and reads its own element.
///     unsafe {
///         pipeline::memcpy_async(place, &inp[thread::index_1d() as usize]);
///         pipeline::wait_all();
///         *out.add(thread::index_1d() as usize) = *tile.add(i as usize);
///     }
/// }
///
/// let (inp, mut out) = ([7; 32], [0; 32]);
/// // SAFETY: one block.
/// unsafe { copy::launch(&Executor::new(), LaunchConfig::new(1, 32), &inp, &mut out) }?;
/// assert_eq!(out, inp);
/// # Ok::<(), cuda_std::launch::LaunchError>(())
/// ```
pub struct SharedPtr<T> {
    /// The address within shared memory.
    #[cfg(target_arch = "nvptx64")]
    address: u32,
    #[cfg(target_arch = "nvptx64")]
    elements: core::marker::PhantomData<*mut T>,
    #[cfg(not(target_arch = "nvptx64"))]
    pointer: *mut T,
}

// Not derived, since a pointer can be copied whatever its element type.
impl<T> Clone for SharedPtr<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for SharedPtr<T> {}

impl<T> fmt::Debug for SharedPtr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        #[cfg(target_arch = "nvptx64")]
        return write!(f, "SharedPtr({:#x})", self.address);
        #[cfg(not(target_arch = "nvptx64"))]
        write!(f, "SharedPtr({:p})", self.pointer)
    }
}

impl<T> From<*mut T> for SharedPtr<T> {
    /// Converts the pointer. If it does not point to shared memory of the block, the result points nowhere.
    #[inline(always)]
    fn from(pointer: *mut T) -> Self {
        #[cfg(target_arch = "nvptx64")]
        {
            let address;
            // SAFETY: the instructions only compute a number.
            unsafe {
                core::arch::asm!(
                    "{{ .reg .b64 wide; cvta.to.shared.u64 wide, {}; cvt.u32.u64 {}, wide; }}",
                    in(reg64) pointer, out(reg32) address, options(pure, nomem, nostack, preserves_flags),
                );
            }
            Self { address, elements: core::marker::PhantomData }
        }
        #[cfg(not(target_arch = "nvptx64"))]
        Self { pointer }
    }
}

impl<T> From<*const T> for SharedPtr<T> {
    /// Converts the pointer, as from `*mut T`.
    #[inline(always)]
    fn from(pointer: *const T) -> Self {
        Self::from(pointer.cast_mut())
    }
}

impl<T> SharedPtr<T> {
    /// Returns the address `bytes` bytes further.
    #[inline(always)]
    pub fn wrapping_byte_add(self, bytes: u32) -> Self {
        #[cfg(target_arch = "nvptx64")]
        return Self { address: self.address.wrapping_add(bytes), ..self };
        #[cfg(not(target_arch = "nvptx64"))]
        Self { pointer: self.pointer.wrapping_byte_add(bytes as usize) }
    }

    /// Casts to a pointer to `U`.
    #[inline(always)]
    pub fn cast<U>(self) -> SharedPtr<U> {
        #[cfg(target_arch = "nvptx64")]
        return SharedPtr { address: self.address, elements: core::marker::PhantomData };
        #[cfg(not(target_arch = "nvptx64"))]
        SharedPtr { pointer: self.pointer.cast() }
    }

    /// The address within shared memory.
    #[cfg(target_arch = "nvptx64")]
    #[inline(always)]
    pub(crate) fn address(self) -> u32 {
        self.address
    }

    /// The pointer that it was created from, advanced by the same distance.
    #[cfg(not(target_arch = "nvptx64"))]
    pub(crate) fn pointer(self) -> *mut T {
        self.pointer
    }
}
