//! How long the copies between host and device took.

use std::time::Duration;

/// Copies in one direction, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transfer {
    /// Wall-clock time, without the wait for kernels that were queued before the copy.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransferTimes {
    /// Copies into the device's memory.
    pub host_to_device: Transfer,
    /// Copies out of the device's memory.
    pub device_to_host: Transfer,
}
