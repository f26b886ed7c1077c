//! Why an allocation fails.

use super::cpu::ALIGNMENT;
use super::error::DeviceError;
use super::placement::FreeMemory;

/// Why an allocation failed.
pub(super) enum RawAllocError {
    /// There is not enough memory.
    Full {
        /// The reason in words.
        reason: String,
        /// The free memory, if it is known.
        memory: Option<FreeMemory>,
    },
    /// Something else failed.
    Device(DeviceError),
}

impl From<DeviceError> for RawAllocError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl RawAllocError {
    pub(super) fn system_is_full() -> Self {
        Self::full("the system does not have that much")
    }

    pub(super) fn full(reason: impl Into<String>) -> Self {
        Self::Full { reason: reason.into(), memory: None }
    }
}

/// Allocates the bytes of `len` elements with `allocate`, which is not called for 0 bytes. `device` has the memory, in words.
pub(super) fn allocate<T, M>(
    device: impl FnOnce() -> String,
    len: usize,
    allocate: impl FnOnce(usize) -> Result<M, RawAllocError>,
) -> Result<Option<M>, DeviceError> {
    const { assert!(align_of::<T>() <= ALIGNMENT, "the element's alignment is over the allocator's") };
    let allocated = match len.checked_mul(size_of::<T>()) {
        None => Err(RawAllocError::full("more bytes than an address can count")),
        Some(0) => Ok(None),
        Some(bytes) => allocate(bytes).map(Some),
    };
    allocated.map_err(|error| match error {
        RawAllocError::Full { reason, memory } => DeviceError::OutOfMemory {
            device: device(),
            elements: len,
            element_bytes: size_of::<T>(),
            reason,
            memory,
        },
        RawAllocError::Device(error) => error,
    })
}
