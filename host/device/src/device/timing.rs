//! Times a device's work with its own clock.

use std::time::{Duration, Instant};

use super::{Backend, Device, DeviceError};

impl Device {
    /// Runs `work`, and returns its result and the device's time for the work it queued.
    ///
    /// A GPU records two events in the default stream around the work and synchronises afterwards. The time starts at the
    /// end of earlier queued work, so earlier work that keeps the device busy hides the cost of queueing. On the CPU it is
    /// wall time.
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
    /// The errors of `work`, or the device failed.
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

    /// Bytes of the GPU's L2 cache; `None` for the CPU.
    ///
    /// # Errors
    /// The driver does not report it.
    pub fn l2_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(None),
            Backend::Cuda(cuda) => cuda.l2_bytes().map(Some),
        }
    }

    /// Free bytes of the GPU's memory; `None` for the CPU.
    ///
    /// # Errors
    /// The driver does not report it, or the device failed.
    pub fn free_bytes(&self) -> Result<Option<usize>, DeviceError> {
        match &self.inner.backend {
            Backend::Cpu(_) => Ok(None),
            Backend::Cuda(cuda) => cuda.memory().map(|memory| Some(memory.free)),
        }
    }
}
