//! Allocates buffers.

use std::fmt;

use bytemuck::Pod;

use super::cuda::Lane;
use super::memory::Contents;
use super::{Backend, Buffer, Device, DeviceError};

impl Device {
    /// Allocates a buffer of `len` elements with all bytes zero. On a GPU the memory comes from a pool, in the order of the
    /// default stream; another stream may use it at once.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    pub fn alloc_zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::new(self, &Lane::default(), len, Contents::Zeros)
    }

    /// Waits for all queued work, and gives the memory of dropped buffers, which a GPU keeps for later ones, back to the system.
    ///
    /// # Errors
    /// Same as for [`Self::synchronize`].
    pub fn trim(&self) -> Result<(), DeviceError> {
        self.wait_before("trimming the device's memory")?;
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(()),
            Backend::Cuda(cuda) => cuda.trim(),
        }
    }

    /// Allocates a buffer with a copy of `data`.
    ///
    /// Elements of your own type need `Pod` from the crate bytemuck, whose feature `derive` implements it for a
    /// `#[repr(C)]` struct without padding. A kernel takes them as `&[Particle]`:
    ///
    /// ```
    /// use bytemuck::{Pod, Zeroable};
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// #[derive(Clone, Copy, Pod, Zeroable)]
    /// #[repr(C)]
    /// struct Particle {
    ///     position: [f32; 3],
    ///     mass: f32,
    /// }
    ///
    /// let particles = [Particle { position: [0.0; 3], mass: 1.5 }; 8];
    /// let buffer = Device::cpu().upload(&particles)?;
    /// assert_eq!(buffer.to_vec()?[7].mass, 1.5);
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// The device is out of memory or failed.
    pub fn upload<T: Pod>(&self, data: &[T]) -> Result<Buffer<T>, DeviceError> {
        let mut buffer = self.alloc_zeroed(data.len())?;
        buffer.copy_from(data)?;
        Ok(buffer)
    }
}

/// A device's free and total memory.
///
/// ```
/// use ferrowarp::device::FreeMemory;
///
/// let memory = FreeMemory { free: 3 << 20, total: 8 << 20 };
/// assert_eq!(memory.to_string(), "3 of 8 MiB are free");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeMemory {
    /// Free bytes, possibly fragmented.
    pub free: usize,
    /// Total bytes.
    pub total: usize,
}

impl fmt::Display for FreeMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} MiB are free", self.free >> 20, self.total >> 20)
    }
}
