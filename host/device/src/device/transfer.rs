//! The times of copies between host and device.

use std::time::Duration;

/// The totals of the copies in one direction.
///
/// ```
/// use ferrowarp::device::{Device, DeviceError, Transfer};
///
/// let device = Device::cpu();
/// let _buffer = device.upload(&[0.0f64; 100])?;
/// let Transfer { bytes, copies, .. } = device.transfer_times().host_to_device;
/// assert_eq!((bytes, copies), (800, 1));
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Wall-clock time, without the wait for earlier kernels.
    pub time: Duration,
    /// Bytes.
    pub bytes: u64,
    /// Number of copies.
    pub copies: u64,
}

impl Transfer {
    pub(super) fn add(&mut self, time: Duration, bytes: usize) {
        self.time += time;
        self.bytes += bytes as u64;
        self.copies += 1;
    }
}

/// All copies of a device since it was opened.
///
/// ```
/// use ferrowarp::device::{Device, TransferTimes};
///
/// assert_eq!(Device::cpu().transfer_times(), TransferTimes::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferTimes {
    /// Copies into the device's memory.
    pub host_to_device: Transfer,
    /// Copies out of the device's memory.
    pub device_to_host: Transfer,
}
