//! The time that a device spends on copies.

use std::time::Duration;

use ferrowarp_device::device::Device;

/// The time that the device had spent on copies at some moment.
pub(super) struct Transfers {
    to_device: Duration,
    to_host: Duration,
}

impl Transfers {
    pub fn now(device: &Device) -> Self {
        let times = device.transfer_times();
        Transfers { to_device: times.host_to_device.time, to_host: times.device_to_host.time }
    }

    /// The time spent since then, to the device and from it.
    pub fn since(&self, device: &Device) -> (Duration, Duration) {
        let now = Self::now(device);
        (now.to_device.saturating_sub(self.to_device), now.to_host.saturating_sub(self.to_host))
    }

    /// `elapsed` without the time spent since then.
    pub fn without(&self, device: &Device, elapsed: Duration) -> Duration {
        let (to_device, to_host) = self.since(device);
        elapsed.saturating_sub(to_device + to_host)
    }
}
