//! How much memory there is, where unified memory lies, and how that is used.

use std::fmt;

/// The possible locations of unified memory.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError, Place};
///
/// let device = Device::cpu();
/// let numbers = device.alloc_unified::<f32>(1024)?;
/// numbers.prefetch(512.., Place::Device, &device.default_stream())?;
/// assert_eq!(numbers.host()?[600], 0.0);
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The host's memory.
    Host,
    /// The device's memory.
    Device,
}

/// How unified memory will be used. It affects only times, never values.
///
/// ```
/// use ferrowarp::device::{Advice, Device, DeviceError, Place};
///
/// let table = Device::cpu().alloc_unified::<u32>(256)?;
/// table.advise(.., Advice::PreferredPlace(Place::Host))?; // It stays there,
/// table.advise(.., Advice::AccessedBy(Place::Device))?; // and kernels read it from afar.
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// It is read far more often than written: each reader of a page gets a copy, and a write drops all copies except one.
    ReadMostly,
    /// Pages go to this place and stay there.
    PreferredPlace(Place),
    /// Pages are mapped for accesses from this place wherever they lie, if the hardware supports it.
    AccessedBy(Place),
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
