//! Where a test's kernels run: what a GPU has to offer, and the CPU.

use core::error::Error;

use crate::launch::{Launcher, Residence};
use crate::simt::Executor;

/// Alignment in bytes that a device's memory has at least.
pub const ALIGNMENT: usize = 64;

/// Something that runs kernels on memory of its own, such as a CUDA device.
///
/// A host library implements it for its device, three short functions, and every test can run there.
pub trait TestDevice: Launcher {
    /// What reports call it.
    fn name(&self) -> String;

    /// New memory with a copy of `bytes`, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// There is not so much memory, or the device failed.
    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>>;
}

/// Memory of a [`TestDevice`], free when dropped.
///
/// # Safety
/// The pointer is valid there for reads and writes of all bytes that were uploaded, and nobody else uses them.
pub unsafe trait DeviceMemory {
    /// The first byte, as kernels on the device take it.
    fn pointer(&self) -> *mut u8;

    /// In whose memory it lies.
    fn residence(&self) -> Residence;

    /// Copies the bytes back, after every kernel that was launched before; `bytes` is as long as what was uploaded.
    ///
    /// # Errors
    /// One of those kernels failed, or the device did.
    fn download(&self, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// As much memory as is aligned together.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; ALIGNMENT]);

/// Memory of this process.
struct HostMemory {
    /// From a vector of lines, which [`Drop`] makes of it again.
    first: *mut Line,
    lines: usize,
}

impl TestDevice for Executor {
    fn name(&self) -> String {
        "the CPU".to_owned()
    }

    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        let mut lines = vec![Line([0; ALIGNMENT]); bytes.len().div_ceil(ALIGNMENT)];
        for (line, bytes) in lines.iter_mut().zip(bytes.chunks(ALIGNMENT)) {
            line.0[..bytes.len()].copy_from_slice(bytes);
        }
        let lines = Box::leak(lines.into_boxed_slice());
        Ok(Box::new(HostMemory { first: lines.as_mut_ptr(), lines: lines.len() }))
    }
}

// SAFETY: the lines are this value's own until it is dropped, and are reached through the pointer only.
unsafe impl DeviceMemory for HostMemory {
    fn pointer(&self) -> *mut u8 {
        self.first.cast()
    }

    fn residence(&self) -> Residence {
        Residence::Host
    }

    fn download(&self, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        assert!(bytes.len() <= self.lines * ALIGNMENT, "more bytes than there are");
        // SAFETY: the lines have that many bytes, and launches on the executor have ended.
        unsafe { core::ptr::copy_nonoverlapping(self.pointer(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        let lines = core::ptr::slice_from_raw_parts_mut(self.first, self.lines);
        // SAFETY: pointer and length of the box that was leaked; nobody uses them afterwards.
        drop(unsafe { Box::from_raw(lines) });
    }
}
