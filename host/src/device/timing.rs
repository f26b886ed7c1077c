//! Timing of a device's work with its own clock.

use std::time::{Duration, Instant};

use super::{Backend, Device, DeviceError};

impl Device {
    /// The result of `work`, and how long the device took for what it queued.
    ///
    /// On a GPU these are two events in the default stream around the work, and one synchronisation after it: the time runs
    /// from the end of what was queued before, so work that keeps the device busy meanwhile hides what queueing
    /// costs. On the CPU it is wall time.
    ///
    /// ```
    /// use ferrowarp::device::{Device, DeviceError};
    ///
    /// let device = Device::cpu();
    /// let (buffer, time) = device.time(|| device.upload(&[0u8; 4096]))?;
    /// assert_eq!(buffer.len(), 4096);
    /// println!("{time:?}");
    /// # Ok::<(), DeviceError>(())
    /// ```
    ///
    /// # Errors
    /// What `work` answers, or the device failed.
    pub fn time<R, E: Into<DeviceError>>(
        &self,
        work: impl FnOnce() -> Result<R, E>,
    ) -> Result<(R, Duration), DeviceError> {
        self.refuse_in_recorded_work("timing")?;
        match &self.inner.backend {
            Backend::Cpu(_) => {
                let start = Instant::now();
                let result = work().map_err(Into::into)?;
                Ok((result, start.elapsed()))
            }
            Backend::Cuda(cuda) => cuda.time(|| work().map_err(Into::into)),
        }
    }

    /// Bytes of the GPU's level-2 cache; none for the CPU, whose caches are not the device's affair.
    ///
    /// # Errors
    /// The driver does not say.
    pub fn l2_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(None),
            Backend::Cuda(cuda) => cuda.l2_bytes().map(Some),
        }
    }

    /// Bytes of the GPU's memory that are free now; none for the CPU.
    ///
    /// # Errors
    /// The driver does not say, or the device failed.
    pub fn free_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(None),
            Backend::Cuda(cuda) => cuda.memory().map(|memory| Some(memory.free)),
        }
    }
}
