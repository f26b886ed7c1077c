//! Allocates buffers.

use bytemuck::Pod;

use super::buffer::Buffer;
use super::cuda::{CudaDevice, Lane};
use super::error::DeviceError;
use super::handle::Device;
use super::memory::Contents;

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
        self.gpu().map_or(Ok(()), CudaDevice::trim)
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
