//! Allocates buffers.

use bytemuck::Pod;

use super::{Backend, Buffer, Device, DeviceError, cuda};

impl Device {
    /// Allocates a buffer of `len` elements with all bytes zero.
    ///
    /// # Errors
    /// The device is out of memory or failed.
    pub fn alloc_zeroed<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        Buffer::filled(self, len, 0)
    }

    /// Allocates a buffer of `len` elements that kernels must write before they read. Its bytes are arbitrary: 0xab on a
    /// device with soiled memory.
    pub(crate) fn alloc_unwritten<T: Pod>(&self, len: usize) -> Result<Buffer<T>, DeviceError> {
        let is_soiled = matches!(&self.inner.backend, Backend::Cuda(cuda) if cuda.unwritten_len() > 0);
        Buffer::filled(self, len, if is_soiled { cuda::soil::BYTE } else { 0 })
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
