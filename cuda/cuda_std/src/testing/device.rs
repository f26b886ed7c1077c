//! Where a test's kernels run: the requirements for a GPU, and the CPU.

use core::alloc::Layout;
use core::error::Error;
use std::sync::Arc;

use crate::launch::{Launcher, Residence};
use crate::simt::Executor;
use crate::simt::zones::Region;

/// The least alignment of a device's memory in bytes: that of `cuMemAlloc`.
pub const ALIGNMENT: usize = 256;

/// Something that runs kernels on its own memory, such as a CUDA device.
///
/// A host library implements its three short functions for its device, and every test can run there.
pub trait TestDevice: Launcher {
    /// Returns its name in reports.
    fn name(&self) -> String;

    /// Allocates memory with a copy of `bytes`, aligned to [`ALIGNMENT`].
    ///
    /// # Errors
    /// If there is not enough memory, or the device failed.
    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>>;
}

/// Memory of a [`TestDevice`], freed when dropped.
///
/// # Safety
/// The pointer is valid there for reads and writes of all bytes that were uploaded, and no other code uses them.
pub unsafe trait DeviceMemory {
    /// Returns a pointer to the first byte, as kernels on the device take it.
    fn pointer(&self) -> *mut u8;

    /// Returns the residence of the memory.
    fn residence(&self) -> Residence;

    /// Copies the bytes back, after every kernel that was launched before; `bytes` has the length of the upload.
    ///
    /// # Errors
    /// If one of those kernels or the device failed.
    fn download(&self, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// Memory of this process.
struct HostMemory {
    first: *mut u8,
    /// The length of the upload.
    len: usize,
    from: From,
}

/// Where memory of this process comes from.
enum From {
    /// Between zones that the test watches.
    Region {
        /// Keeps the memory alive.
        _region: Arc<Region>,
    },
    /// From the allocator, not a byte longer than needed: Miri knows its end.
    Allocator(Layout),
}

impl TestDevice for Executor {
    fn name(&self) -> String {
        "the CPU".to_owned()
    }

    fn upload(&self, bytes: &[u8]) -> Result<Box<dyn DeviceMemory>, Box<dyn Error + Send + Sync>> {
        if let Some(region) = self.watch().and_then(|watch| watch.region(bytes)) {
            let first = region.pointer();
            return Ok(Box::new(HostMemory {
                first,
                len: bytes.len(),
                from: From::Region { _region: region },
            }));
        }
        let layout = Layout::from_size_align(bytes.len().max(1), ALIGNMENT)?;
        // SAFETY: the layout has at least one byte.
        let first = unsafe { std::alloc::alloc(layout) };
        if first.is_null() {
            return Err(format!("could not allocate {} bytes", layout.size()).into());
        }
        // SAFETY: new memory of that many bytes.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), first, bytes.len()) };
        Ok(Box::new(HostMemory { first, len: bytes.len(), from: From::Allocator(layout) }))
    }
}

// SAFETY: the memory belongs to this value until it is dropped, and is accessed only through the pointer.
unsafe impl DeviceMemory for HostMemory {
    fn pointer(&self) -> *mut u8 {
        self.first
    }

    fn residence(&self) -> Residence {
        Residence::Host
    }

    fn download(&self, bytes: &mut [u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
        assert!(bytes.len() <= self.len, "more bytes than there are");
        // SAFETY: the memory has that many bytes, and launches on the executor have ended.
        unsafe { core::ptr::copy_nonoverlapping(self.pointer(), bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let From::Allocator(layout) = self.from {
            // SAFETY: memory of the allocator with this layout; it is not used afterwards.
            unsafe { std::alloc::dealloc(self.first, layout) };
        }
    }
}
